# Installs the source gem in /mnt on a bare Debian, with the library and the program in /mnt/lib, and serves apps in all ways that a
# gem gives: by its command, by rackup, by Bundler from a folder and from a server of gems, and by Rails.
. /mnt/taps.sh

install() { apt-get install -y -qq --no-install-recommends "$@" >/tmp/apt.log 2>&1 || { sed 's/^/# /' /tmp/apt.log; return 1; }; }
port=5000
# said_by SERVER PORT: what it answers, as soon as it does, unless it ends before.
said_by() {
	until curl --silent --max-time 10 "http://127.0.0.1:$2/"; do
		grep -q '^State:.[^ZX]' "/proc/$1/status" 2>/dev/null || return
		sleep 0.1
	done
}
# serves TITLE WANTED COMMAND...: on a port of its own, which replaces the word PORT of the command.
serves() {
	title=$1 wanted=$2 port=$((port + 1))
	shift 2
	for word; do
		shift
		[ "$word" = PORT ] && word=$port
		set -- "$@" "$word"
	done
	"$@" >/tmp/server.log 2>&1 &
	server=$!
	found=$(said_by $server $port)
	is "$found" "$wanted" "$title"
	kill $server 2>/dev/null
	wait $server
	status=$?
	is $status 0 "$title: it stops"
	[ "$found:$status" = "$wanted:0" ] || sed 's/^/# /' /tmp/server.log
}
version=$(basename /mnt/oribi-*.gem .gem)
version=${version#oribi-}
app='run ->(env) { [200, { "content-type" => "text/plain" }, ["Hello from #{$LOADED_FEATURES.grep(%r{/oribi/version.rb})[0][%r{/(oribi-[^/]*)/}, 1]}"]] }'
hello="Hello from oribi-$version"
export ORIBI_LIB_DIR=/mnt/lib BUNDLE_SILENCE_ROOT_WARNING=1

apt-get update -qq
succeeds 'Ruby, a compiler and Rack' install curl gcc libc6-dev libevent-dev make ruby ruby-bundler ruby-dev ruby-rack
mkdir /srv/app && cd /srv/app
echo "$app" >config.ru

is "$(cd /tmp && ORIBI_LIB_DIR='' gem install --local /mnt/oribi-*.gem 2>&1 | grep -c 'cargo is missing.*install it from https://rustup.rs')" \
	1 'without a library or Rust, the message names the remedy'
succeeds 'the gem is installed' gem install --local --no-document /mnt/oribi-*.gem
gem_folder=$(gem contents oribi | sed -n 's,/exe/oribi$,,p')
is "$(find "$gem_folder" -name '*.a' -o -name core)" '' 'nothing that was built for the extension is left'
is "$(oribi --version | head -n 1)" "oribi $version" 'the command is in PATH'
is "$(oribi --version | sed -n 's/^ruby: its host is in //p')" "$gem_folder/lib" 'the program finds the host of its gem'
serves 'oribi config.ru' "$hello" oribi config.ru --port PORT
serves 'rackup -s oribi' "$hello" rackup -s oribi --host 127.0.0.1 --port PORT

cat >Gemfile <<END
gem "oribi", path: "$gem_folder"
gem "rack"
END
succeeds 'bundle install, of a gem in a folder' bundle install --local
serves 'bundle exec oribi, of a gem in a folder' "$hello" bundle exec oribi config.ru --port PORT
serves 'bundle exec rackup -s oribi' "$hello" bundle exec rackup -s oribi --host 127.0.0.1 --port PORT
{ echo 'Bundler.require'; echo "$app"; } >bundler.ru
serves 'bundle exec rackup chooses oribi' "$hello" env RACK_ENV=production bundle exec rackup --host 127.0.0.1 --port PORT bundler.ru

# The same gem as the next version, with what was compiled for this one.
next=$version.1
cp -R "$gem_folder" /tmp/next
rm -r /tmp/next/ext
sed -i "s/VERSION = .*/VERSION = \"$next\"/" /tmp/next/lib/oribi/version.rb
sed -i -e '/required_rubygems_version/d' -e 's/spec.platform = .*/spec.platform = "ruby"/' /tmp/next/oribi.gemspec
mkdir -p /srv/gems/gems
succeeds 'a newer gem' sh -c 'cd /tmp/next && gem build oribi.gemspec --output /tmp/next.gem'
cp /mnt/oribi-*.gem /srv/gems/gems/
gem uninstall --all --executables oribi >/dev/null
succeeds 'an index of gems' gem generate_index --directory /srv/gems
/mnt/lib/oribi serve /srv/gems --port 4999 >/tmp/gems.log 2>&1 &
said_by $! 4999 >/dev/null

rm Gemfile.lock
cat >Gemfile <<END
source "http://127.0.0.1:4999"
gem "oribi"
gem "rack"
END
succeeds 'bundle install, from a server of gems' bundle install
serves 'bundle exec oribi, from a server of gems' "$hello" bundle exec oribi config.ru --port PORT

# programs: those of the gem that run.
programs() { readlink /proc/[0-9]*/exe | sed -n 's,.*/\(oribi-[^/]*\)/libexec/oribi$,\1,p' | sort -u; }
bundle exec oribi config.ru --port 4998 --pid-file /tmp/oribi.pid >/tmp/server.log 2>&1 &
server=$!
is "$(said_by $server 4998)" "$hello" 'a server is up'
succeeds 'the newer gem is installed' gem install --local --no-document --force /tmp/next.gem
sed -i "s/oribi ($version)/oribi ($next)/" Gemfile.lock
succeeds 'oribi ctl upgrade' bundle exec oribi ctl upgrade --pid $server
is "$(said_by $server 4998)" "$hello.1" 'the newer gem serves after an upgrade'
kill $server
wait $server
is $? 0 'it stops'
gem uninstall --all --executables --version "$next" oribi >/dev/null

succeeds 'Rails can be installed' install ruby-activejob ruby-activemodel ruby-railties
cd /srv
succeeds 'rails new' rails new shop --skip-bundle --minimal --skip-active-record --skip-sprockets --skip-listen --skip-git --quiet
cd shop
rm -f Gemfile.lock config/puma.rb
cat >Gemfile <<END
source "http://127.0.0.1:4999"
gem "activejob"
gem "activemodel"
gem "railties"
gem "oribi"
END
cat >config/routes.rb <<'END'
Rails.application.routes.draw do
  root to: ->(env) { [200, { "content-type" => "text/plain" }, ["Hello from #{env["SERVER_SOFTWARE"][/\w+/]} and Rails"]] }
end
END
succeeds 'bundle install, of an app in Rails' bundle install
serves 'bin/rails server -u oribi' 'Hello from Oribi and Rails' bin/rails server -u oribi -b 127.0.0.1 -p PORT
serves 'bin/rails server chooses oribi' 'Hello from Oribi and Rails' bin/rails server -b 127.0.0.1 -p PORT
serves 'bundle exec oribi, of an app in Rails' 'Hello from Oribi and Rails' bundle exec oribi --port PORT .
done_testing
