package dynamodb

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aws/smithy-go"

	"runnel/tasks"
	"runnel/tasks/engine"
)

// These errors tell people why something cannot be stored or read.

// refused turns a refusal into an error that says what the user can do.
func (sp *space) refused(err error) error {
	table := sp.server.o.Table
	refusal, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return err
	}
	code := refusal.ErrorCode()
	said := fmt.Errorf("%s: %s", code, refusal.ErrorMessage()) // err names hosts and requests, too
	switch {
	case code == "ResourceNotFoundException":
		return tasks.Trouble{Err: fmt.Errorf("%w: there is no table %s here; create it as \"runnel help "+
			"states\" says, or name another region or endpoint: %w", tasks.ErrRemoved, table, said)}
	case strings.HasPrefix(code, "AccessDenied"):
		return tasks.Trouble{Err: fmt.Errorf("the table %s refuses it to these credentials: \"runnel help "+
			"states\" says what their policy must allow: %w", table, said)}
	case strings.Contains(code, "Token") || code == "UnrecognizedClientException" ||
		strings.Contains(code, "Signature") || code == "InvalidClientTokenId":
		return tasks.Trouble{Err: fmt.Errorf("the table %s asks for other AWS credentials (AWS_PROFILE, "+
			"AWS_ACCESS_KEY_ID, a role): %w", table, said)}
	case code == "ItemCollectionSizeLimitExceededException":
		return tasks.Trouble{Err: fmt.Errorf("the table %s has a local index, which bounds what a task "+
			"may store: make one without: %w", table, said)}
	}
	return tasks.Trouble{Err: fmt.Errorf("the table %s refuses it: %w", table, said)}
}

// where names the place of the owner's items, for people.
func (sp *space) where() string { return sp.root + "* in the table " + sp.server.o.Table }

func (sp *space) unreachable(err error) error {
	return tasks.Trouble{Err: engine.Away{Err: fmt.Errorf("the table %s has not answered, or has no "+
		"throughput left: %w", sp.server.o.Table, err)}}
}
