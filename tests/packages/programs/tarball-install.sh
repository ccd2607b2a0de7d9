# Unpacks the tarball in /mnt on a bare Debian, serves Lua with nothing else installed, then builds the hosts for its perl and
# its ruby, and serves an app of each.
. /mnt/taps.sh

install() { apt-get install -y -qq --no-install-recommends "$@"; }
# refuses PATTERN TITLE COMMAND...: it fails, and says so.
refuses() {
	pattern=$1 title=$2
	shift 2
	if ! "$@" >/tmp/said 2>&1 && grep -qE "$pattern" /tmp/said; then result 0 "$title"; else
		result 1 "$title"
		sed 's/^/# /' /tmp/said
	fi
}
mkdir -p /srv/perl /srv/ruby /srv/lua
echo 'sub { [200, ["Content-Type" => "text/plain"], ["Hello from Perl"]] }' >/srv/perl/app.psgi
echo 'run ->(env) { [200, { "content-type" => "text/plain" }, ["Hello from Ruby"]] }' >/srv/ruby/config.ru
echo 'return function(request) return "Hello from " .. _VERSION end' >/srv/lua/app.lua
echo 'package.cpath = "/srv/lua/?.so"
local native = require "native"
return function(request) return native.hello(_VERSION) end' >/srv/lua/in_c.lua

tarball=$(echo /mnt/oribi-*-x86_64-linux-gnu.tar.gz)
name=$(basename "$tarball" .tar.gz)
version=${name#oribi-}
version=${version%-x86_64-linux-gnu}
is "$(find / -xdev -iname '*oribi*' -not -path '/proc/*' -not -path '/mnt/*')" '' 'nothing of Oribi is there'
# These and the other commands that begin with /opt/oribi-* are those of docs/install.md.
tar -xf /mnt/oribi-*-x86_64-linux-gnu.tar.gz -C /opt
ln -s /opt/oribi-*/bin/oribi /usr/local/bin/oribi
is "$(oribi --version | head -n 1)" "oribi $version" 'oribi --version, before anything else is installed'
is "$(find "/opt/$name" ! -user root -o ! -group root -o -perm /022 ! -type l)" '' 'only root may write there'

apt-get update -qq
succeeds 'a client can be installed' install curl
serves 'oribi app.lua' 'Hello from Lua 5.1' oribi /srv/lua/app.lua
serves 'oribi app.lua --lua 5.4' 'Hello from Lua 5.4' oribi /srv/lua/app.lua --lua 5.4
serves 'oribi app.lua without an edge' 'Hello from Lua 5.1' oribi /srv/lua/app.lua --edge off
refuses 'cannot find the Perl host' 'an app in Perl needs its host' oribi /srv/perl/app.psgi
refuses 'make is missing' 'install-hosts names make' /opt/oribi-*/install-hosts
succeeds 'make can be installed' install make
refuses 'a C compiler is missing' 'and a compiler' /opt/oribi-*/install-hosts
succeeds 'a compiler can be installed' install gcc libc6-dev
refuses 'no host can be built' 'and headers' /opt/oribi-*/install-hosts
refuses 'Debian: libperl-dev' 'and those of Perl, if they are asked for' /opt/oribi-*/install-hosts perl
refuses 'no host for lua' 'there is no host for Lua' /opt/oribi-*/install-hosts lua

# Declared by hand: both Luas have these functions.
cat >/tmp/native.c <<'END'
typedef struct lua_State lua_State;
const char *lua_tolstring(lua_State *, int, unsigned long *);
const char *lua_pushfstring(lua_State *, const char *, ...);
void lua_pushcclosure(lua_State *, int (*)(lua_State *), int);
void lua_createtable(lua_State *, int, int);
void lua_setfield(lua_State *, int, const char *);
static int hello(lua_State *lua) { lua_pushfstring(lua, "C in %s", lua_tolstring(lua, 1, 0)); return 1; }
int luaopen_native(lua_State *lua) {
	lua_createtable(lua, 0, 1);
	lua_pushcclosure(lua, hello, 0);
	lua_setfield(lua, -2, "hello");
	return 1;
}
END
succeeds 'a module for Lua in C' gcc -shared -fPIC -o /srv/lua/native.so /tmp/native.c
serves 'a module in C' 'C in Lua 5.1' oribi /srv/lua/in_c.lua
serves 'a module in C, for Lua 5.4' 'C in Lua 5.4' oribi /srv/lua/in_c.lua --lua 5.4

succeeds 'Ruby can be installed' install ruby ruby-dev ruby-rack
succeeds 'install-hosts builds the host of the language whose headers are there' /opt/oribi-*/install-hosts
serves 'oribi config.ru' 'Hello from Ruby' oribi /srv/ruby/config.ru
refuses 'cannot find the Perl host' 'and no other' oribi /srv/perl/app.psgi
succeeds "Perl's headers can be installed" install libperl-dev
succeeds 'install-hosts builds both' /opt/oribi-*/install-hosts
is "$(grep -c '^The host for' /tmp/said)" 2 'and says so'
serves 'oribi app.psgi' 'Hello from Perl' oribi /srv/perl/app.psgi
serves 'oribi config.ru, again' 'Hello from Ruby' oribi /srv/ruby/config.ru
succeeds 'RUBY names another one' env RUBY=/usr/bin/ruby3.1 /opt/oribi-*/install-hosts ruby
refuses 'there is no /opt/ruby' 'which must exist' env RUBY=/opt/ruby /opt/oribi-*/install-hosts ruby
is "$(find /tmp -name 'oribi*' -o -name Oribi.so)" '' 'nothing else is left behind'
mv "/opt/$name" /srv/moved
serves 'the folder may be moved' 'Hello from Perl' /srv/moved/bin/oribi /srv/perl/app.psgi
succeeds 'pages of the manual are there' test -s /srv/moved/share/man/man1/oribi.1 -a -s /srv/moved/share/man/man1/oribi-top.1
succeeds 'and notices' grep -q 'LLVM' /srv/moved/share/doc/oribi/THIRD-PARTY
done_testing
