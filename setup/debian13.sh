#!/bin/sh
# setup/debian13.sh: makes target/debian13, a Debian 13 with the packages of setup/packages.debian13, for the tests of a second
# generation of Ruby; it installs missing packages there and leaves the rest alone. ORIBI_DEBIAN13 names another folder, for
# instance one that several checkouts share. With nothing missing it needs neither a network nor root.
set -eu
cd "$(dirname "$0")"
chroot=$(realpath -m "${ORIBI_DEBIAN13:-../target/debian13}")

give_up() {
	echo "setup/debian13.sh: $1" >&2
	exit 1
}

wanted=$(sed 's/#.*//' packages.debian13 | tr -s ' \n' '\n' | sort -u)
# Sets `missing` to those of the wanted packages that the chroot does not have.
find_missing() {
	# dpkg-query fails when it does not know one of the packages; it names the others all the same.
	installed=" $(dpkg-query --admindir="$chroot/var/lib/dpkg" -W -f '${Package}=${db:Status-Status} ' $wanted 2>/dev/null)" || true
	missing=
	for package in $wanted; do
		case "$installed" in
		*" $package=installed "*) ;;
		*) missing="$missing $package" ;;
		esac
	done
}

if ! command -v dpkg-query >/dev/null || ! command -v debootstrap >/dev/null; then
	give_up "dpkg or debootstrap is missing. On Debian: apt-get install debootstrap"
fi
# It gets its name when it is complete, so a folder with that name is complete.
if [ -d "$chroot" ]; then
	find_missing
	[ -n "$missing" ] || exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null || give_up "only root can make or complete $chroot; run this once as root, then go on as you are."
	exec sudo --preserve-env=ORIBI_DEBIAN13,http_proxy,https_proxy "$PWD/debian13.sh"
fi

# Two runs at a time would install into the same folder.
mkdir -p "$(dirname "$chroot")"
exec 9>"$chroot.lock"
flock 9

# The settings of this machine's apt for access to the mirrors, for wget in debootstrap and for apt in the chroot.
http_proxy=${http_proxy-$(apt-config dump --format '%v' Acquire::http::Proxy)}
https_proxy=${https_proxy-$(apt-config dump --format '%v' Acquire::https::Proxy)}
export http_proxy https_proxy
[ -n "$http_proxy" ] || unset http_proxy
[ -n "$https_proxy" ] || unset https_proxy

# in_chroot FOLDER COMMAND...: with /proc and /dev, which go when the command ends: nothing stays mounted.
in_chroot() {
	unshare --mount sh -euc '
		mount -t proc proc "$0/proc"
		mount --rbind /dev "$0/dev"
		exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
			http_proxy="${http_proxy-}" https_proxy="${https_proxy-}" chroot "$0" "$@"' "$@" </dev/null
}

log=$chroot.log
# logged STEP COMMAND...: runs it, and shows its output only if it fails.
logged() {
	step=$1
	shift
	"$@" >>"$log" 2>&1 || {
		tail -n 20 "$log" >&2
		give_up "$step failed; all that was said is in $log"
	}
}
install_missing() { # into FOLDER
	# The machine's name servers may have changed since the chroot was made.
	cp /etc/resolv.conf "$1/etc/resolv.conf"
	logged "apt-get update" in_chroot "$1" apt-get update -qq
	logged "apt-get install" in_chroot "$1" apt-get install -qq --no-install-recommends $missing
	logged "apt-get clean" in_chroot "$1" apt-get clean
}
: >"$log"

if [ ! -d "$chroot" ]; then
	echo "Making a Debian 13 in $chroot: once, one or two minutes"
	# The mirror is the one from which this machine has its own Debian.
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' 'Origin: Debian' 'Label: Debian' 'Component: main' \
		2>/dev/null | head -n 1) || mirror=
	half=$chroot.half
	rm -rf --one-file-system "$half"
	# debootstrap mounts /proc there, and leaves it after when it is interrupted.
	logged debootstrap unshare --mount debootstrap --variant=minbase trixie "$half" "${mirror:-http://deb.debian.org/debian}"
	# No service starts in there: Debian asks policy-rc.d before it starts one.
	printf '#!/bin/sh\nexit 101\n' >"$half/usr/sbin/policy-rc.d"
	chmod 755 "$half/usr/sbin/policy-rc.d"
	printf '127.0.0.1 localhost\n::1 localhost\n' >"$half/etc/hosts"
	# It can be made again at any time: its files need not be safe on the disk before dpkg continues, and manuals are not read.
	echo force-unsafe-io >"$half/etc/dpkg/dpkg.cfg.d/chroot"
	printf 'path-exclude=/usr/share/%s/*\n' doc info locale man >>"$half/etc/dpkg/dpkg.cfg.d/chroot"
	echo 'Acquire::Languages "none";' >"$half/etc/apt/apt.conf.d/90chroot"
	# Mirrors that are kept as of a day are old by now; the settings of this machine accept that or not.
	apt-config dump | grep -E '^Acquire::Check-(Valid-Until|Date) ' >>"$half/etc/apt/apt.conf.d/90chroot" || true
	missing=$wanted
	install_missing "$half"
	mv "$half" "$chroot"
fi
find_missing
if [ -n "$missing" ]; then
	echo "Installing in $chroot:$missing"
	install_missing "$chroot"
fi
