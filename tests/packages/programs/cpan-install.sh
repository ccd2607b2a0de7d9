# Installs the distribution in /mnt on a bare Debian by cpanm, with the library of the package liboribi-dev, and serves an app.
. /mnt/taps.sh

install() { apt-get install -y -qq --no-install-recommends "$@" >/tmp/apt.log 2>&1 || { sed 's/^/# /' /tmp/apt.log; return 1; }; }
apt-get update -qq
install curl make gcc libc6-dev libperl-dev cpanminus pkgconf libplack-perl libtest-tcp-perl libwww-perl
cd /tmp
cpanm --notest /mnt/Oribi-*.tar.gz >/tmp/said 2>&1
succeeds 'without Rust and the library, the reason is said' grep -rq 'install Rust 1.88 or newer' /root/.cpanm/build.log
succeeds 'the library is there' install /mnt/liboribi-dev_*.deb
# The suite of the host itself takes minutes; its first tests are Plack's for servers.
succeeds 'cpanm builds it with that' cpanm --notest /mnt/Oribi-*.tar.gz
tar --extract --gzip --file /mnt/Oribi-*.tar.gz && cd Oribi-*
succeeds 'the suite of PSGI passes with the installed modules' prove t/00-load.t t/01-plack-suite.t t/02-environment.t t/04-input.t

echo 'sub { [200, ["Content-Type" => "text/plain"], ["Hello from Perl"]] }' >/tmp/app.psgi
plackup -s Oribi --port 5001 /tmp/app.psgi >/tmp/server.log 2>&1 &
is "$(answer http://127.0.0.1:5001/)" 'Hello from Perl' 'plackup -s Oribi'
kill $! && wait $!
is $? 0 'and it stops'
done_testing
