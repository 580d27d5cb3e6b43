// Package dynatest runs servers that speak DynamoDB's protocol, for tests.
package dynatest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

//go:embed npm
var files embed.FS

// Table is the name of a server's table.
const Table = "runnel"

// Server is a server for one test, with a table that is made as the manual says.
type Server struct {
	Endpoint string
	Client   *dynamodb.Client
	port     string
	file     string // "" = in memory
	cmd      *exec.Cmd
}

// Environ returns credentials that such a server accepts, for the environment of a process.
func Environ() []string {
	return []string{"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=s3cret-of-this-test",
		"AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE=/none", "AWS_SHARED_CREDENTIALS_FILE=/none"}
}

// Start runs a server on a free port until the end of the test. The test is skipped on machines that have
// none.
func Start(t testing.TB) *Server {
	t.Helper()
	return run(t, "")
}

// StartOnDisk runs a server that keeps its data when it is started again.
func StartOnDisk(t testing.TB) *Server {
	t.Helper()
	return run(t, filepath.Join(t.TempDir(), "table"))
}

func run(t testing.TB, file string) *Server {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes a server: make race runs it")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	_ = listener.Close()
	s := &Server{Endpoint: "http://127.0.0.1:" + port, port: port, file: file}
	s.Begin(t)
	t.Cleanup(func() { s.Kill(t) })
	conf, err := config.LoadDefaultConfig(t.Context(), config.WithRegion("test"),
		config.WithCredentialsProvider(aws.CredentialsProviderFunc(
			func(context.Context) (aws.Credentials, error) {
				return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
			})))
	if err != nil {
		t.Fatal(err)
	}
	s.Client = dynamodb.NewFromConfig(conf, func(o *dynamodb.Options) { o.BaseEndpoint = &s.Endpoint })
	s.CreateTable(t)
	return s
}

// DeleteTable deletes the table with everything in it.
func (s *Server) DeleteTable(t testing.TB) {
	t.Helper()
	if _, err := s.Client.DeleteTable(t.Context(),
		&dynamodb.DeleteTableInput{TableName: aws.String(Table)}); err != nil {
		t.Fatal(err)
	}
}

// CreateTable makes the table. Its time to live is the attribute expires, or another one.
func (s *Server) CreateTable(t testing.TB, ttl ...string) {
	t.Helper()
	ttl = append(ttl, "expires")
	ctx := t.Context()
	if _, err := s.Client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: aws.String(Table), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String("sk"), AttributeType: types.ScalarAttributeTypeS},
		},
		KeySchema: []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String("sk"), KeyType: types.KeyTypeRange}},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName: aws.String(Table), TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: &ttl[0], Enabled: aws.Bool(true)},
	}); err != nil {
		t.Fatal(err)
	}
}

// Begin starts the server, with the data that it has stored.
func (s *Server) Begin(t testing.TB) {
	t.Helper()
	args := []string{"serve", "--port", s.port}
	if s.file != "" {
		args = append(args, "--db-path", s.file)
	}
	s.cmd = exec.Command(program(t), args...)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", "127.0.0.1:"+s.port)
		if err == nil {
			_ = c.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the server is not ready: " + err.Error())
		}
	}
}

// Kill ends the server.
func (s *Server) Kill(t testing.TB) {
	if s.cmd.ProcessState != nil {
		return
	}
	_ = s.cmd.Process.Kill()
	if err := s.cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Error(err)
	}
}

// installLimit is how long npm may take.
const installLimit = 2 * time.Minute

// program returns the server that tests run: Dynoxide, which npm installs by the lock file.
// RUNNEL_TEST_DYNAMODB may name another program that takes its arguments.
func program(t testing.TB) string {
	t.Helper()
	if name := os.Getenv("RUNNEL_TEST_DYNAMODB"); name != "" {
		return name
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("Dynoxide, the DynamoDB server of the tests, is installed on Linux on x86-64: name one " +
			"with RUNNEL_TEST_DYNAMODB")
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("npm is not installed: it brings Dynoxide, the DynamoDB server of the tests; or name that " +
			"with RUNNEL_TEST_DYNAMODB")
	}
	root, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	lock, err := files.ReadFile("npm/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	root = filepath.Join(root, "runnel-dynamodb")
	sum := sha256.Sum256(bytes.ReplaceAll(lock, []byte("\r"), nil))
	dir := filepath.Join(root, hex.EncodeToString(sum[:6]))
	found := filepath.Join(dir, "node_modules", "@dynoxide", "linux-x64", "dynoxide")
	if _, err := os.Stat(found); err == nil {
		return found
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	part, err := os.MkdirTemp(root, "part-") //nolint:usetesting // it is renamed, so it stands on the same file system
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(part) }()
	for _, name := range []string{"package.json", "package-lock.json"} {
		text, err := files.ReadFile("npm/" + name)
		if err == nil {
			err = os.WriteFile(filepath.Join(part, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), installLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund",
		"--loglevel=error")
	cmd.Dir = part
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm ci of Dynoxide: %v: this needs an npm registry that can be reached\n%s", err, out)
	}
	if err := os.Rename(part, dir); err != nil && !errors.Is(err, fs.ErrExist) { // another process was first
		t.Fatal(err)
	}
	return found
}
