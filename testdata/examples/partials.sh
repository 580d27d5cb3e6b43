#!/bin/sh
# Runs a tool and lists what came in partials, and how it ended: partials.sh TOOL [KEY=VALUE...] -- SERVER...
set -e
runnel call --output ndjson "$@" | jq -rc '
  if .method == "notifications/tasks/partial" then .params | "partial \(.seq): \([.content[].text] | add | rtrimstr("\n"))"
  elif (.result.result // .result | .content?) then "result: \([(.result.result // .result).content[].text] | add)"
  else empty end'
