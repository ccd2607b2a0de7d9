# Where systemd runs: serves an app by the units of the package, and upgrades the packages under load. The new ones are in /next.
. /mnt/taps.sh

wait_for() { for _ in $(seq 300); do "$@" >/dev/null 2>&1 && return; sleep 0.1; done; "$@"; }

cat >/etc/oribi/shop.conf <<'END'
APP=/srv/shop/app.psgi
OPTIONS="--listen 127.0.0.1:5001 --workers 2 --access-log /var/log/oribi/shop/access.log"
END
mkdir -p /srv/shop/lib
echo 'package Shop; sub slow { sleep 3; "slow" } 1;' >/srv/shop/lib/Shop.pm
# app TEXT: an app that answers with this text, with a module of its own.
app() {
	echo 'use lib "lib"; use Shop; sub { [200, ["Content-Type" => "text/plain"], [$_[0]{PATH_INFO} eq "/slow" ? Shop::slow() : "'$1'"]] }' \
		>/srv/shop/app.psgi
}
app first
succeeds 'the example is started' systemctl start oribi@example
is "$(answer http://127.0.0.1:5000/)" 'Hello from Oribi, 127.0.0.1' 'and answers'
succeeds 'an app has a file of its own' systemctl enable --now oribi@shop
is "$(answer http://127.0.0.1:5001/)" first 'and answers'
is "$(stat -c %U /proc/"$(systemctl show --property=MainPID --value oribi@shop)")" oribi 'its user'
is "$(oribi ctl | wc -l)" 2 'oribi ctl of root finds both'
is "$(systemd-analyze security --no-pager oribi@shop | sed -n 's/.*level for [^:]*: \([0-9]\)\..*/\1/p' | tail -n 1)" 1 'little is exposed'

app second
succeeds 'a reload' systemctl reload oribi@shop
is "$(answer http://127.0.0.1:5001/)" second 'brings new code before it returns'
echo 'syntax error (' >/srv/shop/app.psgi
! systemctl reload oribi@shop >/tmp/said 2>&1
result $? 'a reload of a broken app fails'
is "$(answer http://127.0.0.1:5001/)" second 'and the old code serves'
app second
! systemctl start oribi@nowhere >/tmp/said 2>&1
result $? 'an app without a file of its own cannot be started'

succeeds 'logs are rotated' logrotate --force /etc/logrotate.d/oribi
logged() { answer http://127.0.0.1:5001/ >/dev/null; test -s /var/log/oribi/shop/access.log; }
succeeds 'and opened again' wait_for logged
result "$([ -s /var/log/oribi/shop/access.log.1 ]; echo $?)" 'the old one is kept'

before=$(systemctl show --property=MainPID --value oribi@shop)
perl /mnt/kept.pl 5001 /tmp/enough >/tmp/kept 2>&1 &
succeeds 'an upgrade under load' apt-get install -y -qq --no-install-recommends /next/*.deb
replaced() { [ "$(systemctl show --property=MainPID --value oribi@shop)" != "$before" ] && systemctl is-active oribi@shop && ! [ -d "/proc/$before" ]; }
succeeds 'the new program has taken over' wait_for replaced
touch /tmp/enough
wait $!
is "$(sed 's/^[1-9][0-9]* requests/many requests/' /tmp/kept)" 'many requests, 0 failed, 0 closed' 'no request was lost, no connection closed'
is "$(answer http://127.0.0.1:5001/)" second 'the new program answers'
is "$(cat /etc/oribi/shop.conf | head -n 1)" APP=/srv/shop/app.psgi 'configuration is kept'

curl --silent --output /tmp/slow http://127.0.0.1:5001/slow &
client=$!
slow() { oribi ctl requests --pid "$(systemctl show --property=MainPID --value oribi@shop)" | grep -q /slow; }
succeeds 'a slow request runs' wait_for slow
succeeds 'another upgrade' oribi ctl upgrade --pid "$(systemctl show --property=MainPID --value oribi@shop)"
succeeds 'a stop' systemctl stop oribi@shop oribi@example
wait $client
is "$(cat /tmp/slow)" slow 'it has finished the request'
is "$(systemctl is-failed oribi@shop oribi@example | tr '\n' ' ')" 'inactive inactive ' 'in good order'
succeeds 'a socket can open before its service' systemctl start oribi@example.socket
is "$(curl --silent --unix-socket /run/oribi-example.sock http://localhost/)" 'Hello from Oribi, 127.0.0.1' 'and start it'
systemctl enable --quiet oribi@shop
succeeds 'a removal' apt-get purge -y -qq oribi liboribi-perl
is "$(pgrep -c oribi) $(find /etc /var/log /var/lib/oribi -name '*oribi*' 2>/dev/null | grep -v '^/var/lib/dpkg\|/etc/oribi' | sort | tr '\n' ' ')" '0 ' \
	'stops all servers and leaves nothing'
done_testing
