package propose

import (
	"strings"

	"go.yaml.in/yaml/v4"
)

// compose proposes to build, start, inspect and stop the services of a compose file.
func compose(d dir) (file string, tools []Tool) {
	file, text := d.read("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")
	var names []string
	each(get(mapping(text), "services"),
		func(name string, _ *yaml.Node) { names = append(names, quoted(name)) })
	if len(names) == 0 {
		return "", nil
	}
	services := []Input{{"services",
		"{type: array, items: {type: string, enum: [" + strings.Join(names, ", ") + "]}, default: []}",
		false}}
	run := func(words ...string) []string { return append([]string{"docker", "compose"}, words...) }
	return file, []Tool{
		{Name: "compose_build", Description: "Build the images of some services, or of all",
			Command: run("--progress=plain", "build", "{{services}}"), Inputs: services,
			Progress: dockerProgress, Timeout: "1h"},
		{Name: "compose_up", Description: "Start some services, or all, and wait until they are healthy",
			Command: run("up", "--detach", "--wait", "{{services}}"), Inputs: services, Timeout: "30m"},
		{Name: "compose_ps", Description: "Show the services and their state", Command: run("ps", "--all"),
			Timeout: "1m", ReadOnly: true},
		{Name: "compose_logs", Description: "Show the last log lines of some services, or all",
			Command: run("logs", "--no-color", "--tail=200", "{{services}}"), Inputs: services, Timeout: "1m",
			ReadOnly: true},
		{Name: "compose_down", Description: "Stop the services and remove their containers",
			Command: run("down"), Timeout: "10m", Confirm: true},
	}
}

// docker proposes to build the image of a Dockerfile.
func docker(d dir) (file string, tools []Tool) {
	file, _ = d.read("Dockerfile", "Containerfile")
	if file == "" {
		return "", nil
	}
	return file, []Tool{{
		Name: "docker_build", Description: "Build the image of the " + file,
		Command:  []string{"docker", "build", "--progress=plain", "--file=" + file, "--tag={{tag}}", "."},
		Inputs:   []Input{{"tag", "{type: string, description: name of the image}", false}},
		Progress: dockerProgress, Timeout: "1h",
	}}
}
