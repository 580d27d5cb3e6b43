package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// FileName is the name of the config file where none is named.
const FileName = "runnel.yaml"

// Places are where a config file is looked for when none is named: the working directory, then the
// user's configuration ($XDG_CONFIG_HOME, on Windows %APPDATA%, which count only if they are absolute).
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

// Find returns the first of the places where a file is, "" if there is none.
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
