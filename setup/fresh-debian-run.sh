#!/bin/sh
# setup/fresh-debian-run.sh RELEASE FOLDER COMMAND...: runs a command, as root, in a bare Debian that setup/debian-root.sh RELEASE
# made. FOLDER is its /mnt, read-only; nothing else of this machine is there but the network, and nothing that the command writes
# or installs is there afterwards. The command's processes have a PID namespace of their own and end with it.
#
# ORIBI_FRESH_TOOLS may name folders of this machine, separated by colons, that are visible at their own paths, read-only.
set -eu
checkout=$(cd "$(dirname "$0")/.." && pwd -P)

give_up() {
	echo "setup/fresh-debian-run.sh: $1" >&2
	exit 1
}

[ $# -gt 2 ] || give_up "usage: setup/fresh-debian-run.sh RELEASE FOLDER COMMAND..."
roots=${ORIBI_DEBIAN_ROOTS:-${XDG_CACHE_HOME:-$HOME/.cache}/oribi/debian}
base=$(realpath -m "$roots/debian$1.base")
[ -d "$base" ] || give_up "$base is missing: setup/debian-root.sh $1 makes it."
folder=$(realpath "$2")
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null || give_up "only root can enter $base, and sudo is missing."
	# sudo has another HOME.
	export ORIBI_DEBIAN_ROOTS="$roots"
	exec sudo --preserve-env=ORIBI_DEBIAN_ROOTS,ORIBI_FRESH_TOOLS,http_proxy,https_proxy "$0" "$@"
fi
shift 2
tools=${ORIBI_FRESH_TOOLS-}
http_proxy=${http_proxy-$(apt-config dump --format '%v' Acquire::http::Proxy)}
https_proxy=${https_proxy-$(apt-config dump --format '%v' Acquire::https::Proxy)}
export base folder tools http_proxy https_proxy
# The mount point of the overlay, on which nothing is ever written.
root=$(mktemp -d)
export root
status=0
# The shell stays: the namespace's first process must wait for the orphans, and its end is the end of all others.
# shellcheck disable=SC2016
unshare --mount --pid --fork --kill-child sh -euc '
	mount -t tmpfs tmpfs "$root"
	mkdir "$root/upper" "$root/work" "$root/debian"
	mount -t overlay -o lowerdir="$base",upperdir="$root/upper",workdir="$root/work" overlay "$root/debian"
	cd "$root/debian"
	mount -t proc proc proc
	mount -t tmpfs -o mode=1777 tmpfs tmp
	mount -t tmpfs -o mode=755 tmpfs run
	mount --bind -o ro "$folder" mnt
	mount --rbind /dev dev
	cp /etc/resolv.conf etc/resolv.conf
	IFS=:
	for tool in $tools; do
		mkdir -p ".$tool"
		mount --bind -o ro "$tool" ".$tool"
	done
	unset IFS
	for name in http_proxy https_proxy; do
		eval "[ -z \"\$$name\" ] || set -- \"$name=\$$name\" \"\$@\""
	done
	status=0
	chroot . env -i -C /tmp HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@" || status=$?
	exit $status' sh "$@" || status=$?
rmdir "$root"
exit $status
