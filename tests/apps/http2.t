#!/usr/bin/perl
# Property: real clients that speak HTTP/2 reach an app of each language, with an edge and without one. They send several
# requests at once on one connection, transfer large content in both directions, and use small windows; an app that takes long
# delays none of it.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::Curl;
use Test::More;
use Test::Oribi;

my @prior = '--http2-prior-knowledge';

# The output of a command.
sub output_of (@command) {
    open my $pipe, '-|', @command or die "$command[0]: $!";
    local $/ = undef;
    my $text = readline($pipe) // '';
    close $pipe or diag("$command[0] ended with status $?");
    return $text;
}

# The time of each answer, in the order in which the answers were complete, as nghttp prints them: path and size.
sub order_of ($url, @paths) {
    my $text = output_of('nghttp', '--null-out', '--stat', '--timeout=30', map { "$url$_" } @paths);
    return map { [split] } $text =~ /^ +\d+ +\+\S+ +\+\S+ +\S+ +200 +\S+ +(\S+)$/gm;
}

for my $app (qw(app.psgi app.ru app.lua)) {
    for my $edge (qw(on off)) {
        subtest "$app, edge $edge" => sub {
            my $oribi = Test::Oribi->start("$FindBin::Bin/http2/$app", '--edge', $edge, '--workers', 2);
            my $url   = 'http://127.0.0.1:' . $oribi->port;

            my $told = body_of(@prior, '--header', 'Cookie: a=b', "$url/some%20path//%73?q=1");
            is($told, <<~"TOLD", 'the app is told what was asked');
                REQUEST_METHOD=GET
                REQUEST_URI=/some%20path//%73?q=1
                SERVER_PROTOCOL=HTTP/2.0
                HTTP_HOST=127.0.0.1:@{[$oribi->port]}
                HTTP_COOKIE=a=b
                size=0
                TOLD
            my $file = random_file(3_000_000);
            like(body_of(@prior, '--upload-file', $file->filename, "$url/"), qr/^REQUEST_METHOD=PUT.*^size=3000000$/ms, 'an upload arrives whole');
            is(length body_of(@prior, "$url/large"),  2_000_000, 'so does large content');
            is(length body_of(@prior, "$url/pieces"), 1_000_000, 'and content in pieces');
            my $head = curl(@prior, '--head', "$url/large");
            # With --head curl prints the head where it prints content otherwise.
            is_deeply([$head->{status}, header_of($head, 'content-length'), $head->{body}], [200, 2_000_000, $head->{head}], 'HEAD has no content');
            my $both = curl(@prior, "$url/", "$url/large", "$url/");
            is($both->{connects}, 1, 'requests share a connection');

            my @order = map { $_->[0] } order_of($url, '/slow', '/large', '/', '/pieces', '/a');
            is(scalar @order, 5, 'all are answered');
            is($order[-1], '/slow', 'nothing waits behind the app that takes long') if $edge eq 'on';

            my $load = output_of('h2load', '-n', 400, '-c', 4, '-m', 20, "$url/");
            like($load, qr/400 succeeded, 0 failed, 0 errored, 0 timeout/, 'many streams at once');
            $load = output_of('h2load', '-n', 24, '-c', 2, '-m', 12, '-w', 16, '-W', 17, "$url/large");
            like($load, qr/24 succeeded, 0 failed, 0 errored, 0 timeout/, 'large content within small windows');
            # The socket also belongs to other requests; an app that asks for it continues.
            my %without = ('app.psgi' => "the peer is unknown\n",   'app.ru' => "hijack: false false\n");
            my %with    = ('app.psgi' => "the peer is 127.0.0.1\n", 'app.ru' => "hijack: true true\n");
            if ($without{$app}) {
                is(body_of(@prior, "$url/socket"), $without{$app}, 'no socket over HTTP/2');
                is(body_of("$url/socket"),         $with{$app},    'but over HTTP/1');
            }
            my $plain = curl("$url/");
            like($plain->{body}, qr{^SERVER_PROTOCOL=HTTP/1\.1$}m, 'HTTP/1 is spoken as before');
        };
    }
}

done_testing;
