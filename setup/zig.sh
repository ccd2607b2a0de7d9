#!/bin/sh
# setup/zig.sh VERSION: has zig in target/tools/bin, whose C compiler links with the symbols of an older glibc. It is installed
# from PyPI once for all checkouts of this user, in an environment of its own in a folder of their cache that has its name and
# version; target/tools/bin has a link to it.
set -eu
cd "$(dirname "$0")/.."
version=$1

tool=${XDG_CACHE_HOME:-$HOME/.cache}/oribi/zig-$version
if [ ! -f "$tool/complete" ]; then
	echo "Installing zig $version in $tool: once, a minute"
	rm -rf "$tool"
	/usr/bin/python3 -m venv "$tool"
	"$tool/bin/pip" install --quiet --disable-pip-version-check --no-deps --only-binary :all: "ziglang==$version"
	touch "$tool/complete"
fi
mkdir -p target/tools/bin
ln -sfn "$(echo "$tool"/lib/python3*/site-packages/ziglang/zig)" target/tools/bin/zig
