#!/bin/sh
# Releases a version by the steps of the config in this folder: release.sh VERSION. On a terminal it asks before it
# publishes; elsewhere --yes answers. Ctrl+C, a reboot or kill -9 lose nothing that has ended: the next runnel
# with this config goes on.
version=$1
shift
cd "$(dirname "$0")" && exec runnel call release version="$version" --config runnel.yaml "$@"
