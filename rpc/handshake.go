package rpc

import "slices"

// builtin are the methods that rpc itself serves.
var builtin = []methodKey{
	{Handshake, "initialize"},
	{Handshake, "notifications/initialized"},
	{Handshake, "notifications/cancelled"},
	{Handshake, "ping"},
}

func isBuiltin(k methodKey) bool { return slices.Contains(builtin, k) }
