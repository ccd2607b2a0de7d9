#!/usr/bin/perl
# Property: behind nginx, Apache and lighttpd, apps in all languages get the client's requests and the client gets their
# answers, wherever the app is mounted, on connections that are used again.

use v5.36;
use Fcntl      qw(O_NONBLOCK O_WRONLY);
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/../lib";
use POSIX ();
use Test::Curl;
use Test::More;
use Test::Oribi;
use Test::WebServer::Apache;
use Test::WebServer::Lighttpd;
use Test::WebServer::Nginx;

my $megabytes = random_file(5 << 20);
my $sent      = content_of($megabytes->filename);
my $pattern   = substr join('', map { chr } 0 .. 250) x 20_888, 0, 5 << 20;

my %app_of = (
    Lua         => ["$FindBin::Bin/apps/probe.lua",        '--workers', 1, '--threads', 2],
    Mojolicious => ["$FindBin::Bin/apps/mojolicious.psgi", '--workers', 2],
    Sinatra     => ["$FindBin::Bin/apps/sinatra.ru",       '--workers', 1, '--threads', 2],
);
my %example_says = (
    'hosts/lua/examples/hello.lua'    => qr{\AHello World\n\z},
    'hosts/lua/examples/luafcgid.lua' => qr{<th>QUERY_STRING</th><td>x=1</td>},
    'hosts/lua/examples/wsapi.lua'    => qr{\AYou asked for /a/b\nwith GET and the query "x=1"[.]\n\z},
    'examples/hello.lua'              => qr{\AHello from Oribi, 127[.]0[.]0[.]1\n\z},
    'examples/wsapi.lua'              => qr{^You have asked for /a/b$}m,
    'examples/showcase.lua'           => qr{There is no /a/b here},
);
my @web_servers = map { "Test::WebServer::$_" } qw(Nginx Apache Lighttpd);

sub plain_answers ($url) {
    my $answer = curl("$url/");
    is $answer->{status}, 200,       'GET is answered';
    is $answer->{body},   "probe\n", 'with its content';

    $answer = curl('--head', "$url/download/1000");
    is $answer->{exit},   0,   'curl is content with HEAD';
    is $answer->{status}, 200, 'which finds the page';
    unlike $answer->{body}, qr/\x01\x02\x03/, 'and gets no content';

    $answer = curl("$url/etag");
    is $answer->{body}, "tagged\n", 'a page with a tag';
    $answer = curl('--header', 'If-None-Match: "tag"', "$url/etag");
    is $answer->{status}, 304, 'is a 304 for who has it';
    is $answer->{body},   '',  'without content';

    is curl("$url/nowhere")->{status}, 404, "the app's own 404";
    is curl("$url/failure")->{status}, 500, 'an app that dies is a 500';
    is curl("$url/")->{status},        200, 'and the next request is answered';

    my ($mount) = $url =~ m{\A\w+://[^/]+(.*)\z};
    $answer = curl("$url/redirect");
    like $answer->{status}, qr/\A30[23]\z/, 'a redirect';
    # The host is as the app made it of the request.
    like header_of($answer, 'Location'), qr{\A(?:http://[^/]+)?\Q$mount\E/environment\z}, 'stays below the mount point';

    $answer = curl("$url/cookies");
    my @cookies = $answer->{head} =~ /^Set-Cookie:[ ]*(\w+=\d)/gmi;
    is "@cookies", 'one=1 two=2', 'fields that come twice arrive twice';
    return;
}

sub content ($url) {
    is body_of('--data-urlencode', "name=Zo\xc3\xab +", "$url/form"), "Hello, Zo\xc3\xab +!\n", 'a form';

    my @upload = ('--header', 'Content-Type: application/octet-stream', '--data-binary');
    ok body_of(@upload, '@' . $megabytes->filename, "$url/echo") eq $sent, '5 MB go up and come down again';
    is body_of(@upload, '', "$url/echo"), '', 'and so does nothing';
    for my $size (1, 65_536, 5 << 20) {
        my $answer = curl("$url/download/$size");
        is $answer->{exit}, 0, "a download of $size bytes comes whole";
        ok $answer->{body} eq substr($pattern, 0, $size), 'and byte by byte';
    }
    return;
}

# The second piece is only sent when the client has the first one.
sub pieces ($server, $url) {
    my $folder = File::Temp->newdir;
    # Apps run as any user.
    chmod 0755, "$folder" or die "$folder: $!";
    my $gate = "$folder/gate";
    POSIX::mkfifo($gate, 0644) or die "$gate: $!";
    my $pid = open my $client, '-|', 'curl', '--silent', '--no-buffer', '--max-time', 60, "$url/pieces?gate=$gate"
        or die "curl: $!";
    my $first = readline $client;
    is $first, "first\n", 'the first piece of a stream comes at once';
    return kill 'TERM', $pid if ($first // '') ne "first\n";
    # It can only be opened when the app has opened its end.
    my $out;
    ok $server->wait_until(sub { sysopen $out, $gate, O_WRONLY | O_NONBLOCK }), 'the app waits' or return kill 'TERM', $pid;
    print {$out} "please\n";
    close $out or die "$gate: $!";
    is readline($client), "second, please\n", 'and so does the second';
    close $client or fail "curl: $?";
    return;
}

sub environment_of ($url, @arguments) {
    return { map { split /=/, $_, 2 } split /\n/, body_of(@arguments, "$url") };
}

# PATH_INFO is decoded, but not in Rack.
my %path_info_of = (Sinatra => '/environment/a%20b//c%2Fd');

sub variables ($name, $front, $mount) {
    my $env = environment_of($front->url . "$mount/environment/a%20b//c%2Fd?x=1&y=%20");
    is $env->{SCRIPT_NAME}, $mount, 'SCRIPT_NAME is where the app is mounted';
    is $env->{PATH_INFO}, $path_info_of{$name} // '/environment/a b//c/d', 'PATH_INFO is the rest of what the client sent';
    is $env->{REQUEST_METHOD}, 'GET', 'REQUEST_METHOD';
    is $env->{REQUEST_URI}, "$mount/environment/a%20b//c%2Fd?x=1&y=%20", 'REQUEST_URI is as it was sent';
    is $env->{QUERY_STRING}, 'x=1&y=%20', 'and so is QUERY_STRING';
    is $env->{SERVER_NAME}, 'front.example', 'SERVER_NAME is what the web server is called';
    is $env->{SERVER_PORT}, $front->port, 'SERVER_PORT is where it listens';
    is $env->{REMOTE_ADDR}, '127.0.0.1', "REMOTE_ADDR is the client's";
    like $env->{REMOTE_PORT}, qr/\A[1-9]\d*\z/, 'REMOTE_PORT, too';
    is $env->{HTTPS} // '', '', 'HTTPS is not on';
    like $env->{HTTP_USER_AGENT}, qr/\Acurl/, 'fields arrive';
    ok !$env->{CONTENT_LENGTH}, 'no content has no length';
    is $env->{REMOTE_USER} // '', '', 'nobody has said who he is';

    $env = environment_of($front->tls_url . "$mount/environment", '--insecure');
    like $env->{HTTPS}, qr/\Aon\z/i, 'by TLS HTTPS is on';
    is $env->{SERVER_PORT}, $front->{tls_port}, 'and SERVER_PORT another';

    my $private = "$mount/environment/private";
    is curl($front->url . $private)->{status}, 401, 'the web server asks for a password';
    $env = environment_of($front->url . $private, '--user', 'user:secret');
    is $env->{REMOTE_USER}, 'user', 'REMOTE_USER is who gave it';
    is $env->{HTTP_AUTHORIZATION}, 'Basic dXNlcjpzZWNyZXQ=', 'and the app may see it';
    is $env->{AUTH_TYPE} // 'Basic', 'Basic', 'AUTH_TYPE is Basic, from those who say it';
    return $env;
}

for my $web_server (@web_servers) {
    for my $name (sort keys %app_of) {
        my $server = Test::Oribi->start_fastcgi(@{ $app_of{$name} });
        my $front  = $web_server->before($server);
        my $before = $server->connections;
        subtest "$name behind " . $web_server->NAME => sub {
            for my $mount ('', '/app') {
                my $url = $front->url . $mount;
                plain_answers($url);
                content($url);
                variables($name, $front, $mount);
            }
            my $answer = curl(map { $front->url . '/' } 1 .. 100);
            is $answer->{body}, "probe\n" x 100, 'a hundred requests';
            my $connections = $server->connections - $before;
            cmp_ok $connections, '<=', 8, 'need no more than a few connections' if $web_server->KEEPS_CONNECTIONS;
        };
        is $front->stop('TERM'), 0, $web_server->NAME . ' ends';

        $front = $web_server->before($server, pieces => 1);
        subtest "$name behind " . $web_server->NAME . ', piece by piece' => sub {
            for my $mount ('', '/app') {
                my $url = $front->url . $mount;
                pieces($server, $url);
                content($url);
            }
        };
        is $front->stop('TERM'), 0, $web_server->NAME . ' ends';
        is $server->stop, 0, 'oribi ends with status 0';
    }

    for my $example (sort keys %example_says) {
        my $server = Test::Oribi->start_fastcgi(Test::Oribi::root() . "/$example", '--workers', 1);
        my $front  = $web_server->before($server);
        like body_of($front->url . '/a/b?x=1'), $example_says{$example}, "$example behind " . $web_server->NAME;
        is $front->stop('TERM'), 0, $web_server->NAME . ' ends';
        is $server->stop, 0, 'oribi ends with status 0';
    }

    my $server = Test::Oribi->start_fastcgi_on_socket(@{ $app_of{Lua} });
    my $front  = $web_server->before($server);
    subtest 'Lua behind ' . $web_server->NAME . ', on a Unix socket' => sub {
        for my $mount ('', '/app') {
            my $url = $front->url . $mount;
            plain_answers($url);
            content($url);
            variables('Lua', $front, $mount);
        }
    };
    is $front->stop('TERM'), 0, $web_server->NAME . ' ends';
    is $server->stop, 0, 'oribi ends with status 0';
}

done_testing;
