package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// FileName is the name of the config file that is looked for.
const FileName = "runnel.yaml"

// Places returns the directories in which a config file is looked for when none is named: the working directory, then the user's
// configuration ($XDG_CONFIG_HOME, on Windows %APPDATA%, which count only if they are absolute).
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

// Find returns the first config file in Places, "" if none exists.
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
