package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// FileName is the name of a config file in the directories of Places.
const FileName = "runnel.yaml"

// Places returns the paths at which to look for a config file if none is named: in the working directory, then in the user's configuration
// directory ($XDG_CONFIG_HOME, on Windows %APPDATA%, if it is absolute).
func Places(getenv func(string) string) []string {
	places := []string{FileName}
	if dir := getenv(ConfigVariable); filepath.IsAbs(dir) {
		return append(places, filepath.Join(dir, "runnel", FileName))
	}
	if home := getenv(HomeVariable); filepath.IsAbs(home) {
		places = append(places, filepath.Join(home, configBelowHome, "runnel", FileName))
	}
	return places
}

// Find returns the first file that exists, "" if none does. Pass it Places.
func Find(places []string) (string, error) {
	for _, file := range places {
		_, err := os.Stat(file)
		if err == nil {
			return file, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", nil
}
