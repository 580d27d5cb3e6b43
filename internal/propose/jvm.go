package propose

import "strings"

// tests is the input of a tool that runs all tests or some.
func tests(says string) []Input {
	return []Input{{"tests", "{type: string, description: " + quoted(says) + "}", false}}
}

// maven proposes the usual tools for a Maven project, run by its wrapper if it has one.
func maven(d dir) (file string, tools []Tool) {
	file, text := d.read("pom.xml")
	if file == "" {
		return "", nil
	}
	program := "mvn"
	if d.has("mvnw") {
		program = "./mvnw"
	}
	run := func(words ...string) []string {
		return append([]string{program, "--batch-mode", "--no-transfer-progress"}, words...)
	}
	const progress = `^\[INFO\] Building .*\[(\d+)/(\d+)\]`
	tools = []Tool{
		{Name: "test", Description: "Run the tests, all or some",
			Command: run("test", "-Dsurefire.failIfNoSpecifiedTests=false", "-Dtest={{tests}}"),
			Inputs:  tests("names of classes, such as FooTest or FooTest#method"), Progress: progress,
			Timeout: "1h"},
		{Name: "build", Description: "Compile and package the project without running its tests",
			Command: run("package", "-DskipTests"), Progress: progress, Timeout: "1h"},
		{Name: "verify", Description: "Compile, test and check the project", Command: run("verify"),
			Progress: progress, Timeout: "1h"},
	}
	if strings.Contains(text, "spotless-maven-plugin") {
		tools = append(tools,
			Tool{Name: "format", Description: "Format the code with Spotless", Command: run("spotless:apply"),
				Timeout: "10m"},
			Tool{Name: "format_check", Description: "List files that Spotless would format",
				Command: run("spotless:check"), Timeout: "10m"})
	}
	if strings.Contains(text, "maven-checkstyle-plugin") {
		tools = append(tools, Tool{Name: "lint", Description: "Check the style of the code with Checkstyle",
			Command: run("checkstyle:check"), Timeout: "10m"})
	}
	return file, tools
}

// gradle proposes the usual tools for a Gradle project, run by its wrapper if it has one.
func gradle(d dir) (file string, tools []Tool) {
	file, text := d.read("build.gradle.kts", "build.gradle", "settings.gradle.kts", "settings.gradle")
	if file == "" {
		return "", nil
	}
	program := "gradle"
	if d.has("gradlew") {
		program = "./gradlew"
	}
	run := func(words ...string) []string { return append([]string{program, "--console=plain"}, words...) }
	tools = []Tool{
		{Name: "test", Description: "Run the tests, all or some", Command: run("test", "--tests={{tests}}"),
			Inputs: tests("a class, a method or a pattern, such as *FooTest"), Timeout: "1h"},
		{Name: "build", Description: "Compile and package the project without running its tests",
			Command: run("assemble"), Timeout: "1h"},
		{Name: "check", Description: "Run the tests and all checks", Command: run("check"), Timeout: "1h"},
		{Name: "tasks", Description: "List the tasks of the build", Command: run("tasks"), Timeout: "10m"},
	}
	if strings.Contains(text, "com.diffplug.spotless") {
		tools = append(tools,
			Tool{Name: "format", Description: "Format the code with Spotless", Command: run("spotlessApply"),
				Timeout: "10m"},
			Tool{Name: "format_check", Description: "List files that Spotless would format",
				Command: run("spotlessCheck"), Timeout: "10m"})
	}
	if strings.Contains(text, "detekt") {
		tools = append(tools, Tool{Name: "lint", Description: "Look for mistakes in Kotlin code with detekt",
			Command: run("detekt"), Timeout: "10m"})
	}
	return file, tools
}
