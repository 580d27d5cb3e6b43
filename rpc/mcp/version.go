package mcp

// Version is one row of the version table: a protocol version and what its messages may hold. Versions are
// compared nowhere else: code asks for a feature.
type Version struct {
	Name string

	Batches           bool // JSON-RPC batches (basic/transports, 2025-03-26 only)
	Annotations       bool // tool annotations
	Audio             bool // audio content
	ProgressMessage   bool // message in notifications/progress
	StructuredContent bool // outputSchema of tools, structuredContent of their results
	AnyStructured     bool // outputSchema and structuredContent are of any type, not only objects
	Titles            bool // title of whatever has a name
	ResourceLinks     bool // resource_link content
	ContentMeta       bool // _meta of content blocks and tools
	Elicitation       bool // elicitation/create
	MultiSelect       bool // fields of its forms that take several choices
	// capabilities.tasks, execution.taskSupport, params.task (experimental, 2025-11-25).
	Tasks         bool
	Icons         bool // icons of tools
	PrimedStreams bool // an SSE stream begins with an empty event, to resume from
	Stateless     bool // no handshake: version and capabilities in every request's _meta
}

// Versions are the protocol versions that runnel knows, oldest first.
var Versions = []*Version{
	{Name: "2024-11-05"},
	{Name: "2025-03-26", Batches: true, Annotations: true, Audio: true, ProgressMessage: true},
	{Name: "2025-06-18", Annotations: true, Audio: true, ProgressMessage: true,
		StructuredContent: true, Titles: true, ResourceLinks: true, ContentMeta: true, Elicitation: true},
	{Name: "2025-11-25", Annotations: true, Audio: true, ProgressMessage: true,
		StructuredContent: true, Titles: true, ResourceLinks: true, ContentMeta: true, Elicitation: true,
		MultiSelect: true, Tasks: true, Icons: true, PrimedStreams: true},
	{Name: "2026-07-28", Annotations: true, Audio: true, ProgressMessage: true,
		StructuredContent: true, Titles: true, ResourceLinks: true, ContentMeta: true, Elicitation: true,
		MultiSelect: true, Icons: true, AnyStructured: true, Stateless: true},
}

// LookupVersion returns the row of a version by its name, nil if runnel does not know it.
func LookupVersion(name string) *Version {
	for _, v := range Versions {
		if v.Name == name {
			return v
		}
	}
	return nil
}

// NewestHandshake returns the version that answers an initialize request for an unknown version
// (basic/lifecycle, "Version Negotiation": the latest one that the server supports).
func NewestHandshake() *Version {
	for i := len(Versions) - 1; ; i-- {
		if !Versions[i].Stateless {
			return Versions[i]
		}
	}
}

// Waits reports whether requests of a method do little but wait. They do not count among the requests in
// flight: many of them must not keep out others, such as the one that cancels what they wait for.
func Waits(method string) bool { return method == "subscriptions/listen" || method == "tasks/result" }
