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
// user's configuration (XDG Base Directory Specification: $XDG_CONFIG_HOME, which counts only if it is absolute).
func Places(getenv func(string) string) []string {
	places := []string{FileName}
	if dir := getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return append(places, filepath.Join(dir, "runnel", FileName))
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		places = append(places, filepath.Join(home, ".config", "runnel", FileName))
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
