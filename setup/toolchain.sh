#!/bin/sh
# setup/toolchain.sh [lint]: makes sure of a C compiler and of a Rust that is new enough; with `lint` of rustfmt and clippy.
# It installs neither compiler: which one to have is the user's choice.
set -eu
cd "$(dirname "$0")/.."

if ! command -v cc >/dev/null; then
	echo "A C compiler is missing. On Debian: apt-get install gcc libc6-dev" >&2
	exit 1
fi

wanted=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
if ! command -v cargo >/dev/null || ! found=$(rustc --version 2>/dev/null); then
	cat >&2 <<-TEXT
		Rust is missing; Oribi needs $wanted or newer. Get it from https://rustup.rs:
		    curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh
		then open a new shell and try again. (The rustc of Debian 12 is too old.)
	TEXT
	exit 1
fi
found=${found#rustc }
found=${found%% *}
oldest=$(printf '%s\n%s\n' "$wanted" "${found%%-*}" | sort -V | head -n 1)
if [ "$oldest" != "$wanted" ]; then
	cat >&2 <<-TEXT
		Rust $found is too old; Oribi needs $wanted or newer.
		    with rustup:        rustup update stable
		    from Debian 12:     get a newer one from https://rustup.rs, then open a new shell
		and try again.
	TEXT
	exit 1
fi

[ "${1-}" = lint ] || exit 0
for tool in fmt:rustfmt clippy:clippy; do
	if ! cargo "${tool%%:*}" --version >/dev/null 2>&1; then
		if command -v rustup >/dev/null; then
			rustup component add "${tool##*:}"
		else
			echo "cargo ${tool%%:*} is missing: install ${tool##*:} for Rust $found" >&2
			exit 1
		fi
	fi
done
