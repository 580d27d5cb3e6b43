//go:build unix

package config

// These variables name the user's directories, which otherwise are below the home directory (XDG Base
// Directory Specification).
const (
	HomeVariable   = "HOME"
	StateVariable  = "XDG_STATE_HOME"
	ConfigVariable = "XDG_CONFIG_HOME"

	stateBelowHome  = ".local/state"
	configBelowHome = ".config"

	// StatePlace and ConfigPlace describe these directories in the help.
	StatePlace  = "$XDG_STATE_HOME/runnel or ~/.local/state/runnel"
	ConfigPlace = "runnel/runnel.yaml in $XDG_CONFIG_HOME or ~/.config"
)
