#!/bin/sh
# setup/rubies.sh: has in target/tools/rubies the rubies for which packages/gem/build-binary builds an extension, for x86-64 and
# 64-bit ARM: for each a folder such as 3.4-arm64, with the files of Debian's packages. Those for x86-64 run in the Debian 13 of
# setup/debian-root.sh, which has the libraries that they need; those for ARM have these with them, and run by qemu. They are made
# once for all checkouts of this user, in a folder of their cache; target/tools/rubies is a link to it. Debian has no Ruby 3.2;
# that for x86-64 is Ubuntu's.
set -eu
cd "$(dirname "$0")/.."

versions="3.1 3.3 3.4"
ubuntu=https://archive.ubuntu.com/ubuntu/pool/main/r/ruby3.2
libraries="libc6 libcrypt1 libffi8 libgcc-s1 libgmp10 libyaml-0-2 ruby-rack zlib1g"

cache=${XDG_CACHE_HOME:-$HOME/.cache}/oribi/rubies-3
if [ ! -f "$cache/complete" ]; then
	echo "Unpacking Debian's rubies in $cache: once, a minute"
	rm -rf "$cache"
	mkdir -p "$cache"
	# The mirror is the one from which this machine has its own Debian.
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' 'Origin: Debian' 'Label: Debian' 'Component: main' \
		2>/dev/null | head -n 1) || mirror=
	for processor in arm64 amd64; do
		[ $processor = arm64 ] || libraries=
		# An apt of its own, which neither knows nor changes what this machine has.
		apt=$cache/apt-$processor
		mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$apt/packages"
		: >"$apt/status"
		for release in bookworm trixie experimental; do echo "deb ${mirror:-http://deb.debian.org/debian} $release main"; done >"$apt/sources.list"
		get() {
			apt-get -qq -o APT::Architecture=$processor -o APT::Architectures=$processor -o APT::Sandbox::User=root \
				-o Acquire::Languages=none -o Dir::Cache="$apt" -o Dir::State="$apt" -o Dir::State::status="$apt/status" \
				-o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null "$@"
		}
		get update
		for version in $versions; do
			(
				mkdir "$apt/packages/$version" "$cache/$version-$processor"
				cd "$apt/packages/$version"
				get download "ruby$version" "ruby$version-dev" "libruby$version" \
					$(for library in $libraries; do echo "$library/trixie"; done)
				# As the package base-files has them.
				ln -s usr/lib usr/lib64 "$cache/$version-$processor"
				for package in *.deb; do dpkg-deb --extract "$package" "$cache/$version-$processor"; done
			)
		done
		rm -rf "$apt"
	done
	# Debian has no keys of Ubuntu, so that these are known by their sums.
	mkdir "$cache/3.2-amd64"
	ln -s usr/lib usr/lib64 "$cache/3.2-amd64"
	while read -r package sum; do
		/usr/lib/apt/apt-helper -qq -o APT::Sandbox::User=root download-file "$ubuntu/$package" "$cache/package.deb" "SHA256:$sum"
		dpkg-deb --extract "$cache/package.deb" "$cache/3.2-amd64"
		rm "$cache/package.deb"
	done <<-END
		ruby3.2_3.2.3-1build3_amd64.deb 48c24a2f8b4f164029fbc83618e531270942e44ebaa436f0bf5fef3cce566dfe
		ruby3.2-dev_3.2.3-1build3_amd64.deb 6dc0c7c8a6a5c6824e6aaa1ffeafe3f4536eb2dbbe682c3849f672aa91f1fb7b
		libruby3.2_3.2.3-1build3_amd64.deb c56a744e1c33945d6b1d50feb019ddb38961efdcf69e0a8d2605aba8f534dd9d
	END
	touch "$cache/complete"
fi
mkdir -p target/tools
ln -sfn "$cache" target/tools/rubies
