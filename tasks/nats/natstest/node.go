//go:build unix

package natstest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// asNode makes the test binary a node; its value is a nodeOptions.
const asNode = "RUNNEL_TEST_AS_NATS"

type nodeOptions struct {
	Name   string
	Dir    string
	Port   int
	Route  int   // its own port for the others, 0 = it is alone
	Routes []int // those of all nodes
}

// Main runs a node if this process was started as one, and does not return then. A TestMain calls it first.
func Main() {
	text := os.Getenv(asNode)
	if text == "" {
		return
	}
	var o nodeOptions
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = o.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (o *nodeOptions) run() error {
	options := &server.Options{
		ServerName: o.Name, Host: "127.0.0.1", Port: o.Port, JetStream: true, StoreDir: o.Dir, NoLog: true, NoSigs: true,
	}
	if o.Route != 0 {
		options.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: o.Route}
		for _, port := range o.Routes {
			options.Routes = append(options.Routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", port)})
		}
	}
	s, err := server.NewServer(options)
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(30 * time.Second) {
		return fmt.Errorf("the node %s is not ready", o.Name)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // it ends with the test
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}
