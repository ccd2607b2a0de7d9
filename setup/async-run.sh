#!/bin/sh
# setup/async-run.sh COMMAND...: runs a command whose Ruby finds the gems of setup/async.sh, and with ORIBI_TEST_ASYNC=on.
set -eu
gems=$(cd "$(dirname "$0")/.." && pwd -P)/target/tools/async/usr
[ -d "$gems" ] || {
	echo "setup/async-run.sh: $gems is missing: setup/async.sh makes it." >&2
	exit 1
}
GEM_PATH=$gems/share/rubygems-integration/all:$gems/lib/x86_64-linux-gnu/rubygems-integration/3.3.0:$(ruby -e 'puts Gem.path.join(":")')
ORIBI_TEST_ASYNC=on
export GEM_PATH ORIBI_TEST_ASYNC
exec "$@"
