#!/bin/sh
# setup/debian-root-run.sh RELEASE COMMAND...: runs a command in the Debian that setup/debian-root.sh RELEASE made. This checkout
# is there at its own path, read-write, and the command runs as its owner; the current folder stays the same if it is within the
# checkout. The command's processes have a PID namespace of their own and end with it; its mounts and its /tmp exist for it alone, so
# nothing outside can be deleted through a mount that was left behind. The network and its ports are the machine's.
#
# Of the environment only CI, TERM and names that begin with ORIBI_ go in: for others say `setup/debian-root-run.sh 13 env NAME=VALUE ...`.
set -eu
here=$PWD
checkout=$(cd "$(dirname "$0")/.." && pwd -P)

give_up() {
	echo "setup/debian-root-run.sh: $1" >&2
	exit 1
}

[ $# -gt 1 ] || give_up "usage: setup/debian-root-run.sh RELEASE COMMAND..."
release=$1
roots=${ORIBI_DEBIAN_ROOTS:-${XDG_CACHE_HOME:-$HOME/.cache}/oribi/debian}
chroot=$(realpath -m "$roots/debian$release")
[ -d "$chroot" ] || give_up "$chroot is missing: setup/debian-root.sh $release makes it."
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null || give_up "only root can enter $chroot, and sudo is missing."
	# sudo has another HOME.
	export ORIBI_DEBIAN_ROOTS="$roots"
	kept=$(env | sed -n 's/^\(ORIBI_[A-Z0-9_]*\|CI\|TERM\)=.*/\1/p' | paste -sd , -)
	exec sudo --preserve-env="$kept" "$0" "$@"
fi
unshare --mount --pid --fork true 2>/dev/null ||
	give_up "this kernel or container allows no namespaces; mounting in one needs CAP_SYS_ADMIN (docker run --privileged)."
case "$here/" in
"$checkout"/*) ;;
*) here=$checkout ;;
esac
shift

owner=$(stat -c %u:%g "$checkout")
export checkout here chroot owner
# The shell stays: the namespace's first process must wait for the orphans, and its end is the end of all others.
# shellcheck disable=SC2016
exec unshare --mount --pid --fork --kill-child sh -euc '
	mount -t proc proc "$chroot/proc"
	mount -t tmpfs -o mode=1777 tmpfs "$chroot/tmp"
	# The chroot may be within the checkout; a bind mount brings along no other mount, so it does not lead into itself.
	mkdir -p "$chroot$checkout"
	mount --bind "$checkout" "$chroot$checkout"
	mount -t tmpfs -o mode=755,size=16m tmpfs "$chroot/dev"
	for device in full null random tty urandom zero; do
		: >"$chroot/dev/$device"
		mount --bind "/dev/$device" "$chroot/dev/$device"
	done
	mkdir "$chroot/dev/pts" "$chroot/dev/shm"
	mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts "$chroot/dev/pts"
	mount -t tmpfs -o mode=1777 tmpfs "$chroot/dev/shm"
	ln -s pts/ptmx "$chroot/dev/ptmx"
	ln -s /proc/self/fd "$chroot/dev/fd"
	for stream in stdin:0 stdout:1 stderr:2; do
		ln -s "fd/${stream#*:}" "$chroot/dev/${stream%:*}"
	done

	for name in $(env | sed -n "s/^\(ORIBI_[A-Z0-9_]*\|CI\|TERM\)=.*/\1/p"); do
		eval "set -- \"$name=\$$name\" \"\$@\""
	done
	status=0
	chroot --userspec="$owner" "$chroot" env -i -C "$here" HOME=/tmp LANG=C.UTF-8 \
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@" || status=$?
	exit $status' sh "$@"
