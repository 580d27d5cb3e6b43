package redis

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"runnel/internal/system"
	"runnel/tasks/engine"
)

// Options of a State.
type Options struct {
	Server string // HOST:PORT
	TLS    bool
	DB     int    // the number of the server's database
	Prefix string // of keys and channels; "" = runnel
	// Credentials is a file with one line, USER PASSWORD or PASSWORD alone; "" = none. It is read for each
	// connection: it may change.
	Credentials string
	// RootCA is a file with the certificates that sign the server's, "" = the system's.
	RootCA string
	engine.Options
}

// Parse makes Options of a URL: redis://HOST[:PORT][/DB][?prefix=P&creds=FILE&ca=FILE], or rediss:// for TLS.
// Credentials are never part of it: they come from a file, which creds or the environment variable
// RUNNEL_REDIS_CREDS names.
func Parse(state string, getenv func(string) string) (Options, error) {
	o := Options{Credentials: getenv("RUNNEL_REDIS_CREDS")}
	form := engine.URLForm{
		Schemes: []string{"redis", "rediss"}, Example: "redis://host:6379?prefix=runnel",
		Secrets: "put USER PASSWORD in a file, and name it with ?creds=FILE or RUNNEL_REDIS_CREDS",
		Options: map[string]*string{"prefix": &o.Prefix, "creds": &o.Credentials, "ca": &o.RootCA},
	}
	u, err := form.Parse(state)
	if err != nil {
		return o, err
	}
	if u.Hostname() == "" || strings.Contains(u.Host, ",") {
		return o, errors.New("the URL of the state names one server: use one such as " + form.Example)
	}
	o.Server, o.TLS = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "6379")), u.Scheme == "rediss"
	if db := strings.Trim(u.Path, "/"); db != "" {
		if o.DB, err = strconv.Atoi(db); err != nil || o.DB < 0 {
			return o, fmt.Errorf("the URL of the state has the path /%.32s: use the number of a database, "+
				"such as /0", db)
		}
	}
	if o.RootCA != "" && !o.TLS {
		return o, errors.New("ca=FILE needs TLS: use rediss://")
	}
	return o, nil
}

// maxSecretFile limits a file of credentials or certificates, in bytes.
const maxSecretFile = 1 << 20

// credentials reads the file of credentials.
func (o *Options) credentials() (user, password string, err error) {
	if o.Credentials == "" {
		return "", "", nil
	}
	text, err := system.ReadNamed(o.Credentials, maxSecretFile)
	if err != nil {
		return "", "", fmt.Errorf("the credentials of the state: %w", err)
	}
	switch fields := strings.Fields(string(text)); len(fields) {
	case 1:
		return "default", fields[0], nil
	case 2:
		return fields[0], fields[1], nil
	}
	return "", "", fmt.Errorf("the credentials of the state: %s holds neither USER PASSWORD nor PASSWORD "+
		"on one line", o.Credentials)
}

// tlsConfig returns the TLS configuration, nil without TLS.
func (o *Options) tlsConfig() (*tls.Config, error) {
	if !o.TLS {
		return nil, nil
	}
	host, _, _ := net.SplitHostPort(o.Server)
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host}
	if o.RootCA != "" {
		pem, err := system.ReadNamed(o.RootCA, maxSecretFile)
		if err != nil {
			return nil, fmt.Errorf("the certificates of the state: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the certificates of the state: %s holds none", o.RootCA)
		}
	}
	return config, nil
}
