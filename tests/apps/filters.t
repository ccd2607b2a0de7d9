#!/usr/bin/perl
# Property: a route changes requests and responses as its filters say, for real clients, over HTTP/1.1 and HTTP/2, whatever gives the
# response: an app, a file, or the server itself.

use v5.36;
use File::Path qw(make_path);
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::FreePort qw(free_port);
use Test::Certificate;
use Test::Command qw(write_file);
use Test::Curl;
use Test::More;
use Test::Oribi;

my $folder = File::Temp->newdir;
make_path("$folder/public/docs", "$folder/public/names");
write_file("$folder/public/names/second.html", "<p>second</p>\n");
write_file("$folder/public/index.html",      "<p>the app of one page</p>\n");
write_file("$folder/public/docs/start.html", "<p>start</p>\n" x 500);
write_file("$folder/public/blank.css.gz",    "not asked for\n");
write_file("$folder/503.html",               "<p>back soon</p>\n");
write_file("$folder/404.html",               "<p>no such thing</p>\n");
write_file("$folder/app.psgi", <<~'APP');
    my $line = "all work and no play makes Jack a dull boy\n";
    my %answers = (
        '/text'   => sub { [200, ['Content-Type' => 'text/plain', ETag => '"one"'], [$line x 200]] },
        '/short'  => sub { [200, ['Content-Type' => 'text/plain'], [$line]] },
        '/image'  => sub { [200, ['Content-Type' => 'image/png'], [$line x 200]] },
        '/cookie' => sub { [200, ['Content-Type' => 'text/plain', 'Set-Cookie' => 'a=b'], [$line x 200]] },
        '/large'  => sub { [200, ['Content-Type' => 'text/plain'], [($line x 1000) x 100]] },
        '/fields' => sub { [200, ['X-Powered-By' => 'Perl', 'X-Frame-Options' => 'ALLOW'], [join q(,), map { $_[0]{$_} // '-' }
            qw(HTTP_X_TENANT HTTP_COOKIE HTTP_ACCEPT)]] },
        '/missing' => sub { [404, ['Content-Type' => 'text/plain'], ["of the app\n"]] },
        '/stream' => sub { my $respond = shift; sub {
            my $writer = $_[0]->([200, ['Content-Type' => 'text/plain']]);
            for (1 .. 300) { $writer->write("$_ $line") }
            $writer->close;
        } },
    );
    sub { my $env = shift; ($answers{ $env->{PATH_INFO} } // sub { [404, [], []] })->($env) };
    APP

my ($port, $encrypted, $metrics) = map { free_port() } 1 .. 3;
my $certificate = certificate('filters', "$folder/certificate");
write_file("$folder/oribi.toml", <<~"TOML");
    [server]
    edges = 2
    metrics = "127.0.0.1:$metrics"

    [[listen]]
    address = "127.0.0.1:$port"

    [[listen]]
    address = "https://127.0.0.1:$encrypted?cert=$certificate"

    [app.site]
    file = "app.psgi"
    workers = 2

    [app.closed]
    file = "closed.psgi"
    workers = 1

    [defaults]
    compress = true
    response-fields = { set = { X-Frame-Options = "DENY" }, remove = "X-Powered-By", unless-error = { add = { X-Fine = "1" } } }
    error-pages = { 404 = "404.html", 503 = "503.html" }

    [[route]]
    match = { path = "/closed" }
    app = "closed"

    [[route]]
    name = "documents"
    match = { path = "/docs/*" }
    files = { root = "public", try = ["\$uri", "\$uri.html"] }

    [[route]]
    match = { path = "/names/*" }
    files = { root = "public", index = ["first.html", "second.html"] }

    [[route]]
    match = { path = "/page/*" }
    files = { root = "public", try = ["\$uri", "/index.html"] }

    [[route]]
    match = { path = "/plain/*" }
    app = "site"
    mount = "/plain"
    compress = false
    response-fields = {}

    [[route]]
    match = { path = "/limited" }
    app = "site"
    limit = { requests = 5, per = "1h", field = "X-Key" }

    [[route]]
    app = "site"
    request-fields = { set = { X-Tenant = "shop" }, remove = "Cookie" }
    TOML
write_file("$folder/closed.psgi", qq{die "closed\\n";\n});

my $server = Test::Oribi->run_on_port($port, Test::Oribi::command(), '-c', "$folder/oribi.toml");
my $http   = "http://127.0.0.1:$port";
my $line   = "all work and no play makes Jack a dull boy\n";
ok $server->wait_until(sub { $server->log_text =~ /closed cannot be loaded/ }), 'the server has started';

for ([ $http, '--http1.1' ], [ "https://127.0.0.1:$encrypted", '--http2', '--cacert', $certificate ]) {
    my ($url, @how) = @$_;
    subtest "compression, $how[0]" => sub {
        for my $coding (qw(gzip br zstd)) {
            my @asks = (@how, '--compressed', '-H', "Accept-Encoding: $coding");
            my $text = curl(@asks, "$url/text");
            is header_of($text, 'Content-Encoding'), $coding,           "$coding is as the client likes it";
            is $text->{body},                        $line x 200,       'its content is that of the app';
            is header_of($text, 'Vary'),             'Accept-Encoding', 'and caches know';
            is header_of($text, 'ETag'),             'W/"one~z"',       'it is no longer the same bytes';
            is curl(@asks, "$url/stream")->{body}, join(q(), map { "$_ $line" } 1 .. 300), 'a stream is whole';
            my $large = curl(@asks, "$url/large");
            is header_of($large, 'Content-Encoding'), undef, 'a response beyond the limit stays as it is';
            is length $large->{body}, length($line) * 100_000, 'and is whole';
            my $file = curl(@asks, "$url/docs/start");
            is header_of($file, 'Content-Encoding'), $coding,                 'a file is compressed as well';
            is $file->{body},                        "<p>start</p>\n" x 500, 'and has its content';
        }
        my @asks = (@how, '-H', 'Accept-Encoding: gzip');
        for my $target (qw(short image cookie plain/text)) {
            is header_of(curl(@asks, "$url/$target"), 'Content-Encoding'), undef, "/$target is not compressed";
        }
        is header_of(curl(@asks, '-H', 'Authorization: Basic eDp5', "$url/text"), 'Content-Encoding'), undef, 'nor a user\'s';
        is header_of(curl(@asks, '-r', '0-9', "$url/docs/start.html"), 'Content-Encoding'), undef, 'nor a part of a file';
        my $head = curl(@asks, '--head', "$url/text");
        is header_of($head, 'Content-Encoding'), 'gzip', 'HEAD gets the fields of GET';
        is header_of($head, 'Content-Length'),   undef,  'and no wrong size';
    };
    subtest "fields and pages, $how[0]" => sub {
        my $fields = curl(@how, '-H', 'x-tenant: evil', '-H', 'Cookie: a=b', '-H', 'Accept: x/y', "$url/fields");
        is $fields->{body}, 'shop,-,x/y', 'the app sees the changed request';
        is header_of($fields, 'X-Powered-By'),    undef,  'a field is removed';
        is header_of($fields, 'X-Frame-Options'), 'DENY', 'and one replaced';
        is header_of($fields, 'X-Fine'),          '1',    'and one added, unless it is an error';
        is header_of(curl(@how, "$url/plain/fields"), 'X-Powered-By'), 'Perl', 'not where the route has none of these';
        my $closed = curl(@how, "$url/closed");
        is $closed->{status}, 503,                  'an app that cannot be loaded';
        is $closed->{body},   "<p>back soon</p>\n", 'has a page';
        is header_of($closed, 'Content-Type'),    'text/html; charset=utf-8', 'with its type';
        is header_of($closed, 'X-Frame-Options'), 'DENY',                     'and the fields of all';
        is header_of($closed, 'X-Fine'),          undef,                      'but not those that errors lack';
        is body_of(@how, "$url/missing"), "of the app\n", 'the pages of an app are its own';
        my $file = curl(@how, "$url/docs/none");
        is $file->{status}, 404,                      'a file that is missing';
        is $file->{body},   "<p>no such thing</p>\n", 'has a page, too';
        is body_of(@how, "$url/names/"), "<p>second</p>\n", 'one of several names of the file for a directory';
        is body_of(@how, "$url/page/a/b"), "<p>the app of one page</p>\n", 'a path of an app of one page has that page';
        my $post = curl(@how, '-d', 'x', "$url/page/a");
        is $post->{status}, 405, 'nobody can post to a file';
        is header_of($post, 'Allow'), 'GET, HEAD', 'and the client sees which methods there are';
    };
}

subtest 'a limit holds for all edges' => sub {
    my @targets = ("$http/limited") x 40;
    for my $key (qw(one two)) {
        my $answers = curl('--no-progress-meter', '--parallel', '--parallel-max', 10, '-H', "X-Key: $key", map { ('-o', '/dev/null', $_) } @targets);
        my %times;
        $times{$1}++ while $answers->{head} =~ m{^HTTP/1.1 (\d+)}mg;
        is_deeply \%times, { 404 => 5, 429 => 35 }, "as many requests with one key as there may be ($key)";
    }
    my $over = curl('-H', 'X-Key: one', "$http/limited");
    cmp_ok header_of($over, 'Retry-After'), '>', 0, 'the client learns when to come again';
    like header_of($over, 'RateLimit-Policy'), qr/\A"limit 1";q=5;w=3600\z/, 'and by which rule';
    is header_of($over, 'X-Frame-Options'), 'DENY', 'the answer has the fields of the route';
    like $server->log_text, qr/oribi[.]toml:\d+:\d+: the limit refuses a request of 127[.]0[.]0[.]1/, 'the log names the limit';
};

subtest 'requests are counted by route' => sub {
    my %before = counts();
    curl("$http/docs/start") for 1 .. 3;
    curl("$http/closed");
    curl("$http/fields");
    my %growth;
    ok $server->wait_until(sub {
        my %now = counts();
        %growth = map { $_ => $now{$_} - $before{$_} } keys %now;
        return $growth{'documents 2xx'} == 3 && $growth{'closed 5xx'} == 1 && $growth{'site 2xx'} == 1;
    }), 'by its name, or else by its app' or diag explain \%growth;
};

# The responses by route and class.
sub counts () {
    my $text = body_of("http://127.0.0.1:$metrics/metrics");
    my %counts;
    $counts{"$1 $2"} = $3 while $text =~ /^oribi_route_responses_total\{route="(\w+)",class="(\dxx)"\}[ ](\d+)$/gm;
    return %counts;
}

is $server->stop, 0, 'the server ends';
done_testing;
