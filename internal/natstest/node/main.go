// Command node is one NATS server of a test, until its stdin ends.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

func main() {
	options := &server.Options{Host: "127.0.0.1", JetStream: true, NoLog: true, NoSigs: true}
	flag.StringVar(&options.ServerName, "name", "", "its name in the cluster")
	flag.StringVar(&options.StoreDir, "dir", "", "where it stores")
	flag.IntVar(&options.Port, "port", 0, "for clients")
	route := flag.Int("route", 0, "its port for the other nodes; 0 = it is alone")
	routes := flag.String("routes", "", "URLs of all nodes")
	flag.Parse()
	if *route != 0 {
		options.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: *route}
		options.Routes = server.RoutesFromStr(*routes)
	}
	s, err := server.NewServer(options)
	if err != nil {
		fail(err)
	}
	s.Start()
	if !s.ReadyForConnections(30 * time.Second) {
		fail(fmt.Errorf("the node %s is not ready", options.ServerName))
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // it ends with the test
	s.Shutdown()
	s.WaitForShutdown()
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
