package config

// The variables that name the user's directories, and where those are below the home directory without them (Known Folders: what
// belongs to a user on one machine is local, what follows the user is roaming).
const (
	HomeVariable   = "USERPROFILE"
	StateVariable  = "LOCALAPPDATA"
	ConfigVariable = "APPDATA"

	stateBelowHome  = `AppData\Local`
	configBelowHome = `AppData\Roaming`

	// StatePlace and ConfigPlace say the same for the help.
	StatePlace  = `%LOCALAPPDATA%\runnel`
	ConfigPlace = `%APPDATA%\runnel\runnel.yaml`
)
