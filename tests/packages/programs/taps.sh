# For tests that run in another Debian: results as TAP.

tests=0
# result STATUS TITLE: of a test.
result() {
	tests=$((tests + 1))
	if [ "$1" -eq 0 ]; then echo "ok $tests - $2"; else echo "not ok $tests - $2"; fi
}
# is FOUND WANTED TITLE
is() {
	if [ "$1" = "$2" ]; then result 0 "$3"; else
		result 1 "$3"
		printf '%s\n' "found: $1" "wanted: $2" | sed 's/^/# /'
	fi
}
# succeeds TITLE COMMAND...
succeeds() {
	title=$1
	shift
	if "$@" >/tmp/said 2>&1; then result 0 "$title"; else
		result 1 "$title"
		sed 's/^/# /' /tmp/said
	fi
}
# answer URL: of a server that may still be starting.
answer() {
	curl --silent --max-time 10 --retry 300 --retry-delay 0 --retry-connrefused --retry-max-time 60 "$1" 2>/dev/null
}
port=5000
# serves TITLE WANTED COMMAND...: whether a server gives this answer at a port of its own, and stops; shows its warnings.
serves() {
	title=$1 wanted=$2 port=$((port + 1))
	shift 2
	"$@" --port $port >/tmp/server.log 2>&1 &
	is "$(answer "http://127.0.0.1:$port/")" "$wanted" "$title"
	kill $! && wait $!
	is $? 0 "$title: it stops"
	grep -E '\[(warn|error)\]|panic' /tmp/server.log | sed 's/^/# /'
}
done_testing() { echo "1..$tests"; }
