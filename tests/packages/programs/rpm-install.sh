# Installs the packages of Enterprise Linux in /mnt by rpm, into a bare Debian, serves Lua, and removes them again.
. /mnt/taps.sh

ours() { find / -xdev \( -iname '*oribi*' -o -name luafcgid -o -name ahttpd \) -not -path '/tmp/*' -not -path '/mnt/*' | sort; }

apt-get update -qq
succeeds 'rpm, and what the packages need' apt-get install -y -qq --no-install-recommends curl gcc libc6-dev libevent-dev pkgconf rpm
is "$(ours)" '' 'nothing of Oribi is there'
succeeds 'the packages are installed' rpm --force-debian --install --nodeps /mnt/*.rpm
is "$(cat /tmp/said)" '' 'without a word'
is "$(rpm --verify oribi liboribi-devel --nodeps)" '' 'the files are those of the packages'
is "$(getent passwd oribi | cut -d: -f6,7)" /var/lib/oribi:/sbin/nologin 'the user of the units'
is "$(rpm --query --list oribi liboribi-devel | while read -r file; do [ -e "$file" ] || echo "$file"; done)" '' 'all files are there'
result "$([ -s /usr/share/licenses/oribi/THIRD-PARTY ]; echo $?)" 'the notices of crates are there'

echo 'return function(request) return "Hello from " .. _VERSION end' >/srv/app.lua
serves 'oribi app.lua' 'Hello from Lua 5.1' oribi /srv/app.lua
serves 'oribi app.lua --lua 5.4' 'Hello from Lua 5.4' oribi /srv/app.lua --lua 5.4

echo '#include <oribi.h>
int main(void) { return sizeof(oribi_bytes) == 16 ? 0 : 1; }' >/tmp/host.c
succeeds 'the library can be linked' \
	sh -c 'export PKG_CONFIG_PATH=/usr/lib64/pkgconfig; gcc -o /tmp/host /tmp/host.c $(pkg-config --cflags --libs oribi) && /tmp/host'

echo '# mine' >>/etc/oribi/example.conf
succeeds 'the packages are removed' rpm --erase --nodeps oribi liboribi-devel
is "$(ours) $(ls /etc/oribi)" '/etc/oribi example.conf.rpmsave' 'only the configuration that was changed is left'
done_testing
