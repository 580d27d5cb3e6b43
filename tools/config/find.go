package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// FileName is the name of a config file in the directories of Places.
const FileName = "runnel.yaml"

// Project returns the path of the project's config file: FileName in the working directory or, in a
// repository of Git, in the nearest directory above that has one, up to the repository's root. If there is
// none, it is FileName.
func Project() string {
	there := func(path string) bool { _, err := os.Lstat(path); return err == nil }
	file := func(path string) bool { return there(path) && !isDir(path) }
	dir, err := os.Getwd()
	if err != nil || file(FileName) {
		return FileName
	}
	found := FileName
	for !there(filepath.Join(dir, ".git")) {
		above := filepath.Dir(dir)
		if above == dir { // there is no repository
			return FileName
		}
		dir = above
		if path := filepath.Join(dir, FileName); found == FileName && file(path) {
			found = path
		}
	}
	return found
}

// Within returns the config file that a path names: the file, or that of a directory.
func Within(path string) string {
	if isDir(path) {
		return filepath.Join(path, FileName)
	}
	return path
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Places returns the paths at which to look for a config file if none is named: in the working directory,
// then in the user's configuration directory ($XDG_CONFIG_HOME, on Windows %APPDATA%, if it is absolute).
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
