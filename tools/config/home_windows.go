package config

// These variables name the user's directories, which otherwise are below the home directory (Known Folders:
// Local stays on one machine, Roaming follows the user).
const (
	HomeVariable   = "USERPROFILE"
	StateVariable  = "LOCALAPPDATA"
	ConfigVariable = "APPDATA"

	stateBelowHome  = `AppData\Local`
	configBelowHome = `AppData\Roaming`

	// StatePlace and ConfigPlace describe these directories in the help.
	StatePlace  = `%LOCALAPPDATA%\runnel`
	ConfigPlace = `%APPDATA%\runnel\runnel.yaml`
)
