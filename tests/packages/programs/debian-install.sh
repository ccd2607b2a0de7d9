# Installs the packages in /mnt on a bare Debian, serves an app of each language, and removes them again.
. /mnt/taps.sh

install() { apt-get install -y -qq --no-install-recommends "$@" >/tmp/apt.log 2>&1 || { sed 's/^/# /' /tmp/apt.log; return 1; }; }
ours() { find / -xdev \( -iname '*oribi*' -o -name 'Cacilheiro*' -o -name 'EVHTP*' -o -name 'rhebok*' -o -name luafcgid -o -name ahttpd \) -not -path '/tmp/*' | sort; }

apt-get update -qq
install curl
is "$(ours)" '' 'nothing of Oribi is there'
succeeds 'the packages and all that they need can be installed' install /mnt/oribi_*.deb /mnt/liboribi-perl_*.deb /mnt/ruby-oribi_*.deb
succeeds 'so can the documentation' install /mnt/oribi-doc_*.deb
is "$(stat -c %a:%U /var/log/oribi /var/lib/oribi 2>/dev/null | tr '\n' ' ' | grep -c root)" 1 'folders for logs and states'

mkdir /srv/perl /srv/ruby /srv/lua
echo 'sub { [200, ["Content-Type" => "text/plain"], ["Hello from Perl"]] }' >/srv/perl/app.psgi
echo 'run ->(env) { [200, { "content-type" => "text/plain" }, ["Hello from Ruby"]] }' >/srv/ruby/config.ru
echo 'return function(request) return "Hello from " .. _VERSION end' >/srv/lua/app.lua
serves 'oribi app.psgi' 'Hello from Perl' oribi /srv/perl/app.psgi
serves 'oribi config.ru' 'Hello from Ruby' oribi /srv/ruby/config.ru
serves 'oribi app.lua' 'Hello from Lua 5.1' oribi /srv/lua/app.lua
serves 'oribi app.lua --lua 5.4' 'Hello from Lua 5.4' oribi /srv/lua/app.lua --lua 5.4
succeeds 'plackup can be installed' install libplack-perl
serves 'plackup -s Oribi' 'Hello from Perl' plackup -s Oribi /srv/perl/app.psgi
rackup=ruby-rackup
[ "$(cut -d. -f1 /etc/debian_version)" -gt 12 ] || rackup=ruby-rack
succeeds 'rackup can be installed' install $rackup
serves 'rackup -s oribi' 'Hello from Ruby' rackup -s oribi --host 127.0.0.1 /srv/ruby/config.ru
is "$(ruby -e 'gem "oribi"; require "oribi"; print Oribi::VERSION')" "$(oribi --version | sed -n 's/^oribi //p')" 'RubyGems knows the package as a gem'

succeeds 'the library for hosts in C can be installed' install /mnt/liboribi-dev_*.deb gcc libc6-dev pkgconf
echo '#include <oribi.h>
int main(void) { return sizeof(oribi_bytes) == 16 ? 0 : 1; }' >/tmp/host.c
succeeds 'pkg-config finds the library' sh -c 'gcc -o /tmp/host /tmp/host.c $(pkg-config --cflags --libs oribi) && /tmp/host'

is "$(getent passwd oribi | cut -d: -f6,7)" /var/lib/oribi:/usr/sbin/nologin 'the user of the units'
result "$([ -s /usr/share/doc/ruby-oribi/THIRD-PARTY.gz ]; echo $?)" 'the notices of crates are there'
succeeds 'a removal' apt-get remove -y -qq oribi liboribi-perl ruby-oribi liboribi-dev oribi-doc
is "$(ours | grep -v '^/var/lib/dpkg/')" '/etc/logrotate.d/oribi
/etc/oribi' 'after removal only configuration is left'
succeeds 'a purge' apt-get purge -y -qq oribi
is "$(ours)" '' 'after a purge nothing is left'
done_testing
