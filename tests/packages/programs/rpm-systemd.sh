# Installs the packages of Enterprise Linux in /mnt by rpm, into a bare Debian with systemd, and boots.
. /mnt/taps.sh
apt-get update -qq
apt-get install -y -qq --no-install-recommends systemd curl libevent-core-2.1-7 logrotate procps rpm >/tmp/apt.log 2>&1 || sed 's/^/# /' /tmp/apt.log
rpm --force-debian --install --nodeps /mnt/oribi-*.rpm 2>&1 | sed 's/^/# /'
# Units may be started from now on.
rm /usr/sbin/policy-rc.d
exec sh /mnt/boot /mnt/rpm-units.sh
