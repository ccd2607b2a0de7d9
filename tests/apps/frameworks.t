#!/usr/bin/perl
# Property: the example apps of the frameworks answer correctly, without a proxy and behind nginx over TCP and a Unix socket.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use Digest::SHA qw(sha256_hex);
use Test::Curl;
use Test::More;
use Test::Oribi;
use Test::Proxy;

my $small = random_file(1000);
my $large = random_file(5 << 20);

sub digest ($file) {
    my $content = content_of($file->filename);
    return length($content) . ' bytes, sha256 ' . sha256_hex($content) . "\n";
}

sub answers ($name, $url) {
    my $answer = curl("$url/");
    is $answer->{status}, 200, 'the first page is there';
    is $answer->{body}, "Hello from $name\n", 'and greets';
    is curl("$url/nowhere")->{status}, 404, 'another is not';

    $answer = curl('--head', "$url/");
    is $answer->{exit}, 0, 'curl is content with HEAD';
    is $answer->{status}, 200, 'which finds the page';

    is body_of("$url/hello/Zo%C3%AB%20%2B"), "Hello, Zo\xc3\xab +!\n", 'paths are decoded once';
    is body_of('--data-urlencode', "name=Zo\xc3\xab +", "$url/form"), "Hello, Zo\xc3\xab +!\n", 'a form';

    for my $file ($small, $large) {
        my $path = $file->filename;
        my $size = -s $path;
        is body_of('--form', "file=\@$path;filename=some.bin", "$url/upload"), 'some.bin: ' . digest($file), "an upload of $size bytes";
        is body_of('--header', 'Expect: 100-continue', '--upload-file', $path, "$url/raw"), digest($file), 'a bare one';
        is body_of('--header', 'Transfer-Encoding: chunked', '--header', 'Content-Type: application/octet-stream', '--upload-file',
            $path, "$url/raw"), digest($file), 'one in chunks';
    }

    for my $lines (1, 2000) {
        $answer = curl("$url/stream/$lines");
        is $answer->{exit}, 0, "a stream of $lines lines";
        is $answer->{body}, join('', map { "line $_\n" } 1 .. $lines), 'comes whole and in order';
    }

    $answer = curl(map { "$url/hello/$_" } 1 .. 10);
    is $answer->{body}, join('', map { "Hello, $_!\n" } 1 .. 10), 'ten pages in a row';
    is $answer->{connects}, 1, 'on one connection';
    return;
}

my %app_of = (Mojolicious => 'mojolicious.psgi', Dancer2 => 'dancer2.psgi', Catalyst => 'catalyst.psgi', Sinatra => 'sinatra.ru');
for my $name (sort keys %app_of) {
    my $app = Test::Oribi::root() . "/examples/$app_of{$name}";
    for my $options (['--workers', 2], ['--threads', 2, '--workers', 1]) {
        my $server = Test::Oribi->start($app, @{$options});
        subtest "$name, @{$options}, straight" => sub { answers($name, $server->url) };
        my $proxy = Test::Proxy->before($server);
        subtest "$name, @{$options}, behind nginx" => sub { answers($name, $proxy->url) };
        is $proxy->stop('QUIT'), 0, 'the proxy ends';
        is $server->stop, 0, 'oribi ends with status 0';
    }
    my $server = Test::Oribi->start_on_socket($app);
    my $proxy  = Test::Proxy->before($server);
    subtest "$name behind nginx, on a Unix socket" => sub { answers($name, $proxy->url) };
    is $proxy->stop('QUIT'), 0, 'the proxy ends';
    is $server->stop, 0, 'oribi ends with status 0';
}

done_testing;
