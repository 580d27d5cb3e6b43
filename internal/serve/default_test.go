package serve

import (
	"reflect"
	"testing"
	"time"

	"runnel/tools"
	"runnel/tools/config"
)

// A Go program that serves tools has the defaults of a config file.
func TestDefaultsAreThoseOfTheLibrary(t *testing.T) {
	c, want := config.Default(), tools.DefaultServeOptions()
	got := tools.ServeOptions{
		Pump:          want.Pump,
		SyncWait:      time.Duration(c.Tasks.SyncWait),
		ImmediateWait: time.Duration(c.Tasks.ImmediateWait),
		Heartbeat:     time.Duration(c.Tasks.Heartbeat),
	}
	got.Pump.Pace, got.Pump.MaxBytes = time.Duration(c.Partials.Pace), int(c.Partials.MaxBytes)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the config's are %+v, the library's %+v", got, want)
	}
}
