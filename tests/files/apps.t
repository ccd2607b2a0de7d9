#!/usr/bin/perl
# Property: files take precedence over apps in every language, and apps in every language may name the file that is sent in
# place of their content; a client can bring about neither, nor reach any other file.

use v5.36;
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::Curl;
use Test::More;
use Test::Oribi;
use Test::Site qw(new_site put);
use Test::WebServer::Nginx;

my $large   = content_of(random_file(3 << 20)->filename);
my $files   = new_site('small.txt' => 'Hello World', 'large.bin' => $large, 'empty' => '', 'a b.txt' => 'a space', 'dir/index.html' => 'dir');
my $outside = new_site('secret.txt' => 'secret');
symlink "$outside/secret.txt", "$files/out" or die "symlink: $!";
local $ENV{FILES} = "$files";

my $apps = "$FindBin::Bin/apps";
my @naming = ('--sendfile-root', "$files", '--accel', "/internal=$files");
my $port;

sub static_files ($url) {
    is body_of("$url/static/small.txt"), 'Hello World', 'a file';
    ok body_of("$url/static/large.bin") eq $large, 'a large one';
    is body_of('--range', '6-', "$url/static/small.txt"), 'World', 'a part';
    my $tag = header_of(curl("$url/static/small.txt"), 'ETag');
    is curl('--header', "If-None-Match: $tag", "$url/static/small.txt")->{status}, 304, 'one that the client has';
    is body_of("$url/static/dir/"), 'dir', 'an index';
    is header_of(curl("$url/static/dir?x"), 'Location'), '/static/dir/?x', 'a directory';
    for my $path (qw(/static/none /static/ /static/out /staticsmall.txt /static/.. /small.txt /static/small.txt/)) {
        is body_of('--path-as-is', "$url$path"), "app\n", "$path is for the app";
    }
    is body_of('--data', 'x=1', "$url/static/small.txt"), "app\n", 'and so is POST';
    return;
}

# Properties of a file that an app has named at ADDRESS, with the fields that the app has given.
sub named_file ($address, $name, $content) {
    my $answer = curl($address);
    is $answer->{status}, 200, $name;
    ok $answer->{body} eq $content, 'byte by byte';
    is header_of($answer, 'Content-Length'), length $content, 'with its length';
    is header_of($answer, $_), undef, "$_ stays here" for qw(X-Sendfile X-Accel-Redirect);
    my $head = curl('--head', $address);
    is header_of($head, 'Content-Length'), length $content, 'HEAD';
    my $tag = header_of($answer, 'ETag');
    is curl('--header', "If-None-Match: $tag", $address)->{status}, 304, 'one that the client has';
    is curl('--header', 'If-Match: "other"', $address)->{status}, 412, 'one that has changed';
    my $modified = header_of($answer, 'Last-Modified');
    is curl('--header', "If-Modified-Since: $modified", $address)->{status}, 304, 'by its date, too';
    if (length $content) {
        my $part = curl('--range', '2-4', $address);
        is $part->{status}, 206, 'a part';
        is $part->{body}, substr($content, 2, 3), 'is that part';
        is header_of($part, 'Content-Range'), 'bytes 2-4/' . length $content, 'and says so';
        is curl('--range', '99999999-', $address)->{status}, 416, 'what is not there';
        like header_of(curl('--range', '0-0,-1', $address), 'Content-Type'), qr/multipart\/byteranges/, 'two parts';
    }
    return $answer;
}

sub perl_names_files ($server, $url) {
    for my $way (qw(whole length handle later stream untyped created tagged)) {
        for my $kind (['sendfile', "$files/small.txt"], ['accel', '/internal/small.txt']) {
            my $answer = curl("$url/$kind->[0]/$way?$kind->[1]");
            is $answer->{body}, 'Hello World', "$kind->[0], $way";
            is $answer->{status}, $way eq 'created' ? 201 : 200, 'with the status of the app';
            is header_of($answer, 'Content-Type'), $way eq 'untyped' ? 'text/plain; charset=utf-8' : 'text/x-own', 'and its type';
            is header_of($answer, 'Set-Cookie'),          'a=1',        'its cookie';
            is header_of($answer, 'Cache-Control'),       'private',    'its Cache-Control';
            is header_of($answer, 'Content-Disposition'), 'attachment', 'its Content-Disposition';
            is header_of($answer, 'ETag'), '"own"', 'its ETag' if $way eq 'tagged';
        }
    }
    named_file("$url/sendfile/whole?$files/small.txt",  'a small file',                   'Hello World');
    named_file("$url/sendfile/stream?$files/large.bin", 'a large one, by a stream',       $large);
    named_file("$url/accel/later?/internal/large.bin",  'a large one, later',             $large);
    named_file("$url/accel/whole?/internal/a%20b.txt",  'a name with an escape',          'a space');
    my $answer = curl("$url/sendfile/whole?$files/empty");
    is $answer->{status} . $answer->{body}, '200', 'an empty file';
    is curl('--header', 'If-None-Match: "own"', "$url/sendfile/tagged?$files/small.txt")->{status}, 304, q{the app's tag counts};
    is curl('--range', '2-4', "$url/sendfile/created?$files/small.txt")->{body}, 'Hello World', 'of a 201 there are no parts';
    is curl('--data', 'x', '--range', '2-4', "$url/sendfile/whole?$files/small.txt")->{body}, 'Hello World', 'nor for a POST';

    for my $named (
        "sendfile/whole?$outside/secret.txt", "sendfile/whole?$files/../secret.txt", "sendfile/whole?$files/out", 'sendfile/whole?small.txt',
        "sendfile/whole?$files/none", "sendfile/whole?$files", "sendfile/stream?$files/none", 'sendfile/whole?/etc/passwd',
        'accel/whole?/other/small.txt', 'accel/whole?/internal/../secret.txt', 'accel/whole?/internal/%2e%2e/secret.txt',
        'accel/whole?/internal/out', 'accel/whole?/internal/dir/', "accel/whole?$files/small.txt",
    ) {
        my $refused = curl("$url/$named");
        is $refused->{status}, 404, $named;
        unlike $refused->{body}, qr/secret|root:|not wanted/, 'and no word of it';
        is header_of($refused, $_), undef, "$_ stays here" for qw(X-Sendfile X-Accel-Redirect);
    }
    like $server->log_text, qr{named a file that does not exist.*\Q$outside\E/secret\.txt}, 'the log tells';
    is body_of('--header', "X-Sendfile: $files/small.txt", '--header', 'X-Accel-Redirect: /internal/small.txt', "$url/"), "app\n",
        'a client that says the same is not heard';
    is curl("$url/internal/small.txt")->{body}, "app\n", 'what is internal is nowhere';
    return;
}

for my $case (['PSGI', "$apps/sendfile.psgi"], ['PSGI, Unix socket', "$apps/sendfile.psgi"], ['Lua', "$apps/sendfile.lua"],
    ['Lua, threads', "$apps/sendfile.lua", '--threads', 2], ['Rack', "$apps/sendfile.ru"], ['Rack, threads', "$apps/sendfile.ru", '--threads', '1:3'],
) {
    my ($name, @arguments) = @{$case};
    push @arguments, '--workers', 1, '--static', "/static=$files", @naming;
    local $ENV{SENDFILE_TYPE} = 'X-Sendfile';
    my $server = Test::Oribi->start(@arguments);
    my $url    = $server->url;
    subtest "$name: files in front" => sub { static_files($url) };
    subtest "$name: files that it names" => sub {
        if ($name =~ /PSGI/) {
            perl_names_files($server, $url);
        } elsif ($name =~ /Lua/) {
            for my $path ("/sendfile?$files", "/stream?$files", '/accel?/internal') {
                my $answer = named_file("$url$path/large.bin", $path, $large);
                is header_of($answer, 'Set-Cookie'), 'a=1', 'its cookie';
                is curl("$url$path/none")->{status}, 404, 'what is not there';
            }
        } else {
            named_file("$url/files/small.txt", 'Rack::Sendfile, small', 'Hello World');
            named_file("$url/files/large.bin", 'Rack::Sendfile, large', $large);
            is body_of('--header', 'X-Sendfile-Type: X-Accel-Redirect', '--header', 'X-Accel-Mapping: /=/internal', "$url/steered"), '',
                'what would steer it does not reach the app';
        }
    };
    is $server->stop, 0, 'TERM ends oribi with status 0';
}

subtest 'Rack, X-Accel-Redirect' => sub {
    local $ENV{SENDFILE_TYPE} = 'X-Accel-Redirect';
    my $server = Test::Oribi->start("$apps/sendfile.ru", '--workers', 1, @naming);
    named_file($server->url . '/files/large.bin', 'a large file', $large);
    named_file($server->url . '/files/a%20b.txt', 'a name with an escape', 'a space');
    is $server->stop, 0, 'TERM ends oribi with status 0';
};

subtest 'without permission, the fields are passed on' => sub {
    my $server = Test::Oribi->start("$apps/sendfile.psgi", '--workers', 1);
    my $answer = curl($server->url . "/sendfile/whole?$files/small.txt");
    is header_of($answer, 'X-Sendfile'), "$files/small.txt", 'for a web server in front';
    is $answer->{body}, 'not wanted', 'with the content of the app';
    is header_of(curl($server->url . '/accel/whole?/internal/x'), 'X-Accel-Redirect'), '/internal/x', 'and so is the other';
    my @steering = ('--header', 'X-Sendfile-Type: X-Sendfile');
    is $server->stop, 0, 'TERM ends oribi with status 0';

    $server = Test::Oribi->start("$apps/sendfile.ru", '--workers', 1);
    is body_of(@steering, $server->url . '/steered'), 'HTTP_X_SENDFILE_TYPE X-Sendfile', 'a web server in front may steer';
    is $server->stop, 0, 'TERM ends oribi with status 0';

    # Allowed fields are honoured, and no others.
    $server = Test::Oribi->start("$apps/sendfile.psgi", '--workers', 1, '--sendfile-root', "$files");
    is body_of($server->url . "/sendfile/whole?$files/small.txt"), 'Hello World', 'one of them';
    is header_of(curl($server->url . '/accel/whole?/internal/x'), 'X-Accel-Redirect'), '/internal/x', 'the other is passed on';
    is $server->stop, 0, 'TERM ends oribi with status 0';
};

subtest 'behind nginx, by FastCGI' => sub {
    my $server = Test::Oribi->start_fastcgi("$apps/sendfile.psgi", '--workers', 1, '--static', "/static=$files", @naming);
    my $nginx  = Test::WebServer::Nginx->before($server);
    my $url    = $nginx->url;
    is body_of("$url/static/small.txt"), 'Hello World', 'a file in front';
    ok body_of("$url/static/large.bin") eq $large, 'a large one';
    is body_of("$url/static/none"), "app\n", 'the rest is for the app';
    named_file("$url/sendfile/stream?$files/large.bin", 'a file that is named', $large);
    named_file("$url/accel/whole?/internal/small.txt", 'a small one', 'Hello World');
    is $nginx->stop('QUIT'), 0, 'nginx ends';
    is $server->stop, 0, 'TERM ends oribi with status 0';
};

subtest 'in a configuration file' => sub {
    my $folder = new_site('config.ru' => "run ->(env) { [200, {}, ['app']] }\n");
    put("$folder/public/a.txt", 'a file');
    put("$folder/config/oribi.rb", "workers 1\nstatic '/=$folder/public'\nsendfile_root '$folder/public'\nmax_age '1m'\n");
    my $server = Test::Oribi->start("$folder/config.ru");
    my $answer = curl($server->url . '/a.txt');
    is $answer->{body}, 'a file', 'it is read';
    is header_of($answer, 'Cache-Control'), 'max-age=60', 'word by word';
    is body_of($server->url . '/b.txt'), 'app', 'and the app is there';
    is $server->stop, 0, 'TERM ends oribi with status 0';
};

done_testing;
