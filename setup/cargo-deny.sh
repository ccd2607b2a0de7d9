#!/bin/sh
# setup/cargo-deny.sh: builds cargo-deny into target/tools unless this version of it is there.
set -eu
cd "$(dirname "$0")/.."
version=0.20.2

tools=$PWD/target/tools
case "$("$tools/bin/cargo-deny" --version 2>/dev/null)" in
*" $version") exit 0 ;;
esac
echo "Building cargo-deny $version: once, a few minutes"
# Optimised it would take several times as long to build, to save a second in each run.
CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --locked --debug --version $version --no-default-features \
	--root "$tools" --target-dir "$tools/build" cargo-deny
rm -rf "$tools/build"
