#!/bin/sh
# setup/cargo-tool.sh NAME VERSION [FEATURES]: has a tool of cargo's in target/tools/bin, without its default features. It is built
# once for all checkouts of this user, in a folder of their cache that has its name, version and features; target/tools/bin has a
# link to it.
set -eu
cd "$(dirname "$0")/.."
name=$1
version=$2
features=${3-}

links=$PWD/target/tools/bin
tool=${XDG_CACHE_HOME:-$HOME/.cache}/oribi/$name-$version${features:+-$features}
# Some tools know their version only as a command of cargo's.
says_version() { "$tool/bin/$name" --version 2>/dev/null || "$tool/bin/$name" "${name#cargo-}" --version 2>/dev/null; }
case "$(says_version)" in
*" $version" | *" v$version") ;;
*)
	echo "Building $name $version in $tool: once, a few minutes"
	# Optimised it would take several times as long to build, to save a second in each run.
	CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --locked --debug --version "$version" --no-default-features \
		--features "$features" --root "$tool" --target-dir "$tool/build" "$name"
	rm -rf "$tool/build"
	;;
esac
mkdir -p "$links"
ln -sfn "$tool/bin/$name" "$links/$name"
