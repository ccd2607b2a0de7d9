#!/usr/bin/perl
# Property: a user's format of the access log gives the same lines for requests to an app of each language, with an edge and
# without, over HTTP/1 and HTTP/2, answered at once or in pieces, and for input that is not a request.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use File::Temp ();
use Test::Curl;
use Test::More;
use Test::Oribi;

my $folder = File::Temp->newdir;
my $format = join q( | ), '%h', '%m', '%U', '%q', '%H', '%>s', '%B', '%{Content-Type}o', '%!200{User-Agent}i', '%{b}C', '%(uri)', '%k%X',
    '%{c}a', '%{REMOTE_ADDR}e';

for my $app (qw(app.psgi app.ru app.lua)) {
    for my $edge (qw(on off)) {
        subtest "$app, edge $edge" => sub {
            my $path  = "$folder/$app-$edge";
            my @log   = ('--access-log', $path, '--access-log-format', $format);
            my $oribi = Test::Oribi->start("$FindBin::Bin/http2/$app", '--edge', $edge, '--workers', 1, '--static', "/files=$FindBin::Bin/http2", @log);
            my $url   = 'http://127.0.0.1:' . $oribi->port;

            my @cookie = ('--header', 'Cookie: a=1; b=2');
            for my $version ('--http1.1', '--http2-prior-knowledge') {
                curl($version, '--user-agent', 'real', @cookie, "$url/some%20path?q=1");
                curl($version, '--user-agent', 'real', "$url/pieces");
                curl($version, '--user-agent', 'real', '--range', '99999999-', "$url/files/app.lua");
            }
            my $connection = $oribi->connection;
            print {$connection} "GET nonsense\r\n\r\n" or die "print: $!";
            is(do { local $/ = undef; readline($connection) } =~ /\AHTTP\S+ 400 /, 1, 'nonsense is refused');
            close $connection or die "close: $!";
            is($oribi->stop, 0, 'the server ends');

            open my $in, '<', $path or die "$path: $!";
            my @lines = sort readline $in;
            my %size;
            for my $version ('HTTP/1.1', 'HTTP/2.0') {
                ($size{$version}) = map { /\bsome%20path \Q| ?q=1 | $version | 200 |\E (\d+)/ } @lines;
            }
            my $kept     = '0+ | 127.0.0.1 | 127.0.0.1';
            my @expected = "127.0.0.1 | - | - |  | - | 400 | 0 | - | - | - | - | -- | 127.0.0.1 | 127.0.0.1\n";
            push @expected, (
                "127.0.0.1 | GET | /some%20path | ?q=1 | $_ | 200 | $size{$_} | text/plain | - | 2 | /some%20path?q=1 | $kept\n",
                "127.0.0.1 | GET | /pieces |  | $_ | 200 | 1000000 | text/plain | - | - | /pieces | $kept\n",
                "127.0.0.1 | GET | /files/app.lua |  | $_ | 416 | SIZE | text/html; charset=utf-8 | real | - | /files/app.lua | $kept\n",
            ) for 'HTTP/1.1', 'HTTP/2.0';
            s/[|] 416 [|] \K\d+/SIZE/ for @lines;
            is_deeply(\@lines, [sort @expected], 'every line tells what was asked and answered');
        };
    }
}

for my $edge (qw(on off)) {
    subtest "connections, edge $edge" => sub {
        my $path  = "$folder/connections-$edge";
        my @log   = ('--access-log', $path, '--access-log-format', '%U %h %{c}a %{remote}p %k%X');
        my @flags = ('--edge', $edge, '--workers', 1, '--trusted-proxies', '127.0.0.1');
        my $oribi = Test::Oribi->start("$FindBin::Bin/http2/app.lua", @flags, @log);
        my $url   = 'http://127.0.0.1:' . $oribi->port;
        curl('--header', 'X-Forwarded-For: 192.0.2.7:4711', "$url/1", "$url/2", "$url/3");
        curl('--http2-prior-knowledge', '--header', 'X-Forwarded-For: 192.0.2.8', "$url/h2");
        curl('--header', 'Connection: close', "$url/last");
        is($oribi->stop, 0, 'the server ends');
        open my $in, '<', $path or die "$path: $!";
        my @lines = map { s{^(/last \S+ \S+) \d+}{$1 PORT}r } readline $in;
        my @kept  = map { ("/$_ 192.0.2.7 127.0.0.1 4711 " . ($_ - 1) . "+\n") } 1 .. 3;
        is_deeply(\@lines, [@kept, "/h2 192.0.2.8 127.0.0.1 - 0+\n", "/last 127.0.0.1 127.0.0.1 PORT 0-\n"], 'every line tells of its connection');
    };
}

# An app that takes the socket may write any bytes there. This does not count as a client that has left.
my %taking = (
    'perl.psgi' => 'sub { my $io = $_[0]{"psgix.io"}; syswrite $io, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"; close $io; [200, [], []] }',
    'ruby.ru'   => 'run ->(env) { env["rack.hijack"].call.then { |io| io.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"); io.close }; [200, {}, []] }',
);
for my $name (sort keys %taking) {
    for my $edge (qw(on off)) {
        my ($app, $path) = ("$folder/$name", "$folder/taken-$name-$edge");
        open my $out, '>', $app or die "$app: $!";
        print {$out} $taking{$name};
        close $out or die "$app: $!";
        my $oribi = Test::Oribi->start($app, '--edge', $edge, '--workers', 1, '--access-log', $path, '--access-log-format', '%m %>s %X');
        is(body_of($oribi->url), 'hi', "$name, edge $edge: the app has the socket");
        is($oribi->stop, 0, 'the server ends');
        is(content_of($path), "GET 101 -\n", 'the line says that the connection was not HTTP\'s any more');
    }
}

done_testing;
