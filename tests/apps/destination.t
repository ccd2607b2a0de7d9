#!/usr/bin/perl
# Property: a route tells requests apart by the address of this machine at which they arrive, also at an address that includes
# others, over TLS and HTTP/2, and by the path of a Unix socket, with each I/O model.

use v5.36;
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::FreePort qw(free_port);
use Test::Certificate;
use Test::Curl;
use Test::Files qw(write_file);
use Test::More;
use Test::Oribi;

my $folder = File::Temp->newdir;
my ($port, $encrypted) = (free_port(), free_port());
$encrypted = free_port() while $encrypted == $port;
my $certificate = certificate('destination', "$folder/certificate");
write_file("$folder/app.lua", "return function() return 200, {}, 'app' end\n");

sub route ($destination, $content) { return "[[route]]\nmatch = { destination = $destination }\nrespond = { content = \"$content\" }\n\n" }

my @routes = (
    route('"127.0.0.2"', 'two'), route(qq{["127.0.0.0/24:$encrypted", "!127.0.0.3"]}, 'secure'),
    route(qq{"unix:$folder/site.sock"}, 'site'), route('"unix:./other*"', 'relative'), route('"unix"', 'unix'),
    route(qq{"*:$port"}, 'port'),
);
write_file("$folder/oribi.toml", join q(), <<~"TOML", @routes);
    [server]
    edges = 2

    [[listen]]
    address = ":$port"

    [[listen]]
    address = "0.0.0.0:$encrypted"
    ssl-cert = "$certificate"

    [[listen]]
    address = "$folder/site.sock"

    [[listen]]
    address = "./other.sock"

    [[listen]]
    address = "$folder/third.sock"

    [app.app]
    file = "app.lua"
    workers = 1

    [[route]]
    match = { path = "/app", destination = ["127.0.0.4:$port", "[::1]:$port"] }
    app = "app"

    TOML

# The content of an answer, or its status.
sub seen (@arguments) {
    my $answer = curl('--insecure', @arguments);
    return $answer->{status} == 200 ? $answer->{body} : $answer->{status};
}

# Runs a command in the folder, where a relative path begins.
my @inside = ('sh', '-c', "cd '$folder' && exec \"\$@\"", 'sh');

for my $model (grep { model_works($_) } qw(epoll io_uring libevent)) {
    my $server = Test::Oribi->run_on_port($port, @inside, Test::Oribi::command(), '-c', "$folder/oribi.toml", '--io', $model);
    is seen("http://127.0.0.1:$port/"),              'port',   "$model: a port";
    is seen("http://127.0.0.2:$port/"),              'two',    "$model: an address";
    is seen("http://127.0.0.4:$port/app"),           'app',    "$model: both, for an app";
    is seen("http://127.0.0.1:$port/app"),           'port',   "$model: which other addresses do not have";
    is seen("https://127.0.0.1:$encrypted/"),        'secure', "$model: a network with a port, over TLS and HTTP/2";
    is seen('--http1.1', "https://127.0.0.1:$encrypted/"), 'secure', "$model: over HTTP/1.1";
    is seen("https://127.0.0.2:$encrypted/"),        'two',    "$model: an address over TLS";
    is seen("https://127.0.0.3:$encrypted/"),        404,      "$model: an exception";
    is seen('--unix-socket', "$folder/site.sock",  'http://localhost/'), 'site',     "$model: a Unix socket";
    is seen('--unix-socket', "$folder/other.sock", 'http://localhost/'), 'relative', "$model: one with a relative path";
    is seen('--unix-socket', "$folder/third.sock", 'http://localhost/'), 'unix',     "$model: any other one";
    is seen('--header', 'Host: 127.0.0.2', "http://127.0.0.1:$port/"), 'port', "$model: Host does not count";
    # Several requests on one connection.
    is join(q(), map { seen("http://127.0.0.2:$port/", "http://127.0.0.2:$port/") } 1 .. 3), 'two' x 6, "$model: on kept connections";
    is seen("http://[::1]:$port/app"), 'app', "$model: an address of IPv6" if has_ipv6();
    is $server->stop, 0, "$model: the server ends";
}
done_testing;

# Whether this machine has an I/O model.
sub model_works ($model) {
    return system("'${\ Test::Oribi::command()}' check -c '$folder/oribi.toml' --io $model >'$folder/checked' 2>&1") == 0;
}

sub has_ipv6 () { return -e '/proc/net/if_inet6' && -s '/proc/net/if_inet6' }
