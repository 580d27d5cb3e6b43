package dynamodb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"runnel/tasks/engine"
)

// writeTimeout is how long a write is tried before it fails with tasks.ErrBusy.
const writeTimeout = 10 * time.Second

// State is a tasks.State in DynamoDB.
type State struct{ *engine.State }

// New returns a state. It does not connect yet, nor look for credentials.
func New(o Options) *State {
	if o.Prefix == "" {
		o.Prefix = "runnel"
	}
	if o.Pace == 0 {
		o.Pace = pace
	}
	return &State{engine.New(&server{o: o}, "table "+o.Table, o.Options)}
}

// server is the engine: a table.
type server struct {
	o      Options
	client *dynamodb.Client // nil until Connect
}

// pace is the shortest time between two writes of a task's output, since each costs money.
const pace = 250 * time.Millisecond

// answerTimeout is how long one request may take.
const answerTimeout = 5 * time.Second

// Connect implements engine.Engine.
func (s *server) Connect(ctx context.Context) error {
	if s.client != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	var options []func(*config.LoadOptions) error
	if s.o.Region != "" {
		options = append(options, config.WithRegion(s.o.Region))
	}
	conf, err := config.LoadDefaultConfig(ctx, options...)
	switch {
	case err != nil:
		return fmt.Errorf("the AWS configuration cannot be read: %w", err)
	case conf.Region == "":
		return errors.New("its region is not known: add ?region=NAME to the URL of the state, or set " +
			"AWS_REGION")
	}
	if _, err := conf.Credentials.Retrieve(ctx); err != nil {
		return fmt.Errorf("there are no AWS credentials: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and "+
			"AWS_SECRET_ACCESS_KEY, or give the machine a role: %w", err)
	}
	s.client = dynamodb.NewFromConfig(conf, func(o *dynamodb.Options) {
		o.Retryer = aws.NopRetryer{} // space.try does it
		o.HTTPClient = awshttp.NewBuildableClient().WithTimeout(answerTimeout)
		if s.o.Endpoint != "" {
			o.BaseEndpoint = aws.String(s.o.Endpoint)
		}
	})
	return nil
}

// Disconnect implements engine.Engine. There is no connection to close.
func (s *server) Disconnect() {}
