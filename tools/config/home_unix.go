//go:build unix

package config

// The variables that name the user's directories, and where those are below the home directory without them (XDG Base Directory
// Specification).
const (
	HomeVariable   = "HOME"
	StateVariable  = "XDG_STATE_HOME"
	ConfigVariable = "XDG_CONFIG_HOME"

	stateBelowHome  = ".local/state"
	configBelowHome = ".config"

	// StatePlace and ConfigPlace say the same for the help.
	StatePlace  = "$XDG_STATE_HOME/runnel or ~/.local/state/runnel"
	ConfigPlace = "runnel/runnel.yaml in $XDG_CONFIG_HOME or ~/.config"
)
