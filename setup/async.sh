#!/bin/sh
# setup/async.sh: has in target/tools/async the gems async and async-http, for Ruby 3.3, as Debian's unstable release has them: Debian
# 12 and 13 have version 1, which is older than the schedulers of Ruby. They run in the Debian 13 of setup/debian-root.sh.
set -eu
cd "$(dirname "$0")/.."

folder=target/tools/async
[ ! -f $folder/complete ] || exit 0
packages="ruby-async ruby-async-http ruby-async-pool ruby-console ruby-fiber-annotation ruby-fiber-local ruby-fiber-storage
	ruby-io-endpoint ruby-io-event ruby-io-stream ruby-metrics ruby-protocol-hpack ruby-protocol-http ruby-protocol-http1
	ruby-protocol-http2 ruby-protocol-url ruby-traces"
echo "Unpacking Debian's gem async in $folder: once, some seconds"
rm -rf $folder
mkdir -p $folder
# The mirror is the one from which this machine has its own Debian.
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' 'Origin: Debian' 'Label: Debian' 'Component: main' \
	2>/dev/null | head -n 1) || mirror=
# An apt of its own, which neither knows nor changes what this machine has.
apt=$PWD/$folder/apt
mkdir -p "$apt/lists/partial" "$apt/archives/partial"
: >"$apt/status"
echo "deb ${mirror:-http://deb.debian.org/debian} sid main" >"$apt/sources.list"
get() {
	apt-get -qq -o APT::Sandbox::User=root -o Acquire::Languages=none -o Dir::Cache="$apt" -o Dir::State="$apt" \
		-o Dir::State::status="$apt/status" -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null "$@"
}
get update
# shellcheck disable=SC2086
(cd "$apt" && get download $packages)
for package in "$apt"/*.deb; do dpkg-deb --extract "$package" $folder; done
rm -rf "$apt"
touch $folder/complete
