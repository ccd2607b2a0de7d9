# Where systemd runs: serves an app by the units of the package, and upgrades the package under load, by installing it once more.
. /mnt/taps.sh

wait_for() { for _ in $(seq 300); do "$@" >/dev/null 2>&1 && return; sleep 0.1; done; "$@"; }

succeeds 'the example is started' systemctl start oribi@example
is "$(answer http://127.0.0.1:5000/)" 'Hello from Oribi, 127.0.0.1' 'and answers'
is "$(stat -c %U /proc/"$(systemctl show --property=MainPID --value oribi@example)")" oribi 'its user'
is "$(oribi ctl | wc -l)" 1 'oribi ctl of root finds it'
succeeds 'logs are rotated' logrotate --force /etc/logrotate.d/oribi

before=$(systemctl show --property=MainPID --value oribi@example)
perl /mnt/kept.pl 5000 /tmp/enough >/tmp/kept 2>&1 &
succeeds 'an upgrade under load' rpm --force-debian --upgrade --nodeps --force /mnt/oribi-*.rpm
is "$(cat /tmp/said)" '' 'without a word'
replaced() { [ "$(systemctl show --property=MainPID --value oribi@example)" != "$before" ] && systemctl is-active oribi@example && ! [ -d "/proc/$before" ]; }
succeeds 'the new program has taken over' wait_for replaced
touch /tmp/enough
wait $!
is "$(sed 's/^[1-9][0-9]* requests/many requests/' /tmp/kept)" 'many requests, 0 failed, 0 closed' 'no request was lost, no connection closed'
is "$(answer http://127.0.0.1:5000/)" 'Hello from Oribi, 127.0.0.1' 'the new program answers'

succeeds 'a socket can open before its service' systemctl start oribi@nowhere.socket
is "$(stat -c %G /run/oribi-nowhere.sock)" oribi 'its group'
succeeds 'a removal' rpm --erase --nodeps oribi
is "$(pgrep -c oribi)" 0 'stops all servers'
done_testing
