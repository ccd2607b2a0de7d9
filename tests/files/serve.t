#!/usr/bin/perl
# Property: `oribi serve DIR` gives clients the files of a directory, whole or the part that they want, in the coding that they
# want, and nothing else; nginx says the same wherever it follows the RFC.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use POSIX ();
use Test::Curl;
use Test::More;
use Test::Oribi;
use Test::Site qw(new_site put nginx_for raw_request);
use Time::HiRes qw(sleep);

my $large = content_of(random_file(5 << 20)->filename);
my $text  = join '', map { "line $_\n" } 1 .. 3000;
my $site  = new_site(
    'index.html'           => "<h1>home</h1>\n",
    'hello.txt'            => 'Hello World',
    'empty.txt'            => '',
    'text.txt'             => $text,
    'large.bin'            => $large,
    'dir/index.html'       => "dir\n",
    'none/file'            => "x\n",
    'a b.txt'              => "a space\n",
    "\xc3\xa9.txt"         => "an e\n",
    '100%.txt'             => "percent\n",
    '.env'                 => "secret\n",
    '.git/config'          => "secret\n",
    '.well-known/acme'     => "challenge\n",
    'style.css'            => 'plain ' x 100,
    'style.css.br'         => 'as br',
    'style.css.zst'        => 'as zst',
    'style.css.gz'         => 'as gz',
    'old.css'              => 'plain',
    'old.css.gz'           => 'stale',
    'photo.png'            => 'png',
    'photo.png.gz'         => 'gz',
);
utime 1_000_000_000, 1_000_000_000, "$site/old.css.gz" or die "utime: $!";
utime 1_600_000_000, 1_600_000_000, "$site/$_" or die "utime: $!" for qw(hello.txt text.txt empty.txt large.bin);

sub etag_of ($url) { return header_of(curl('--head', $url), 'ETag') }

sub whole_files ($url) {
    for my $name (qw(hello.txt empty.txt text.txt large.bin)) {
        my $answer = curl("$url/$name");
        is $answer->{status}, 200, $name;
        ok $answer->{body} eq content_of("$site/$name"), 'byte by byte';
        my $head = curl('--head', "$url/$name");
        is $head->{exit}, 0, 'HEAD';
        is header_of($head, 'Content-Length'), -s "$site/$name", 'tells the length';
        for my $field (qw(Content-Type ETag Last-Modified Accept-Ranges)) {
            is header_of($head, $field), header_of($answer, $field), "and the same $field";
        }
    }
    is header_of(curl("$url/hello.txt"), 'Last-Modified'), 'Sun, 13 Sep 2020 12:26:40 GMT', 'the time of the file';
    is header_of(curl("$url/hello.txt"), 'Content-Type'), 'text/plain; charset=utf-8', 'the type of text';
    is header_of(curl("$url/large.bin"), 'Content-Type'), 'application/octet-stream', 'the type of anything else';
    is body_of("$url/a%20b.txt"),     "a space\n", 'a space';
    is body_of("$url/%C3%a9.txt"),    "an e\n",    'a letter of another alphabet';
    is body_of("$url/100%25.txt"),    "percent\n", 'a percent sign';
    is body_of("$url/hello.txt?v=1"), 'Hello World', 'the query does not matter';
    is curl(map { "$url/hello.txt" } 1 .. 20)->{connects}, 1, 'the connection is kept';
    return;
}

sub directories ($url) {
    is body_of("$url/"), "<h1>home</h1>\n", 'the index of the root';
    is body_of("$url/dir/"), "dir\n", 'and of another directory';
    my $answer = curl("$url/dir?a=1&b=2");
    is $answer->{status}, 301, 'a directory without its slash';
    is header_of($answer, 'Location'), '/dir/?a=1&b=2', 'is elsewhere, with the query';
    is body_of('--location', "$url/dir?a"), "dir\n", 'and there it is';
    is curl("$url/$_")->{status}, 404, "$_ has no index" for qw(none none/);
    return;
}

sub methods ($url) {
    for my $method (qw(POST PUT DELETE PATCH TRACE UNKNOWN)) {
        my $answer = curl('--request', $method, "$url/hello.txt");
        is $answer->{status}, 405, $method;
        is header_of($answer, 'Allow'), 'GET, HEAD, OPTIONS', 'which are allowed';
    }
    my $answer = curl('--request', 'OPTIONS', "$url/");
    is $answer->{status}, 204, 'OPTIONS';
    is header_of($answer, 'Allow'), 'GET, HEAD, OPTIONS', 'says so';
    return;
}

# Without the Date, and with a name for each boundary.
sub essence ($answer) {
    my %field = map { lc($_) => header_of($answer, $_) } qw(Content-Range Content-Length Content-Type);
    delete $field{'content-length'} if $answer->{status} >= 400;
    delete $field{'content-type'}   if $answer->{status} >= 300;
    my $body = $answer->{status} >= 300 ? '' : $answer->{body};
    $field{'content-type'} //= '';
    if ($field{'content-type'} =~ s/boundary=(\S+)/boundary=B/) {
        my $boundary = $1;
        $body =~ s/\Q$boundary\E/B/g;
        $field{'content-length'} = length $body;
    }
    return { status => $answer->{status}, body => $body, map { $_ => $field{$_} } grep { defined $field{$_} } keys %field };
}

sub second_opinion ($url, $nginx) {
    my $modified = 'Sun, 13 Sep 2020 12:26:40 GMT';
    my ($earlier, $later) = ('Sun, 13 Sep 2020 12:26:39 GMT', 'Sun, 13 Sep 2020 12:26:41 GMT');
    # `%` is the server's own entity-tag.
    my @requests = (
        [], ['If-None-Match: %'], ['If-None-Match: W/%'], ['If-None-Match: "a", %'], ['If-None-Match: "a"'], ['If-None-Match: *'],
        ['If-Match: %'], ['If-Match: "a"'], ['If-Match: "a", %'], ['If-Match: *'], ['If-Match: W/%'],
        (map { ["If-Modified-Since: $_"] } $earlier, $modified, $later),
        (map { ["If-Unmodified-Since: $_"] } $earlier, $modified, $later),
        ['If-Modified-Since: nonsense'], ['If-None-Match: "a"', "If-Modified-Since: $later"],
        ['If-None-Match: %', 'If-Match: "a"'], ['If-None-Match: %', 'Range: bytes=0-1'],
        (map { ["Range: bytes=$_"] } '0-0', '0-4', '5-', '-5', '-99999999', '0-99999999', '10-10', '11-', '99999999-',
            '0-0,-1', '0-1,4-5', '9-10,0-1', '0-0,99999999-', '99999999-,99999999-'),
        ['Range: items=0-1'], ['Range: bytes=-0'],
        (map { ['Range: bytes=0-3', "If-Range: $_"] } '%', '"a"', $modified, $earlier, $later),
        ['Range: bytes=0-3', 'If-Match: "a"'], ['Range: bytes=0-3', "If-Unmodified-Since: $earlier"],
    );
    for my $name (qw(hello.txt text.txt large.bin)) {
        my %etag_of = map { $_ => etag_of("$_/$name") } $url, $nginx;
        for my $request (@requests) {
            my ($ours, $theirs) = map {
                my $server = $_;
                my @fields = map { ('--header', s/%/$etag_of{$server}/gr) } @{$request};
                essence(curl(@fields, "$server/$name"));
            } $url, $nginx;
            is_deeply $ours, $theirs, join ' | ', $name, @{$request} or diag explain [$ours->{status}, $theirs->{status}];
        }
    }
    return;
}

# Cases in which nginx differs, and the rule of the RFC.
sub conditions ($url) {
    my $tag = etag_of("$url/hello.txt");
    is curl('--header', 'If-Unmodified-Since: nonsense', "$url/hello.txt")->{status}, 200, 'a date that is none says nothing';
    my @both = ('--header', "If-None-Match: $tag", '--header', 'If-Modified-Since: Sun, 13 Sep 2020 12:26:39 GMT');
    is curl(@both, "$url/hello.txt")->{status}, 304, 'beside a tag, the date is not looked at';
    my $answer = curl('--header', "If-None-Match: $tag", "$url/hello.txt");
    is header_of($answer, 'ETag'), $tag, 'who has it is told the tag again';
    is header_of($answer, 'Content-Type'), undef, 'and nothing of content';
    return;
}

sub more_ranges ($url) {
    my $answer = curl('--head', '--header', 'Range: bytes=0-1', "$url/hello.txt");
    is $answer->{status}, 200, 'a Range with HEAD is ignored';
    is header_of($answer, 'Content-Length'), 11, 'so that the length is that of the whole';
    for my $range ('5-4', 'a-b', '1', '', '0-1,x') {
        is curl('--header', "Range: bytes=$range", "$url/hello.txt")->{status}, 200, "bytes=$range means nothing";
    }
    my $killer = join ',', map { "$_-" } 0 .. 31;
    $answer = curl('--header', "Range: bytes=$killer", "$url/text.txt");
    is length $answer->{body}, length $text, 'ranges that overlap are not sent twice';
    is header_of($answer, 'Content-Range'), 'bytes 0-' . (length($text) - 1) . '/' . length $text, 'but as one';
    my $many = join ',', map { 3 * $_ . '-' . 3 * $_ } 0 .. 500;
    $answer = curl('--header', "Range: bytes=$many", "$url/text.txt");
    ok $answer->{status} == 200 && $answer->{body} eq $text, 'whoever wants very many gets everything';
    is curl('--header', 'Range: bytes=-5', "$url/empty.txt")->{status}, 200, 'the end of nothing is nothing';
    is header_of(curl('--header', 'Range: bytes=0-', "$url/empty.txt"), 'Content-Range'), 'bytes */0', 'its beginning is not there';
    ok body_of('--header', 'Range: bytes=1000000-2999999', "$url/large.bin") eq substr($large, 1_000_000, 2_000_000),
        'a long part of a large file';
    return;
}

sub codings ($url) {
    for my $case (
        ['', '', 'plain'], ['gzip', 'gzip', 'as gz'], ['gzip, deflate, br, zstd', 'br', 'as br'], ['zstd, gzip', 'zstd', 'as zst'],
        ['br;q=0.1, gzip;q=0.9', 'gzip', 'as gz'], ['identity, br;q=0.5', '', 'plain'], ['*;q=0, gzip', 'gzip', 'as gz'],
        ['deflate', '', 'plain'], ['br;q=0', '', 'plain'],
    ) {
        my ($accepted, $coding, $start) = @{$case};
        my $answer = curl('--header', "Accept-Encoding: $accepted", "$url/style.css");
        like $answer->{body}, qr/\A\Q$start\E/, "Accept-Encoding: $accepted";
        is header_of($answer, 'Content-Encoding') // '', $coding, 'is told';
        is header_of($answer, 'Content-Type'), 'text/css; charset=utf-8', 'with the type of the file';
        is header_of($answer, 'Vary'), 'Accept-Encoding', 'and that it varies';
    }
    my %tags = map { header_of(curl('--header', "Accept-Encoding: $_", "$url/style.css"), 'ETag') => 1 } qw(identity gzip br zstd);
    is keys %tags, 4, 'every variant has a tag of its own';
    my $tag = header_of(curl('--header', 'Accept-Encoding: br', "$url/style.css"), 'ETag');
    is curl('--header', 'Accept-Encoding: br', '--header', "If-None-Match: $tag", "$url/style.css")->{status}, 304, 'which holds';
    is curl('--header', 'Accept-Encoding: gzip', '--header', "If-None-Match: $tag", "$url/style.css")->{status}, 200, 'for it alone';
    is body_of('--header', 'Accept-Encoding: br', '--header', 'Range: bytes=3-4', "$url/style.css"), 'br', 'ranges are its own, too';

    my $answer = curl('--header', 'Accept-Encoding: gzip', "$url/old.css");
    is $answer->{body}, 'plain', 'a variant that is older is not used';
    is header_of($answer, 'Vary'), undef, 'nor told of';
    is body_of('--header', 'Accept-Encoding: gzip', "$url/photo.png"), 'png', 'nor one of what is compressed anyway';
    $answer = curl('--header', 'Accept-Encoding: identity;q=0', "$url/hello.txt");
    is $answer->{status}, 406, 'who does not accept the file as it is gets nothing';
    is body_of('--header', 'Accept-Encoding: gzip', "$url/style.css.gz"), 'as gz', 'a variant is a file, too';
    return;
}

sub ways_out ($server) {
    put("$site/../outside-$$", "secret\n");
    my %link = (
        'link-outside' => "../outside-$$", 'link-root' => '/', 'link-passwd' => '/etc/passwd', 'link-up' => '..',
        'link-inside' => 'dir/index.html', 'link-self' => 'link-self',
    );
    symlink $link{$_}, "$site/$_" or die "symlink: $!" for keys %link;
    my @paths = (
        "/../outside-$$", "/dir/../../outside-$$", "/%2e%2e/outside-$$", "/%2E%2E%2Foutside-$$", "/..%2foutside-$$",
        "/%252e%252e/outside-$$", "/dir/%2e%2e/%2e%2e/outside-$$", "/..\\outside-$$", "/..%5coutside-$$", "/.%00./outside-$$",
        "/hello.txt%00.html", "/hello.txt%00", "//etc/passwd", "///etc/passwd", "/./hello.txt", "/dir//index.html",
        "/%c0%ae%c0%ae/outside-$$", "/%uff0e%uff0e/outside-$$", "/....//outside-$$", "/..;/outside-$$", "/link-outside",
        "/link-passwd", '/link-root/etc/passwd', "/link-up/outside-$$", '/link-self', '/.env', '/.git/config', '/%2eenv', '/%2egit/config',
        '/hello.txt/', '/hello.txt/.', '/hello.txt/..', '/%', '/%4', '/%zz', '/hello.txt%', '/' . 'a' x 5000, '/' . 'a/' x 2000,
        '/dev/null', '/proc/self/environ',
    );
    for my $path (@paths) {
        my $answer = raw_request($server, "GET $path HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        like $answer, qr{\AHTTP/1\.1[ ]40[04][ ]}, (length $path > 60 ? substr($path, 0, 60) . '...' : $path) or diag $answer;
        unlike $answer, qr/secret|root:/, 'and no word of it';
    }
    my $answer = raw_request($server, "GET http://x/../outside-$$ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    like $answer, qr{\AHTTP/1\.1[ ]404[ ]}, 'an absolute target';
    is body_of($server->url . '/link-inside'), "dir\n", 'a link that stays inside is followed';
    is body_of($server->url . '/.well-known/acme'), "challenge\n", 'and one dot is known well';
    like raw_request($server, "GET /a%3Cscript%3E HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), qr/404/, 'a script';
    unlike raw_request($server, "GET /<script> HTTP/1.0\r\n\r\n"), qr/<script>/, 'is not repeated';
    unlink "$site/../outside-$$", map { "$site/$_" } keys %link;
    return;
}

# A link that leads in and out by turns, and a directory that becomes a link: a file outside is never sent.
sub races ($server) {
    my $url     = $server->url;
    my $outside = new_site('hello.txt' => 'secret');
    put("$site/moving/hello.txt", 'Hello World');
    put("$site/steady/hello.txt", 'Hello World');
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        my $end = time + 60;
        while (time < $end) {
            rename "$site/moving", "$site/moved";
            symlink "$outside", "$site/moving";
            unlink "$site/moving";
            symlink 'steady', "$site/moving";
            unlink "$site/moving";
            rename "$site/moved", "$site/moving";
        }
        POSIX::_exit(0);
    }
    my %seen;
    for (1 .. 30) {
        my $answer = curl(map { "$url/moving/hello.txt?$_" } 1 .. 20);
        $seen{$_}++ for split /(?<=Hello World)/, $answer->{body} =~ s/<!DOCTYPE.*?<\/html>\n//sgr;
    }
    kill 'KILL', $pid;
    waitpid $pid, 0;
    is_deeply [keys %seen], ['Hello World'], 'inside or nowhere';
    return;
}

sub changes ($url) {
    my $seen = sub ($name, $expected) {
        for (1 .. 300) {
            my $answer = curl("$url/$name");
            return 1 if ($answer->{status} == 200 ? $answer->{body} : $answer->{status}) eq $expected;
            sleep 0.1;
        }
        return 0;
    };
    for my $size (20, 100_000) {
        put("$site/changing", 'a' x $size);
        ok $seen->('changing', 'a' x $size), "a new file of $size bytes";
        my $tag = etag_of("$url/changing");
        put("$site/changing", 'b' x $size);
        ok $seen->('changing', 'b' x $size), 'is seen when it is replaced';
        isnt etag_of("$url/changing"), $tag, 'and has another tag';
        is curl('--header', "If-None-Match: $tag", "$url/changing")->{status}, 200, 'which the old one does not match';
        open my $out, '>>', "$site/changing" or die "append: $!";
        print {$out} 'c';
        close $out or die "append: $!";
        ok $seen->('changing', 'b' x $size . 'c'), 'also when it has become longer in its place';
        put("$site/changing.br", 'br');
        unlink "$site/changing" or die "unlink: $!";
        ok $seen->('changing', '404'), 'and when it has gone';
        unlink "$site/changing.br";
    }
    return;
}

sub a_file_that_shrinks ($server) {
    put("$site/shrinking", "\0" x (64 << 20));
    my $connection = $server->connection;
    print {$connection} "GET /shrinking HTTP/1.1\r\nHost: x\r\n\r\n";
    $connection->flush;
    sysread $connection, my $first, 1000;
    like $first, qr/^Content-Length: 67108864\r$/m, 'a large file begins';
    truncate "$site/shrinking", 1000 or die "truncate: $!";
    my $received = length $first;
    while (my $count = sysread $connection, my $piece, 1 << 20) { $received += $count }
    cmp_ok $received, '<', 64 << 20, 'and ends early when it shrinks';
    ok $server->wait_until(sub { $server->log_text =~ /its file has become shorter/ }), 'which the log tells';
    unlink "$site/shrinking";
    return;
}

sub special_files ($url) {
    POSIX::mkfifo("$site/fifo", 0666) or die "mkfifo: $!";
    is curl("$url/fifo")->{status}, 404, 'a FIFO keeps nobody waiting';
    unlink "$site/fifo";
    return;
}

my $server = Test::Oribi->start('serve', "$site", '--workers', 1);
my $nginx  = nginx_for($site);
my $url    = $server->url;
subtest 'whole files'               => sub { whole_files($url) };
subtest 'directories'               => sub { directories($url) };
subtest 'methods'                   => sub { methods($url) };
subtest 'as nginx does it'          => sub { second_opinion($url, $nginx->url) };
subtest 'and as the RFC has it'     => sub { conditions($url); more_ranges($url) };
subtest 'codings'                   => sub { codings($url) };
subtest 'ways out'                  => sub { ways_out($server) };
subtest 'changes'                   => sub { changes($url) };
subtest 'a file that shrinks'       => sub { a_file_that_shrinks($server) };
subtest 'special files'             => sub { special_files($url) };
is $nginx->stop('QUIT'), 0, 'nginx ends';
is $server->stop, 0, 'TERM ends oribi with status 0';

# Nothing is kept, so that every request looks.
$server = Test::Oribi->start('serve', "$site", '--workers', 1, '--open-files', 0);
subtest 'races' => sub { races($server) };
is $server->stop, 0, 'TERM ends oribi with status 0';

for my $options (['--io', 'io_uring'], ['--open-files', 0], ['--threads', 2], ['--open-files', 2]) {
    subtest "with @{$options}" => sub {
        $server = Test::Oribi->start('serve', "$site", '--workers', 1, @{$options});
        whole_files($server->url);
        more_ranges($server->url);
        codings($server->url);
        a_file_that_shrinks($server);
        is $server->stop, 0, 'TERM ends oribi with status 0';
    };
}

subtest 'options' => sub {
    my @options = ('--max-age', '1h', '--index', 'index.htm,hello.txt', '--dotfiles', '--precompressed=off');
    $server = Test::Oribi->start('serve', "$site", '--workers', 1, @options);
    $url    = $server->url;
    my $answer = curl("$url/");
    is $answer->{body}, 'Hello World', 'the first index that is there';
    is header_of($answer, 'Cache-Control'), 'max-age=3600', 'may be kept for an hour';
    my $again = curl('--header', 'If-None-Match: ' . header_of($answer, 'ETag'), "$url/");
    is header_of($again, 'Cache-Control'), 'max-age=3600', 'and once more';
    is header_of(curl("$url/nowhere"), 'Cache-Control'), undef, 'what is not there may not';
    is body_of("$url/.env"), "secret\n", 'dots';
    like body_of('--header', 'Accept-Encoding: br', "$url/style.css"), qr/\Aplain/, 'no variants';
    is $server->stop, 0, 'TERM ends oribi with status 0';
};

subtest 'media types' => sub {
    my @types = map { ('--media-type', $_) } '.bin=application/x-own', '.css=text/css', 'HELLO.TXT=text/x-hello; charset=utf-8', '.gz=text/x-gz', '*=text/x-other';
    put("$site/NAMELESS", 'no ending');
    $server = Test::Oribi->start('serve', "$site", '--workers', 1, @types);
    $url    = $server->url;
    is header_of(curl("$url/large.bin"), 'Content-Type'), 'application/x-own',           'of an ending';
    is header_of(curl("$url/hello.txt"), 'Content-Type'), 'text/x-hello; charset=utf-8', 'of a name, in any case of letters';
    is header_of(curl("$url/empty.txt"), 'Content-Type'), 'text/plain; charset=utf-8',   'others are as without the option';
    is header_of(curl("$url/NAMELESS"), 'Content-Type'), 'text/x-other', 'of those whose names say none';
    unlink "$site/NAMELESS" or die "cannot remove it: $!";
    my $answer = curl('--header', 'Accept-Encoding: gzip', "$url/style.css");
    is header_of($answer, 'Content-Type'), 'text/css', 'a variant has the type of its file';
    is $answer->{body}, 'as gz', 'with its own content';
    like header_of(curl('--range', '0-0,-1', "$url/large.bin"), 'Content-Type'), qr/multipart/, 'parts';
    is $server->stop, 0, 'TERM ends oribi with status 0';
};

for my $edge ('off', 'on') {
    subtest "a listing, with --edge $edge" => sub {
        $server = Test::Oribi->start('serve', "$site", '--workers', 1, '--index', 'off', '--listing', '--edge', $edge);
        $url    = $server->url;
        my $answer = curl("$url/");
        like $answer->{body}, qr{<a href="[.]/style[.]css">style[.]css</a>}, 'a page has a file';
        unlike $answer->{body}, qr/[.]env/, 'and none that is not sent';
        is header_of($answer, 'Content-Type'), 'text/html; charset=utf-8', 'its type';
        is header_of($answer, 'Content-Security-Policy'), q{default-src 'none'}, 'it may run nothing';
        my $list = curl('--header', 'Accept: application/json', "$url/");
        like $list->{body}, qr/[{]"name":"style[.]css","href":"[.]\/style[.]css","type":"file","size":\d+,"modified":"2/, 'a list';
        is header_of($list, 'Vary'), 'Accept', 'they are told apart';
        is curl("$url/nowhere/")->{status}, 404, 'a directory that is not there';
        is $server->stop, 0, 'TERM ends oribi with status 0';
    };
}

done_testing;
