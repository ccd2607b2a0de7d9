#!/bin/sh
# setup/debian-root.sh RELEASE: makes debianRELEASE (12 or 13), a Debian with the packages of setup/packages.debianRELEASE, in
# which packages are built and a second generation of Ruby is tested, and debianRELEASE.base, the same Debian without these
# packages, for the tests that install something. It installs missing packages there and leaves the rest alone. All checkouts of
# a user share them, in a folder of their cache; ORIBI_DEBIAN_ROOTS names another folder. With nothing missing it needs
# neither a network nor root.
set -eu
cd "$(dirname "$0")"

give_up() {
	echo "setup/debian-root.sh: $1" >&2
	exit 1
}

release=${1-}
case "$release" in
12) name=bookworm ;;
13) name=trixie ;;
*) give_up "which Debian: 12 or 13?" ;;
esac
roots=${ORIBI_DEBIAN_ROOTS:-${XDG_CACHE_HOME:-$HOME/.cache}/oribi/debian}
chroot=$(realpath -m "$roots/debian$release")

wanted=$(sed 's/#.*//' "packages.debian$release" | tr -s ' \n' '\n' | sort -u)
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
# They get their names when they are complete, so a folder with such a name is complete.
if [ -d "$chroot" ] && [ -d "$chroot.base" ]; then
	find_missing
	[ -n "$missing" ] || exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null || give_up "only root can make or complete $chroot; run this once as root, then go on as you are."
	# sudo has another HOME.
	export ORIBI_DEBIAN_ROOTS="$roots"
	exec sudo --preserve-env=ORIBI_DEBIAN_ROOTS,http_proxy,https_proxy "$PWD/debian-root.sh" "$release"
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

if [ ! -d "$chroot.base" ]; then
	echo "Making a Debian $release in $chroot.base: once, a minute"
	# The mirror is the one from which this machine has its own Debian.
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' 'Origin: Debian' 'Label: Debian' 'Component: main' \
		2>/dev/null | head -n 1) || mirror=
	half=$chroot.half
	rm -rf --one-file-system "$half"
	# debootstrap mounts /proc there, and leaves it after when it is interrupted.
	logged debootstrap unshare --mount debootstrap --variant=minbase $name "$half" "${mirror:-http://deb.debian.org/debian}"
	# No service starts in there: Debian asks policy-rc.d before it starts one.
	printf '#!/bin/sh\nexit 101\n' >"$half/usr/sbin/policy-rc.d"
	chmod 755 "$half/usr/sbin/policy-rc.d"
	printf '127.0.0.1 localhost\n::1 localhost\n' >"$half/etc/hosts"
	# It can be made again at any time: its files need not be safe on the disk before dpkg continues.
	echo force-unsafe-io >"$half/etc/dpkg/dpkg.cfg.d/chroot"
	echo 'Acquire::Languages "none";' >"$half/etc/apt/apt.conf.d/90chroot"
	# Mirrors that are kept as of a day are old by now; the settings of this machine accept that or not.
	apt-config dump | grep -E '^Acquire::Check-(Valid-Until|Date) ' >>"$half/etc/apt/apt.conf.d/90chroot" || true
	logged "apt-get clean" in_chroot "$half" apt-get clean
	mv "$half" "$chroot.base"
fi
if [ ! -d "$chroot" ]; then
	echo "Installing into $chroot what setup/packages.debian$release lists: once, a minute or two"
	half=$chroot.half
	rm -rf --one-file-system "$half"
	cp -a --reflink=auto "$chroot.base" "$half"
	# Manuals are not read.
	printf 'path-exclude=/usr/share/%s/*\n' doc info locale man >>"$half/etc/dpkg/dpkg.cfg.d/chroot"
	missing=$wanted
	install_missing "$half"
	mv "$half" "$chroot"
fi
find_missing
if [ -n "$missing" ]; then
	echo "Installing in $chroot:$missing"
	install_missing "$chroot"
fi
