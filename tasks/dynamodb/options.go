package dynamodb

import (
	"errors"
	"net/url"
	"regexp"
	"strings"
	"sync"

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
