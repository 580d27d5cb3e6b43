package dynamodb

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

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

// Options of a State.
type Options struct {
	Table    string
	Region   string // "" = that of the AWS configuration
	Endpoint string // the URL of a server other than AWS; "" = that of the region
	Prefix   string // begins all partition keys; "" = runnel
	engine.Options
}

// Parse makes Options of a URL: dynamodb://TABLE[?region=R&endpoint=URL&prefix=P]. Credentials are never part
// of it: they come from the standard chain of AWS, which is the environment, the shared config and
// credentials files, and the role of the machine.
func Parse(state string) (Options, error) {
	var o Options
	form := engine.URLForm{
		Schemes: []string{"dynamodb"}, Example: "dynamodb://TABLE?region=eu-central-1",
		Secrets: "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine a role",
		Options: map[string]*string{"region": &o.Region, "endpoint": &o.Endpoint, "prefix": &o.Prefix},
	}
	u, err := form.Parse(state)
	switch {
	case err != nil:
		return o, err
	case !tableName().MatchString(u.Host) || strings.Trim(u.Path, "/") != "":
		return o, errors.New("the URL of the state names a table, of 3 to 255 letters, digits, -, _ and " +
			".: use one such as " + form.Example)
	case o.Region != "" && !engine.IsToken(o.Region):
		return o, errors.New("region= is not the name of a region, such as eu-central-1")
	}
	o.Table = u.Host
	if e, err := url.Parse(o.Endpoint); o.Endpoint != "" &&
		(err != nil || e.User != nil || e.Host == "" || e.Scheme != "http" && e.Scheme != "https") {
		return o, errors.New("endpoint= is not a URL without credentials, such as http://127.0.0.1:8000")
	}
	return o, nil
}

// tableName matches the names that AWS allows.
var tableName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-zA-Z0-9_.-]{3,255}$`)
})

// schema is the version of the items in the table.
const schema = 1

// Open implements engine.Engine.
func (s *server) Open(ctx context.Context, of *engine.Space) (engine.Driver, engine.Queue, error) {
	sp := &space{of: of, server: s, root: s.o.Prefix + ":" + of.Name + ":", last: rand.Uint64N(placeStep)}
	found, err := sp.version(ctx)
	if err == nil && found == "" {
		first := with(sp.key("schema", "schema"), item{"version": number(schema)})
		// Another process was quicker.
		if err = sp.write(ctx, sp.putNew(first)); err == nil || isCondition(err) {
			found, err = sp.version(ctx)
		}
	}
	if err == nil {
		err = engine.CheckSchema(sp.where(), found, strconv.Itoa(schema))
	}
	if err != nil {
		return nil, nil, err
	}
	return sp, nil, nil
}

// version returns the version of the items in the table; "" for a new one.
func (sp *space) version(ctx context.Context) (string, error) {
	i, err := sp.get(ctx, sp.key("schema", "schema"))
	if err != nil || i == nil {
		return "", err
	}
	if n, ok := i["version"].(*types.AttributeValueMemberN); ok {
		return n.Value, nil
	}
	return "unknown", nil
}

// check finds out whether the table still has the version that this runnel knows.
func (sp *space) check(ctx context.Context) error {
	found, err := sp.version(ctx)
	if err != nil {
		return err
	}
	switch found {
	case strconv.Itoa(schema):
		err = nil
	case "":
		err = engine.Removed(sp.where())
	default:
		err = engine.Newer(sp.where())
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.unusable = err
	return err
}
