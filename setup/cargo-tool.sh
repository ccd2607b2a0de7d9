#!/bin/sh
# setup/cargo-tool.sh NAME VERSION: builds a tool of cargo's into target/tools unless this version of it is there.
set -eu
cd "$(dirname "$0")/.."
name=$1
version=$2

tools=$PWD/target/tools
case "$("$tools/bin/$name" --version 2>/dev/null)" in
*" $version") exit 0 ;;
esac
echo "Building $name $version: once, a few minutes"
# Optimised it would take several times as long to build, to save a second in each run.
CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --locked --debug --version "$version" --no-default-features \
	--root "$tools" --target-dir "$tools/build" "$name"
rm -rf "$tools/build"
