package cli

import (
	"io"
	"strings"
	"testing"
)

// A program that is not a server often says how it is called.
func TestNotAServer(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	env := []string{"HOME=" + t.TempDir(), "PATH=/usr/bin:/bin"}
	code := Run(t.Context(), []string{"tools", "--", "/bin/sh", "-c", "echo 'usage: tool [FLAGS]'; exit 3"},
		env, nil, io.Discard, &said)
	if code != exitFailure || !strings.HasSuffix(said.String(),
		": the server ended with exit status 3; the last line that it wrote is not a message: usage: tool [FLAGS]\n") {
		t.Error(code, said.String())
	}
}
