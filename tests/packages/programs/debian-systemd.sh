# Installs the packages in /mnt on a bare Debian with systemd, prepares newer ones, and boots.
. /mnt/taps.sh
apt-get update -qq
# systemd first: it makes users before the package asks for one.
apt-get install -y -qq --no-install-recommends systemd curl logrotate procps /mnt/oribi_*.deb /mnt/liboribi-perl_*.deb >/tmp/apt.log 2>&1 || sed 's/^/# /' /tmp/apt.log
mkdir /next
for package in oribi liboribi-perl; do
	dpkg-deb --raw-extract /mnt/${package}_*.deb /tmp/raw
	sed -i 's/\(oribi (= [^)]*\)/\1+next/; s/^Version: .*/&+next/' /tmp/raw/DEBIAN/control
	dpkg-deb --build -Zgzip -z1 /tmp/raw /next/$package.deb >/dev/null
	rm -r /tmp/raw
done
# Units may be started from now on.
rm /usr/sbin/policy-rc.d
exec sh /mnt/boot /mnt/debian-units.sh
