package tools

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// ConfigFile is the name of the config file where none is named.
const ConfigFile = "runnel.yaml"

// ConfigPlaces are where a config file is looked for when none is named: the working directory, then the
// user's configuration (XDG Base Directory Specification: $XDG_CONFIG_HOME, which counts only if it is absolute).
func ConfigPlaces(getenv func(string) string) []string {
	places := []string{ConfigFile}
	if dir := getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return append(places, filepath.Join(dir, "runnel", ConfigFile))
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		places = append(places, filepath.Join(home, ".config", "runnel", ConfigFile))
	}
	return places
}

// FindConfig returns the first of the places where a file is, "" if there is none.
func FindConfig(places []string) (string, error) {
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
