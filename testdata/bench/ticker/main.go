// Ticker writes COUNT lines, one each MS milliseconds, that carry their time: a command for a worker.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

func main() {
	count, _ := strconv.Atoi(os.Args[1])
	ms, _ := strconv.Atoi(os.Args[2])
	tick := time.NewTicker(time.Duration(ms) * time.Millisecond)
	for i := range count {
		<-tick.C
		fmt.Printf("chunk %06d t=%d\n", i, time.Now().UnixNano())
	}
}
