package tasks

const MaxMemory = maxMemory

func (m *Memory) Held() int64 { return m.held }
