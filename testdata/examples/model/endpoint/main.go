// A provider of language models that says what it is given, a word every 30 ms: endpoint TEXT. It prints its
// URL.
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"runnel/internal/modeltest"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	_, _ = fmt.Fprintf(os.Stdout, "http://%s\n", listener.Addr())
	words := strings.SplitAfter(strings.Join(os.Args[1:], " "), " ")
	log.Fatal(http.Serve(listener, &modeltest.Endpoint{Answers: []modeltest.Answer{
		{Tokens: words, Input: 42, Pace: 30 * time.Millisecond}}}))
}
