package propose

import "strings"

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
		{Name: "configure", Description: "Configure the project into the directory build", Command: []string{"cmake", "-S", ".", "-B", "build"}, Timeout: "30m"},
		{Name: "build", Description: "Compile the project configured in the directory build, or one target", Command: []string{"cmake", "--build", "build", "--parallel", "--target={{target}}"}, Inputs: []Input{{"target", one, false}}, Progress: progress, Timeout: "1h"},
	}
	if strings.Contains(text, "enable_testing") || strings.Contains(text, "CTest") || strings.Contains(text, "add_test") {
		tools = append(tools, Tool{
			Name: "test", Description: "Run the tests of the directory build, or those that match a regular expression", Command: []string{"ctest", "--test-dir", "build", "--output-on-failure", "-R", "{{match}}"},
			Inputs: []Input{{"match", `{type: string, default: "."}`, false}}, Progress: ctestProgress, Timeout: "30m",
		})
	}
	return file, tools
}

// meson proposes to configure, build and test a project in the directory build.
func meson(d dir) (file string, tools []Tool) {
	file, _ = d.read("meson.build")
	if file == "" {
		return "", nil
	}
	return file, []Tool{
		{Name: "configure", Description: "Configure the project into the directory build", Command: []string{"meson", "setup", "build"}, Timeout: "30m"},
		{Name: "build", Description: "Compile the project configured in the directory build", Command: []string{"ninja", "-C", "build"}, Progress: ninjaProgress, Timeout: "1h"},
		{Name: "test", Description: "Run the tests of the directory build, all or some", Command: []string{"meson", "test", "-C", "build", "--print-errorlogs", "{{names}}"}, Inputs: []Input{{"names", operands, false}}, Progress: `^ *(\d+)/(\d+) `, Timeout: "30m"},
	}
}
