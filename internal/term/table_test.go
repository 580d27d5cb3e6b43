package term

import (
	"testing"
	"time"
)

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0.0s", 1510 * time.Millisecond: "1.5s", 10 * time.Second: "10s", 20 * time.Second: "20s",
		time.Minute: "1m", 10 * time.Minute: "10m", 10*time.Minute + 10*time.Second: "10m10s",
		time.Hour: "1h0m", 20*time.Hour + 10*time.Minute + 20*time.Second: "20h10m", 72 * time.Hour: "3d",
	} {
		if got := Age(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}
