package propose

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// cmake proposes to configure, build and test a project in the directory build.
func cmake(d dir) (file string, tools []Tool) {
	file, text := d.read("CMakeLists.txt")
	if file == "" {
		return "", nil
	}
	progress := cmakeProgress
	if _, presets := d.read("CMakePresets.json"); strings.Contains(presets, "Ninja") {
		progress = ninjaProgress
	}
	tools = []Tool{
		{Name: "configure", Description: "Configure the project into the directory build",
			Command: []string{"cmake", "-S", ".", "-B", "build"}, Timeout: "30m"},
		{Name: "build", Description: "Compile the project configured in the directory build, or one target",
			Command: []string{"cmake", "--build", "build", "--parallel", "--target={{target}}"},
			Inputs:  []Input{{"target", one, false}}, Progress: progress, Timeout: "1h"},
	}
	if strings.Contains(text, "enable_testing") || strings.Contains(text, "CTest") ||
		strings.Contains(text, "add_test") {
		tools = append(tools, Tool{
			Name: "test", Description: "Run the tests of the directory build, or those that match a regular expression", Command: []string{"ctest", "--test-dir", "build", "--output-on-failure", "-R", "{{match}}"},
			Inputs: []Input{{"match", `{type: string, default: "."}`, false}}, Progress: ctestProgress,
			Timeout: "30m",
		})
	}
	presets := cmakePresets(d)
	for n, t := range tools {
		if i := slices.IndexFunc(presets, func(preset Tool) bool { return preset.Name == t.Name }); i >= 0 {
			tools[n] = presets[i]
		}
	}
	if len(presets) > 0 {
		file += ", CMakePresets.json"
	}
	return file, tools
}

// cmakePresets proposes to configure, build and test with the presets that the project has.
func cmakePresets(d dir) (tools []Tool) {
	_, text := d.read("CMakePresets.json")
	root := mapping(text)
	progress := cmakeProgress
	if strings.Contains(text, "Ninja") {
		progress = ninjaProgress
	}
	for _, step := range []struct {
		key  string
		tool Tool
	}{
		{"configurePresets", Tool{Name: "configure",
			Description: "Configure the project with one of its presets", Command: []string{"cmake"},
			Timeout: "30m"}},
		{"buildPresets", Tool{Name: "build", Description: "Compile the project with one of its presets",
			Command: []string{"cmake", "--build"}, Progress: progress, Timeout: "1h"}},
		{"testPresets", Tool{Name: "test", Description: "Run the tests with one of the presets",
			Command: []string{"ctest"}, Progress: ctestProgress, Timeout: "30m"}},
	} {
		var names []string
		if presets := get(root, step.key); presets != nil && presets.Kind == yaml.SequenceNode {
			for _, preset := range presets.Content {
				if name := value(preset, "name"); name != "" && value(preset, "hidden") != "true" {
					names = append(names, quoted(name))
				}
			}
		}
		if len(names) == 0 {
			continue
		}
		step.tool.Command = append(step.tool.Command, "--preset={{preset}}")
		step.tool.Inputs = []Input{{"preset",
			"{type: string, enum: [" + strings.Join(names, ", ") + "]}", true}}
		tools = append(tools, step.tool)
	}
	return tools
}

// meson proposes to configure, build and test a project in the directory build.
func meson(d dir) (file string, tools []Tool) {
	file, _ = d.read("meson.build")
	if file == "" {
		return "", nil
	}
	return file, []Tool{
		{Name: "configure", Description: "Configure the project into the directory build",
			Command: []string{"meson", "setup", "build"}, Timeout: "30m"},
		{Name: "build", Description: "Compile the project configured in the directory build",
			Command: []string{"ninja", "-C", "build"}, Progress: ninjaProgress, Timeout: "1h"},
		{Name: "test", Description: "Run the tests of the directory build, all or some",
			Command: []string{"meson", "test", "-C", "build", "--print-errorlogs", "{{names}}"},
			Inputs:  []Input{{"names", operands, false}}, Progress: `^ *(\d+)/(\d+) `, Timeout: "30m"},
	}
}
