// Package rawjson looks at JSON text without decoding it. encoding/json takes some µs for a small object; to walk over one takes 0.1.
package rawjson
