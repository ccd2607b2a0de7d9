#!/bin/sh
# setup/debian.sh LIST...: installs the missing Debian packages of setup/packages.LIST. With nothing missing it asks dpkg
# once and needs neither a network nor root.
set -eu
cd "$(dirname "$0")"

wanted=$(for list; do sed 's/#.*//' "packages.$list"; done | tr -s ' \n' '\n' | sort -u)
if ! command -v dpkg-query >/dev/null; then
	echo "This is not Debian: see to it that what these packages hold is installed:" $wanted >&2
	exit 0
fi

# dpkg-query fails when it does not know one of the packages; it names the others all the same.
installed=" $(dpkg-query -W -f '${Package}=${db:Status-Status} ' $wanted 2>/dev/null)" || true
missing=
for package in $wanted; do
	case "$installed" in
	*" $package=installed "*) ;;
	*) missing="$missing $package" ;;
	esac
done
[ -n "$missing" ] || exit 0

give_up() {
	echo "$1 Run this as root, then try again:" >&2
	echo "    apt-get install --no-install-recommends$missing" >&2
	exit 1
}

as_root=
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null || give_up "Packages are missing, and only root may install them."
	as_root=sudo
fi
echo "Installing$missing"

# A package of a server starts it at once. We want the program, not a second server on port 80: Debian asks policy-rc.d,
# and an administrator's own is left alone.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
	trap '$as_root rm -f $policy' EXIT
	printf '#!/bin/sh\nexit 101\n' | $as_root tee $policy >/dev/null
	$as_root chmod 755 $policy
fi

# Redmine's package has Bundler look for its gems while it is installed. Of the two Bundlers in an updated Debian 12, only that of
# ruby-bundler knows that a Debian package of a gem has no folder of its own for it.
bundler=/usr/share/rubygems-integration/all/gems/bundler-2.3.15/lib
{
	$as_root apt-get update -qq &&
		$as_root env DEBIAN_FRONTEND=noninteractive RUBYLIB=$bundler \
			apt-get install -qq --no-install-recommends $missing </dev/null
} || give_up "Debian's packages could not be installed."

# It must not start at the next boot because of us either.
# not_at_boot PACKAGE UNIT...: when PACKAGE has just been installed.
not_at_boot() {
	case "$missing " in
	*" $1 "*) ;;
	*) return ;;
	esac
	shift
	if command -v systemctl >/dev/null; then $as_root systemctl --quiet disable "$@" || true; fi
}
not_at_boot nginx nginx
not_at_boot h2o h2o
not_at_boot haproxy haproxy
not_at_boot nghttp2-proxy nghttpx
not_at_boot rsyslog rsyslog.service syslog.socket
not_at_boot lighttpd lighttpd
not_at_boot containerd containerd
not_at_boot prometheus prometheus
not_at_boot request-tracker5 request-tracker5
not_at_boot lemonldap-ng-fastcgi-server lemonldap-ng-fastcgi-server
for part in handler portal; do
	not_at_boot lemonldap-ng "liblemonldap-ng-$part-perl.service" "liblemonldap-ng-$part-perl.timer"
done
