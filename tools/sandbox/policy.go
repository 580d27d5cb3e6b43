package sandbox

import (
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Policy says what a child may do. All paths are absolute; those that do not exist when the child starts are
// left out.
type Policy struct {
	Write []string // the files and directories that it may change, with all below them
	Read  []string // those that it may read and execute, besides the system's; nil = all
	Hide  []string // those that it may not read, whatever Read says
	Keep  []string // those that it may not change, although they are below Write; needs namespaces

	Network bool // it may reach the network; otherwise it has its own, with a loopback interface alone

	// Proxied: something listens at ProxyAddress in its own network. Listening gets that listener before the
	// child's start returns. It needs namespaces.
	Proxied   bool
	Listening func(net.Listener) `json:"-"`

	Sockets bool // it may use unix sockets, which may lead to programs outside
	Limits  Limits
}

// ProxyPort is above the ports that a system gives on its own, and of no known protocol.
const ProxyPort = 61080

// ProxyAddress is where a proxied child finds its proxy, in its own network.
const ProxyAddress = "127.0.0.1:61080"

// Limits bounds what a child may use; 0 = as this program. They are the system's, for each process by itself,
// but Processes, which counts all.
type Limits struct {
	Memory    uint64        // bytes of data
	Processes uint64        // and threads
	CPU       time.Duration // processor time, rounded up to seconds
	Files     uint64        // that are open
	FileSize  uint64        // bytes
}

// Secrets returns what a sandbox hides of a home: keys, tokens, browsers' profiles, and the configs of
// programs that run commands for their user.
func Secrets(home string) []string {
	var list []string
	for _, name := range []string{
		".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".netrc", ".npmrc", ".pypirc",
		".git-credentials",
		".config/gh", ".config/gcloud", ".config/hub", ".config/op", ".config/rclone", ".config/sops",
		".cargo/credentials.toml", ".gem/credentials", ".m2/settings.xml",
		".terraform.d/credentials.tfrc.json",
		".password-store", ".local/share/keyrings", ".local/share/kwalletd", ".vault-token",
		".mozilla", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware",
		".config/microsoft-edge",
		".bash_history", ".zsh_history", ".psql_history", ".node_repl_history", ".python_history",
		".claude", ".claude.json", ".codex", ".gemini", ".qwen", ".copilot", ".cursor",
		".config/opencode", ".pi",
		".local/share/opencode", ".local/state/runnel", ".config/runnel",
	} {
		list = append(list, filepath.Join(home, name))
	}
	return list
}

// secretWords are parts of the names of variables that hold secrets.
var secretWords = []string{
	"TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL",
	"PRIVATE_KEY", "API_KEY", "APIKEY", "ACCESS_KEY", "AUTH_SOCK", "DBUS_SESSION",
}

// IsSecret reports whether a variable of that name holds a secret, or leads to a program that has secrets.
func IsSecret(name string) bool {
	name = strings.ToUpper(name)
	return slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(name, word) })
}

// systemFiles are what a command may read that may not read all: without them hardly any program starts.
var systemFiles = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/dev", "/proc", "/sys",
}

// RunsLater are names of files that other programs run when they come to a directory: a command that may
// change the directory may not change those that are there.
var RunsLater = []string{
	".git/hooks", ".git/config", "runnel.yaml", "runnel.yml", ".envrc", ".vscode", ".idea",
	".mcp.json", ".claude", ".cursor", ".gemini", ".codex",
	".profile", ".bashrc", ".bash_profile", ".zshrc", ".zshenv", ".zprofile", ".config/fish",
}
