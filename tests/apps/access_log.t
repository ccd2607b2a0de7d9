#!/usr/bin/perl
# Property: a format of the access log that a user has written tells the same of requests for an app of each language, with an edge and
# without, over HTTP/1 and HTTP/2, answered at once or in pieces, and of what could not be read.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use File::Temp ();
use Test::Curl;
use Test::More;
use Test::Oribi;

my $folder = File::Temp->newdir;
my $format = join q( | ), '%h', '%m', '%U', '%q', '%H', '%>s', '%B', '%{Content-Type}o', '%!200{User-Agent}i', '%{b}C', '%(uri)';

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
            my @expected = "127.0.0.1 | - | - |  | - | 400 | 0 | - | - | - | -\n";
            push @expected, (
                "127.0.0.1 | GET | /some%20path | ?q=1 | $_ | 200 | $size{$_} | text/plain | - | 2 | /some%20path?q=1\n",
                "127.0.0.1 | GET | /pieces |  | $_ | 200 | 1000000 | text/plain | - | - | /pieces\n",
                "127.0.0.1 | GET | /files/app.lua |  | $_ | 416 | SIZE | text/html; charset=utf-8 | real | - | /files/app.lua\n",
            ) for 'HTTP/1.1', 'HTTP/2.0';
            s/[|] 416 [|] \K\d+/SIZE/ for @lines;
            is_deeply(\@lines, [sort @expected], 'every line tells what was asked and answered');
        };
    }
}

done_testing;
