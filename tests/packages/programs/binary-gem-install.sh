# Installs the binary gem in /mnt on a bare Debian, for each of the unpacked rubies that /mnt/rubies names, and serves an app by its
# command.
. /mnt/taps.sh

apt-get update -qq
succeeds 'Rack can be installed' apt-get install -y -qq --no-install-recommends curl ruby-rack
is "$(command -v gcc make cargo)" '' 'there is no compiler'
echo 'run ->(_env) { [200, { "content-type" => "text/plain" }, ["Hello from Ruby #{RUBY_VERSION[/\d+.\d+/]}"]] }' >/srv/config.ru
# Others of these tests use those from 5000 on.
port=5300
while read -r folder || [ -n "$folder" ]; do
	version=$(basename "$folder" -amd64)
	port=$((port + 1))
	export GEM_HOME=/srv/gems-$version
	export LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu
	export RUBYLIB=$folder/usr/lib/ruby/$version.0:$LD_LIBRARY_PATH/ruby/$version.0:$folder/usr/lib/ruby/vendor_ruby
	ruby=$folder/usr/bin/ruby$version
	command=$GEM_HOME/bin/oribi force=
	# The RubyGems of Debian's Ruby 3.1 is older than the one that the gem asks for, and does not know the name of the platform.
	if [ "$version" = 3.1 ]; then force=--force command="$GEM_HOME/gems/oribi-*/exe/oribi"; fi
	succeeds "gem install, with Ruby $version" "$ruby" -S gem install --local --no-document $force /mnt/oribi-*.gem
	# shellcheck disable=SC2086 # a pattern
	"$ruby" $command /srv/config.ru --port $port >/tmp/server.log 2>&1 &
	is "$(answer "http://127.0.0.1:$port/")" "Hello from Ruby $version" 'oribi config.ru'
	kill $! && wait $!
	is $? 0 'it stops' || sed 's/^/# /' /tmp/server.log
	grep -E '\[(warn|error)\]|panic' /tmp/server.log | sed 's/^/# /'
done </mnt/rubies
done_testing
