#!/bin/sh
# setup/rust-target.sh TARGET...: makes sure that the standard library of Rust is there for each target.
set -eu
libraries=$(rustc --print sysroot)/lib/rustlib
for target; do
	[ ! -d "$libraries/$target/lib" ] || continue
	if command -v rustup >/dev/null; then
		rustup target add "$target"
	else
		echo "The standard library of Rust for $target is missing in $libraries, and there is no rustup to install it." >&2
		exit 1
	fi
done
