#!/usr/bin/perl
# Property: a real client gets exactly the bytes it should, for every kind of request and answer, straight from oribi over
# TCP and through nginx over TCP and a Unix socket.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use Digest::SHA qw(sha256_hex);
use Test::Curl;
use Test::More;
use Test::Oribi;
use Test::Proxy;

my $megabytes = random_file(5 << 20);
my $sent      = content_of($megabytes->filename);
my $pattern   = substr join('', map { chr } 0 .. 250) x 20_888, 0, 5 << 20;
my $probe     = "$FindBin::Bin/probe.psgi";

sub plain_answers ($url) {
    my $answer = curl("$url/");
    is $answer->{status}, 200, 'GET is answered';
    is $answer->{body}, "probe\n", 'with its content';
    is header_of($answer, 'Content-Length'), 6, 'and its length';

    $answer = curl('--head', "$url/array?1000");
    is $answer->{exit}, 0, 'curl is content with HEAD';
    is header_of($answer, 'Content-Length'), 1000, 'HEAD tells the length';
    unlike $answer->{body}, qr/\x01\x02\x03/, 'and sends no content';

    $answer = curl('--http1.0', "$url/pieces?100000");
    is $answer->{body}, substr($pattern, 0, 100_000), 'HTTP/1.0 gets a stream without chunks';

    $answer = curl("$url/nowhere");
    is $answer->{status}, 404, "the app's own 404";

    $answer = curl("$url/die");
    is $answer->{status}, 500, 'an app that dies is a 500';
    is curl("$url/")->{status}, 200, 'and the next request is answered';
    return;
}

sub downloads ($url) {
    for my $way (qw(array file pieces)) {
        for my $size (0, 1, 65_536, 5 << 20) {
            my $answer = curl("$url/$way?$size");
            is $answer->{exit}, 0, "$way of $size bytes comes whole";
            ok $answer->{body} eq substr($pattern, 0, $size), 'and byte by byte';
        }
    }
    return;
}

sub uploads ($url) {
    my $expected = length($sent) . ' ' . sha256_hex($sent) . "\n";
    my $file     = $megabytes->filename;

    is body_of('--data-binary', "\@$file", "$url/digest"), $expected, 'an upload with a length';
    is body_of('--header', 'Transfer-Encoding: chunked', '--data-binary', "\@$file", "$url/digest"), $expected, 'a chunked one';
    ok body_of('--data-binary', "\@$file", "$url/echo") eq $sent, 'up and down again';

    my $answer = curl('--header', 'Expect: 100-continue', '--upload-file', $file, "$url/digest");
    my $version = $url =~ /^https:/ ? 'HTTP/2' : 'HTTP/1.1';
    like $answer->{head}, qr{\A\Q$version\E[ ]100[ ]}, 'who asks is told to go on';
    is $answer->{body}, $expected, 'and what he then sends arrives';

    my $pid = open my $pipe, q(-|) // die "fork: $!";
    if ($pid == 0) {
        # curl cannot know how much comes through a pipe, so that it sends chunks.
        exec '/bin/sh', '-c', 'cat "$0" | curl --silent --max-time 60 --upload-file - "$1"', $file, "$url/digest"
            or die "sh: $!";
    }
    my $piped = do { local $/ = undef; readline $pipe };
    close $pipe or fail "curl: $?";
    is $piped, $expected, 'an upload through a pipe, in chunks';

    is body_of('--data', '', "$url/digest"), '0 ' . sha256_hex('') . "\n", 'an empty upload';
    return;
}

sub kept_connections ($url) {
    my $answer = curl(map { "$url/array?10" } 1 .. 20);
    is length $answer->{body}, 200, 'twenty requests are answered';
    is $answer->{connects}, 1, 'on one connection';

    $answer = curl('--http1.1', '--header', 'Connection: close', "$url/", "$url/");
    is $answer->{connects}, 2, 'who wants it closed gets it closed';
    return;
}

sub environment_of ($url, @arguments) {
    return { map { split /=/, $_, 2 } split /\n/, body_of(@arguments, "$url/environment") };
}

for my $workers (1, 2) {
    my $server = Test::Oribi->start($probe, '--workers', $workers);
    my $url    = $server->url;

    subtest "straight, workers: $workers" => sub {
        plain_answers($url);
        downloads($url);
        uploads($url);
        kept_connections($url);

        my $env = environment_of($url, '--header', 'X-Twice: a', '--header', 'X-Twice: b');
        is $env->{REMOTE_ADDR}, '127.0.0.1', 'REMOTE_ADDR';
        like $env->{REMOTE_PORT}, qr/\A[1-9]\d*\z/, 'REMOTE_PORT';
        is $env->{SERVER_PORT}, $server->url_port, 'SERVER_PORT';
        is $env->{HTTP_X_TWICE}, 'a, b', 'repeated fields are joined';

        my $answer = curl("$url/cut");
        isnt $answer->{exit}, 0, 'a stream whose app dies does not look whole';
        is $answer->{body}, 'begun', 'after what it had sent';
    };

    my $proxy = Test::Proxy->before($server);
    subtest "behind nginx, workers: $workers" => sub {
        for my $url ($proxy->urls) {
            plain_answers($url);
            downloads($url);
            uploads($url);
        }
        is environment_of($proxy->url)->{HTTP_X_FORWARDED_FOR}, '127.0.0.1', 'the proxy is heard';
    };
    is $proxy->stop('QUIT'), 0, 'the proxy ends';
    is $server->stop, 0, 'TERM ends oribi with status 0';
}

my $server = Test::Oribi->start_on_socket($probe, '--workers', 2);
my $proxy  = Test::Proxy->before($server);
subtest 'behind nginx, on a Unix socket' => sub {
    for my $url ($proxy->urls) {
        plain_answers($url);
        downloads($url);
        uploads($url);
    }
    my $env = environment_of($proxy->url);
    is $env->{REMOTE_ADDR}, '127.0.0.1', 'the peer of a Unix socket is on this machine';
    is environment_of($proxy->url)->{HTTP_X_FORWARDED_FOR}, '127.0.0.1', 'but the proxy tells it';
};
is $proxy->stop('QUIT'), 0, 'the proxy ends';
is $server->stop, 0, 'TERM ends oribi with status 0';

done_testing;
