package dynamodb

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"runnel/tasks/engine"
)

// Options of a State.
type Options struct {
	Table    string
	Region   string // "" = that of the AWS configuration
	Endpoint string // the URL of a server other than AWS; "" = that of the region
	Prefix   string // begins all partition keys; "" = runnel
	engine.Options
}

// Parse makes Options of a URL: dynamodb://TABLE[?region=R&endpoint=URL&prefix=P]. Credentials are never part of it: they come from the
// standard chain of AWS, which is the environment, the shared config and credentials files, and the role of the machine.
func Parse(state string) (Options, error) {
	u, err := url.Parse(state)
	if err != nil {
		return Options{}, errors.New("the state is not a URL such as dynamodb://TABLE?region=eu-central-1") // the error would show what may be a secret
	}
	o := Options{Table: u.Host}
	switch {
	case u.Scheme != "dynamodb":
		return o, fmt.Errorf("the state has the scheme %s: use dynamodb://", u.Scheme)
	case u.User != nil:
		return o, errors.New("the URL of a state holds no credentials: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine a role")
	case !tableName.MatchString(u.Host) || strings.Trim(u.Path, "/") != "":
		return o, errors.New("the URL of the state names a table, of 3 to 255 letters, digits, -, _ and .: dynamodb://TABLE?region=eu-central-1")
	}
	for name, values := range u.Query() {
		value := values[0]
		switch name {
		case "region":
			o.Region = value
		case "endpoint":
			o.Endpoint = value
		case "prefix":
			o.Prefix = value
		default:
			return o, fmt.Errorf("the URL of the state has the option %.32q: known are region, endpoint and prefix; credentials come from the environment or the AWS configuration", name)
		}
	}
	if e, err := url.Parse(o.Endpoint); o.Endpoint != "" && (err != nil || e.User != nil || e.Host == "" || e.Scheme != "http" && e.Scheme != "https") {
		return o, errors.New("endpoint= is not a URL without credentials, such as http://127.0.0.1:8000")
	}
	if o.Region != "" && !engine.IsToken(o.Region) {
		return o, errors.New("region= is not the name of a region, such as eu-central-1")
	}
	if o.Prefix != "" && !engine.IsToken(o.Prefix) {
		return o, fmt.Errorf("prefix=%.32s: use up to 64 letters, digits, - and _", o.Prefix)
	}
	return o, nil
}

// tableName matches the names that AWS allows.
var tableName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{3,255}$`)
