package sse

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// Streams as servers send them: with comments, CRLF, several lines of data, a byte order mark, and cut off
// anywhere, which loses the last event and no other.
func TestRead(t *testing.T) {
	for stream, want := range map[string]string{
		"event: a\ndata: 1\n\ndata: 2\n\n":                    "a=1 =2 ",
		": ping\n\ndata:{\"x\":\r\ndata: 1}\r\n\r\nid: 7\n\n": "= ={\"x\":\n1} = ",
		"\ufeffdata: 1\nretry: 20\nretry: x\n\n":              "=1 ",
		"data: 1\n\ndata: 2\n":                                "=1 ",
		"data: 1\n\nevent: b\nda":                             "=1 ",
		"data: " + strings.Repeat("x", 9000) + "\n\n":         "=" + strings.Repeat("x", 9000) + " ",
	} {
		for _, in := range []io.Reader{strings.NewReader(stream), iotest.OneByteReader(strings.NewReader(stream))} {
			got := ""
			err := Read(in, 10_000, func(e Event) error {
				got += fmt.Sprintf("%s=%s ", e.Name, e.Data)
				return nil
			})
			if err != nil || got != want {
				t.Errorf("%.60q: %q, %v, want %q", stream, got, err, want)
			}
		}
	}
}

// What is too long is refused, in one line and in many; what the caller or the connection says ends the
// reading.
func TestReadEnds(t *testing.T) {
	own := errors.New("own")
	for _, test := range []struct {
		in   io.Reader
		hand error
		want error
	}{
		{strings.NewReader("data: " + strings.Repeat("x", 101) + "\n\n"), nil, ErrTooLong},
		{strings.NewReader(strings.Repeat("data: "+strings.Repeat("x", 60)+"\n", 2) + "\n"), nil, ErrTooLong},
		{strings.NewReader("data: 1\n\n"), own, own},
		{io.MultiReader(strings.NewReader("data: 1\n\n"), iotest.ErrReader(own)), nil, own},
	} {
		if err := Read(test.in, 100, func(Event) error { return test.hand }); !errors.Is(err, test.want) {
			t.Errorf("%v, want %v", err, test.want)
		}
	}
}
