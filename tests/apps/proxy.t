#!/usr/bin/perl
# Property: a proxy passes requests and responses on as they are, but for fields of connections; it never mistakes a part of one
# response for another, never makes half a response look whole, never holds more than a little of one in memory, and never sends a
# request twice that must not arrive twice.

use v5.36;
use Digest::SHA    qw(sha1_hex);
use File::Temp     ();
use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::FreePort qw(free_port);
use Test::Command  qw(run);
use Test::Curl;
use Test::Files    qw(write_file);
use Test::More;
use Test::Oribi;
use Test::Upstream;
use Test::WebServer::Nginx;

my $folder = File::Temp->newdir;
$SIG{PIPE} = 'IGNORE';    ## no critic (RequireLocalizedPunctuationVars)

# A response with a length.
sub response ($content, @fields) {
    return join "\r\n", 'HTTP/1.1 200 OK', @fields, 'Content-Length: ' . length $content, q(), $content;
}

# Waits for a file that the test writes when it wants an upstream to go on.
sub wait_for ($file) {
    select undef, undef, undef, 0.01 until -e $file;    ## no critic (ProhibitSleepViaSelect)
    return;
}

# The largest memory that a process has had, in KiB.
sub peak ($pid) { return (content_of("/proc/$pid/status") =~ /^VmHWM:\s*(\d+)/m)[0] }

sub send_all ($socket, $bytes) {
    my $sent = 0;
    while ($sent < length $bytes) {
        my $count = syswrite($socket, $bytes, 65_536, $sent) // return $sent;
        $sent += $count;
    }
    return $sent;
}

# The answers of an upstream, by the first part of the path.
my %answers = (
    head => sub ($connection, $head, $content, $upstream) { send_all($connection, response($head)) },
    upload => sub ($connection, $head, $content, $upstream) {
        send_all($connection, response(length($content) . q( ) . sha1_hex($content) . "\n" . $head));
    },
    chunks => sub ($connection, $head, $content, $upstream) {
        send_all($connection, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nX-Sum: 11\r\n\r\n");
    },
    hints => sub ($connection, $head, $content, $upstream) {
        send_all($connection, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n" . response('late'));
    },
    empty => sub ($connection, $head, $content, $upstream) {
        my ($status) = $head =~ m{\A\S+ /empty/(\d+)};
        send_all($connection, "HTTP/1.1 $status Whatever\r\nETag: \"a\"\r\n\r\n");
    },
    close => sub ($connection, $head, $content, $upstream) {
        send_all($connection, "HTTP/1.0 200 OK\r\nContent-Type: text/x\r\n\r\nuntil the end");
        return 0;
    },
    events => sub ($connection, $head, $content, $upstream) {
        send_all($connection, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
        wait_for("$folder/first");
        send_all($connection, "7\r\ndata: 1\r\n");
        wait_for("$folder/second");
        send_all($connection, "7\r\ndata: 2\r\n0\r\n\r\n");
    },
    big => sub ($connection, $head, $content, $upstream) {
        my $piece = 'x' x (1 << 20);
        send_all($connection, "HTTP/1.1 200 OK\r\nContent-Length: " . (50 << 20) . "\r\n\r\n");
        for my $count (1 .. 50) {
            send_all($connection, $piece) == 1 << 20 or return 0;
            $upstream->note("sent $count");
        }
        return 1;
    },
    silent => sub ($connection, $head, $content, $upstream) {
        $upstream->note('silent');
        sysread $connection, my $byte, 1;
        return 0;
    },
    wait => sub ($connection, $head, $content, $upstream) {
        $upstream->note('waits');
        wait_for("$folder/go");
        send_all($connection, response('late'));
    },
    short => sub ($connection, $head, $content, $upstream) {
        send_all($connection, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
        return 0;
    },
    cut => sub ($connection, $head, $content, $upstream) {
        send_all($connection, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n");
        return 0;
    },
    # The second request of a connection is not answered.
    once => sub ($connection, $head, $content, $upstream) {
        state $count = 0;
        return 0 if $count++;
        send_all($connection, response('once'));
    },
    echo => sub ($connection, $head, $content, $upstream) {
        my ($protocol) = $head =~ /^Upgrade: (\S+)\r$/mi;
        return send_all($connection, response('no upgrade')) if !defined $protocol;
        $upstream->note($head =~ /^Connection: upgrade\r$/m ? 'asked to upgrade' : "no option: $head");
        send_all($connection, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: $protocol\r\nConnection: upgrade\r\n\r\nwelcome ");
        while (sysread $connection, my $bytes, 65_536) {
            send_all($connection, uc $bytes);
        }
        send_all($connection, 'bye');
        return 0;
    },
);
my $handler = sub ($connection, $head, $content, $upstream) {
    my ($name) = $head =~ m{\A\S+ /(\w+)};
    return ($answers{ $name // 'head' } // $answers{head})->($connection, $head, $content, $upstream);
};

# The field NAME of a request that an upstream has sent back.
sub field ($head, $name) { return join ' | ', $head =~ /^\Q$name\E:[ ]*(.*?)\r?$/mgi }

for my $edge (qw(on off)) {
    my @edge = ('--edge', $edge);
    my $named = sub ($text) { "$text, edge $edge" };
    subtest $named->('requests and responses') => sub {
        my $upstream = Test::Upstream->start($handler);
        my $oribi    = Test::Oribi->start($upstream->url, @edge);
        my ($url, $host) = ($oribi->url, $oribi->url =~ s{.*//}{}r);
        my $scheme = Test::Oribi::scheme($oribi->{encrypted});
        my @hop = map { ('-H', $_) } 'Connection: close, X-Hop', 'X-Hop: a', 'Keep-Alive: b', 'Proxy-Authorization: c', 'Proxy: d',
            'TE: gzip, trailers', 'X_Under: e', 'X-Forwarded-For: 192.0.2.9', 'X-Forwarded-Proto: ftp', 'X-Real-IP: 192.0.2.9',
            'X-Forwarded-Host: evil', 'X-Forwarded-Port: 1', 'Forwarded: for="', 'Via: 1.0 other', 'Accept: f';
        my $head = body_of('--http1.1', @hop, "$url/head?a=%2F&b");
        like $head, qr{\AGET /head[?]a=%2F&b HTTP/1.1\r\n}, 'the target is as it was sent';
        my @left_out = qw(X-Hop Keep-Alive Proxy-Authorization Proxy X_Under Upgrade Transfer-Encoding Content-Length);
        is field($head, $_), q(), "no $_" for @left_out;
        is field($head, 'Host'),              $host,                   'Host as the client sent it';
        is field($head, 'Accept'),            'f',                     'other fields';
        is field($head, 'X-Forwarded-For'),   '192.0.2.9, 127.0.0.1',  'X-Forwarded-For is continued';
        is field($head, 'X-Forwarded-Proto'), $scheme,                 'X-Forwarded-Proto is written';
        is field($head, 'X-Forwarded-Host'),  $host,                   'X-Forwarded-Host is written';
        is field($head, 'X-Forwarded-Port'),  $oribi->url_port,        'X-Forwarded-Port is written';
        is field($head, 'X-Real-IP'),         '127.0.0.1',             'X-Real-IP is written';
        my $forwarded = qq{for=127.0.0.1;proto=$scheme;host="$host"};
        is field($head, 'Forwarded'),         $forwarded,              'Forwarded that cannot be read is not continued';
        is field($head, 'Via'),               '1.0 other | 1.1 oribi', 'Via';
        is field($head, 'TE'),                'trailers',              'of TE, trailers stay';
        is field($head, 'Connection'),        'TE',                    'which is an option of the connection';
        like body_of('-H', 'Forwarded: for=192.0.2.9', "$url/head"), qr/^Forwarded: for=192[.]0[.]2[.]9, for=127[.]0[.]0[.]1;/m,
            'Forwarded is continued';
        for my $method (qw(POST PUT DELETE PATCH)) {
            my $answer = curl('-X', $method, '--data-binary', 'some content', '-H', 'Expect: 100-continue', "$url/upload");
            my $wanted = '12 ' . sha1_hex('some content');
            like $answer->{body}, qr/\A$wanted$/m, "content of $method";
            is field($answer->{body}, $_), $_ eq 'Expect' ? q() : 12, $_ for qw(Expect Content-Length);
        }
        like body_of('-X', 'POST', '--data-binary', q(), "$url/upload"), qr/^Content-Length: 0\r$/m, 'empty content is content';
        my $chunks = curl("$url/chunks");
        is $chunks->{body}, 'hello world', 'content in chunks';
        if (!Test::Oribi::over_tls()) {
            my $socket = $oribi->connection;
            syswrite $socket, "GET /chunks HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE, close\r\n\r\n";
            my $all = do { local $/ = undef; readline $socket };
            like $all, qr/\r\n0\r\nx-sum: 11\r\n\r\n\z/i, 'trailers';
            $socket = $oribi->connection;
            syswrite $socket, "GET /head HTTP/1.0\r\n\r\n";
            $all = do { local $/ = undef; readline $socket };
            is field($all =~ s/.*?\r\n\r\n//sr, 'Host'), $upstream->url =~ s{.*//}{}r, 'a client without Host gets one';
            $socket = $oribi->connection;
            syswrite $socket, "GET http://other.example?x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
            $all = do { local $/ = undef; readline $socket };
            like $all, qr{^GET /[?]x HTTP/1.1\r\nHost: other.example\r$}m, 'an absolute target';
            $socket = $oribi->connection;
            my $trailers = "POST /upload HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
            syswrite $socket, $trailers . "3\r\nabc\r\n0\r\nX-Sum: 3\r\n\r\n";
            $all = do { local $/ = undef; readline $socket };
            my $framed = "3\r\nabc\r\n0\r\nx-sum: 3\r\n\r\n";
            like $all, qr/^${\length $framed} ${\sha1_hex($framed)}$/m, 'trailers of a request';
        }
        my $hints = curl("$url/hints");
        like $hints->{head}, qr{^HTTP/\S+ 103.*^link: </a.css>.*^HTTP/\S+ 200}msi, 'an early hint';
        unlike $hints->{head}, qr{^HTTP/\S+ 100}m, 'but no leave to continue';
        is $hints->{body}, 'late', 'before the response';
        for my $status (204, 304) {
            my $answer = curl("$url/empty/$status");
            is_deeply [@$answer{qw(status body)}, header_of($answer, 'ETag')], [$status, q(), '"a"'], "a $status";
        }
        my $answer = curl('-I', "$url/close");
        is_deeply [@$answer{qw(status exit)}, header_of($answer, 'Content-Type')], [200, 0, 'text/x'], 'HEAD';
        is_deeply [@{ curl("$url/close") }{qw(status exit body)}], [200, 0, 'until the end'], 'content that ends with the connection';
        for my $half (qw(short cut)) {
            my $answer = curl("$url/$half");
            isnt $answer->{exit}, 0, "a response that is cut off does not look whole: $half";
        }
        my $why = 'the connection was closed within the response content';
        like $oribi->log_text, qr{upstream \S+: $why: the response to GET /cut is cut off}, 'and the log says so';
        is $oribi->stop, 0, 'it stops';
    };

    subtest $named->('connections are kept') => sub {
        my $upstream = Test::Upstream->start($handler, at => "$folder/upstream.sock");
        my $oribi    = Test::Oribi->start($upstream->url, @edge);
        my $url      = $oribi->url;
        my $answer   = curl(map { "$url/head/$_" } 1 .. 20);
        is $answer->{status}, 200, 'answers';
        is scalar $upstream->notes(qr/^request/), 20, '20 requests';
        is scalar $upstream->notes(qr/^connected/), 1, 'over one connection to a Unix socket';
        is body_of("$url/once"), 'once', 'the first request of a connection';
        is body_of("$url/once"), 'once', 'a request is sent again if a kept connection closes';
        is scalar $upstream->notes(qr/^connected/), 2, 'over a new connection';
        $upstream->again if $upstream->stop // 1;
        is body_of("$url/once"), 'once', 'the upstream is there again';
        my $before = $upstream->notes(qr/^request POST/);
        is curl('-X', 'POST', "$url/once")->{status}, 502, 'but not one that must not arrive twice';
        is $upstream->notes(qr/^request POST/) - $before, 1, 'it has arrived once';
        $upstream->stop;
        is curl("$url/head")->{status}, 502, 'no upstream';
        like $oribi->log_text, qr{upstream \S+: cannot connect: .*: GET /head gets a 502}, 'the log has the reason';
        $upstream->again;
        is curl("$url/head")->{status}, 200, 'it is back';
    };

    subtest $named->('large content') => sub {
        my $upstream = Test::Upstream->start($handler);
        # Without files for slow clients, their upstreams wait.
        my $oribi    = Test::Oribi->start($upstream->url, @edge, '--output-spool-size', 'off');
        my $url      = $oribi->url;
        is body_of("$url/head") =~ /\AGET/, 1, 'the first answer';
        # Edges accept before there is a worker.
        my ($worker) = $oribi->workers;
        my $before = peak($worker);
        my $file   = random_file(20 << 20);
        my $wanted = (20 << 20) . q( ) . sha1_hex(content_of($file->filename));
        like body_of('--data-binary', '@' . $file->filename, "$url/upload"), qr/\A$wanted$/m, '20 MB to the upstream';
        my $download = curl("$url/big");
        is_deeply [length $download->{body}, $download->{exit}], [50 << 20, 0], '50 MB from it';
        # A client that reads nothing.
        my $sent   = $upstream->notes(qr/^sent/);
        my $socket = IO::Socket::IP->new(PeerHost => '127.0.0.1', PeerPort => $oribi->port);
        syswrite $socket, "GET /big HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        ok $oribi->wait_until(sub { $upstream->notes(qr/^sent/) > $sent }), 'a client that does not read';
        # Other clients are answered, over and over, while it waits.
        is curl(map { "$url/head" } 1 .. 200)->{status}, 200, 'others are served';
        cmp_ok $upstream->notes(qr/^sent/) - $sent, '<', 40, 'its upstream has to wait';
        my $length = 0;
        while (my $count = sysread $socket, my $bytes, 1 << 20) {
            $length += $count;
        }
        cmp_ok $length, '>', 50 << 20, 'then it gets everything';
        cmp_ok peak($worker) - $before, '<', 16 << 10, 'the worker has not held much of it' or diag peak($worker), " after $before";
    };

    subtest $named->('streams') => sub {
        my $upstream = Test::Upstream->start($handler);
        my $oribi    = Test::Oribi->start($upstream->url, @edge);
        my $socket   = IO::Socket::IP->new(PeerHost => '127.0.0.1', PeerPort => $oribi->port);
        syswrite $socket, "GET /events HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        my $seen  = q();
        my $until = sub ($wanted) {
            while ($seen !~ $wanted) {
                sysread $socket, $seen, 65_536, length $seen or return 0;
            }
            return 1;
        };
        ok $until->(qr/\r\n\r\n/), 'the head comes before any content';
        write_file("$folder/first", q());
        ok $until->(qr/data: 1/), 'the first event comes before the second one is sent';
        write_file("$folder/second", q());
        ok $until->(qr/data: 2.*\r\n0\r\n\r\n/s), 'and the second one';
        unlink "$folder/first", "$folder/second";
        # A client that leaves.
        $socket = IO::Socket::IP->new(PeerHost => '127.0.0.1', PeerPort => $oribi->port);
        syswrite $socket, "GET /silent HTTP/1.1\r\nHost: a\r\n\r\n";
        ok $oribi->wait_until(sub { scalar $upstream->notes(qr/^silent/) }), 'an upstream that does not answer';
        my $ended = $upstream->notes(qr/^ended/);
        setsockopt $socket, Socket::SOL_SOCKET(), Socket::SO_LINGER(), pack 'ii', 1, 0;
        close $socket;
        ok $oribi->wait_until(sub { $upstream->notes(qr/^ended/) > $ended }), 'its connection is closed when the client has gone';
    };

    subtest $named->('many exchanges at once') => sub {
        my $upstream = Test::Upstream->start($handler);
        my $oribi    = Test::Oribi->start($upstream->url, @edge);
        my @sockets  = map { IO::Socket::IP->new(PeerHost => '127.0.0.1', PeerPort => $oribi->port) } 1 .. 100;
        syswrite $_, "GET /wait HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" for @sockets;
        ok $oribi->wait_until(sub { $upstream->notes(qr/^waits/) == 100 }), 'one worker keeps 100 open';
        is scalar(() = $oribi->workers), 1, 'it is only one';
        is curl($oribi->url . '/head')->{status}, 200, 'and answers others meanwhile';
        write_file("$folder/go", q());
        my $answered = grep { my $all = do { local $/ = undef; readline $_ }; $all =~ /late\z/ } @sockets;
        is $answered, 100, 'all are answered';
        unlink "$folder/go";
    };

    subtest $named->('another protocol') => sub {
        my $upstream = Test::Upstream->start($handler);
        my $oribi    = Test::Oribi->start($upstream->url, @edge);
        my $socket   = IO::Socket::IP->new(PeerHost => '127.0.0.1', PeerPort => $oribi->port);
        syswrite $socket, "GET /echo HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: shout\r\n\r\n";
        my $seen = q();
        sysread $socket, $seen, 65_536, length $seen or last until $seen =~ /welcome /;
        like $seen, qr{\AHTTP/1.1 101 .*^Upgrade: shout\r\n.*^Connection: upgrade\r\n\r\nwelcome \z}ms, 'the answer';
        is_deeply [$upstream->notes(qr/upgrade/)], ['asked to upgrade'], 'the upstream was asked';
        my $text = 'ping ' x 100_000;
        my $writer = fork // die "fork: $!";
        if ($writer == 0) {
            send_all($socket, $text);
            shutdown $socket, 1;
            POSIX::_exit(0);
        }
        my $echo = do { local $/ = undef; readline $socket };
        waitpid $writer, 0;
        is length $echo, length(uc $text) + 3, 'bytes in both directions';
        is $echo, uc($text) . 'bye', 'until both ends have ended';
        ok $oribi->wait_until(sub { scalar $upstream->notes(qr/^ended/) }), 'the connection is closed';
        is body_of("@{[$oribi->url]}/echo"), 'no upgrade', 'a client that asks for nothing';
        is curl($oribi->url . '/head')->{status}, 200, 'the server goes on';
    };

    subtest $named->('deadlines, reloads and stops') => sub {
        my $upstream = Test::Upstream->start($handler);
        my $oribi    = Test::Oribi->start($upstream->url, @edge, '--request-timeout', '1');
        is curl($oribi->url . '/silent')->{status}, 504, 'an upstream that does not answer in time';
        like $oribi->log_text, qr{GET /silent}, 'the log says so';
        is curl($oribi->url . '/head')->{status}, 200, 'others are answered';
        $oribi->stop;
        $oribi = Test::Oribi->start($upstream->url, @edge);
        my $answer = File::Temp->new;
        my $client = fork // die "fork: $!";
        if ($client == 0) {
            exec 'curl', '-s', '-o', $answer->filename, $oribi->url . '/wait' or POSIX::_exit(127);
        }
        ok $oribi->wait_until(sub { scalar $upstream->notes(qr/^waits/) }), 'an open exchange';
        my ($worker) = $oribi->workers;
        $oribi->signal('HUP');
        ok $oribi->wait_until(sub { grep { $_ != $worker } $oribi->workers }), 'a reload';
        is curl($oribi->url . '/head')->{status}, 200, 'the new worker answers';
        $oribi->signal('TERM');
        write_file("$folder/go", q());
        waitpid $client, 0;
        is content_of($answer->filename), 'late', 'the open exchange is finished';
        unlink "$folder/go";
        ok $oribi->wait_until(sub { defined $oribi->exit_status }), 'and the server ends';
    };

    subtest $named->('several upstreams') => sub {
        my ($one, $two) = map { Test::Upstream->start($handler) } 1 .. 2;
        my $dead = free_port();
        my $oribi  = Test::Oribi->start(join(',', $one->url, "http://127.0.0.1:$dead", $two->url), @edge);
        my %seen;
        $seen{ curl($oribi->url . '/head')->{status} }++ for 1 .. 30;
        is_deeply \%seen, { 200 => 30 }, 'one that is dead costs no request';
        cmp_ok scalar $_->notes(qr/^request/), '>=', 10, 'the others share them' for $one, $two;
        $one->stop;
        is curl(map { $oribi->url . '/head' } 1 .. 10)->{status}, 200, 'another one dies';
        $one->again;
        my $before = $one->notes(qr/^request/);
        ok $oribi->wait_until(sub { curl($oribi->url . '/head'); $one->notes(qr/^request/) > $before }), 'it is asked again when it is back';
    };

    subtest $named->('nginx and an app of Lua') => sub {
        my $nginx = Test::WebServer::Nginx->configured(Test::WebServer::Nginx->wrapped(<<~'NGINX'));
            server {
                listen 127.0.0.1:%port%;
                client_max_body_size 0;
                location /files/ {
                    alias %folder%/;
                    gzip on;
                    gzip_min_length 1;
                    gzip_types *;
                }
                location / { return 200 "$request_method $host $http_x_forwarded_for $content_length\n"; }
            }
            NGINX
        write_file("$nginx->{folder}/text", 'some text ' x 10_000);
        my $oribi = Test::Oribi->start('http://127.0.0.1:' . $nginx->port, @edge);
        my $url   = $oribi->url . '/files/text';
        my $whole = curl($url);
        is $whole->{body}, 'some text ' x 10_000, 'a file';
        is curl('-r', '5-8', $url)->{body}, 'text', 'a part of it';
        is curl('--compressed', $url)->{body}, $whole->{body}, 'compressed on the way';
        my $etag = header_of($whole, 'ETag');
        is_deeply [@{ curl('-H', "If-None-Match: $etag", $url) }{qw(status body)}], [304, q()], 'a file that has not changed';
        is header_of(curl('-I', $url), 'Content-Length'), 100_000, 'HEAD';
        is curl($oribi->url . '/files/nowhere')->{status}, 404, 'no file';
        my $file = random_file(3 << 20);
        like body_of('-X', 'PUT', '-T', $file->filename, $oribi->url . '/x'), qr/\APUT 127[.]0[.]0[.]1 127[.]0[.]0[.]1 3145728$/, 'content';
        write_file("$folder/app.lua", <<~'LUA');
            return function(request)
                return 200, { ["Content-Type"] = "text/plain" }, request.scheme .. " " .. request.remote_address .. " " .. request.headers.host
            end
            LUA
        my $socket = "$folder/app.sock";
        my $app    = Test::Oribi->run_on_socket($socket, Test::Oribi::command(), "$folder/app.lua", '--listen', $socket,
            '--trusted-proxies', 'unix');
        my $front = Test::Oribi->start("http+unix:$socket", @edge);
        is body_of('-H', 'Host: shop.example', '--interface', '127.0.0.9', $front->url),
            join(q( ), Test::Oribi::scheme($front->{encrypted}), '127.0.0.9', 'shop.example'), 'an app that trusts the proxy';
    };

    subtest $named->('hostile upstreams') => sub {
        my $file   = "$folder/attack";
        my $evil   = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
        my $upstream = Test::Upstream->start(sub ($connection, $head, $content, $upstream) {
            send_all($connection, $head =~ m{\A\S+ /attack} ? content_of($file) : response('good'));
        });
        my $oribi = Test::Oribi->start($upstream->url, @edge);
        my $good  = sub ($what) {
            is_deeply [map { body_of($oribi->url . "/good") } 1 .. 2], ['good', 'good'], "$what: the next responses are right";
        };
        for my $case (
            ["HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\ngoodx$evil", 502, 'two lengths'],
            ["HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n$evil", 502, 'length and coding'],
            ["HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n$evil", 502, 'an unknown coding'],
            ["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n$evil", 502, 'two codings'],
            ["HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n$evil", 502, 'a folded field'],
            ["HTTP/1.1 200 OK\r\nContent-Length : 4\r\n\r\n$evil", 502, 'white space before a colon'],
            ["HTTP/1.1 200 OK\nContent-Length: 4\n\ngood$evil", 502, 'bare line feeds'],
            ["HTTP/1.1 200 OK\r\nX: a\rContent-Length: 0\r\n\r\n$evil", 502, 'a bare carriage return'],
            ["HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n$evil", 502, 'a negative length'],
            ["HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n$evil", 502, 'another version'],
            ["HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n$evil", 502, 'an upgrade without a request for it'],
            ["HTTP/1.1 103 Early Hints\r\n\r\n" x 40 . $evil, 502, 'early hints without end'],
            ["SSH-2.0-x\r\n\r\n", 502, 'another protocol'],
            ["HTTP/1.1 200 OK\r\nX: " . 'x' x 100_000 . "\r\n\r\n", 502, 'a long head'],
            ["HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood$evil", 200, 'a second response'],
            ["HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\n$evil", 204, 'content after a 204'],
            ["HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\n$evil", 304, 'content after a 304'],
            ["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ngood\r\n0\r\n\r\n$evil", 200, 'a response after chunks'],
        ) {
            my ($bytes, $status, $what) = @$case;
            write_file($file, $bytes);
            my $answer = curl($oribi->url . '/attack');
            is $answer->{status}, $status, $what;
            unlike $answer->{body}, qr/evil/, "$what: nothing of it";
            $good->($what);
        }
        write_file($file, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ngood\r\nx$evil");
        my $broken = curl($oribi->url . '/attack');
        ok $broken->{exit} != 0 || $broken->{status} == 502, 'a broken chunk: no response that looks whole';
        $good->('a broken chunk');
        write_file($file, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n$evil");
        my $answer = curl('-I', $oribi->url . '/attack');
        is_deeply [$answer->{status}, header_of($answer, 'Content-Length')], [200, 9], 'content after the answer to HEAD';
        $good->('content after the answer to HEAD');
    };
}

subtest 'in oribi.toml' => sub {
    my $upstream = Test::Upstream->start($handler);
    my $port     = free_port();
    my $write    = sub ($proxy) {
        write_file("$folder/oribi.toml", <<~"TOML");
            [[listen]]
            address = "127.0.0.1:$port"

            [app.node]
            proxy = $proxy

            [[route]]
            match = { path = "/node/*" }
            app = "node"

            [[route]]
            respond = { content = "no upstream\\n" }
            TOML
    };
    $write->(sprintf '["%s", "http://127.0.0.1:1"]', $upstream->url);
    my $check = run(Test::Oribi::command(), 'check', '-c', "$folder/oribi.toml");
    like $check, qr/^  proxy  \Q@{[$upstream->url]}\E .*^  proxy  http:\/\/127[.]0[.]0[.]1:1 /ms, 'oribi check shows the upstreams';
    my $oribi = Test::Oribi->run_on_port($port, Test::Oribi::command(), '-c', "$folder/oribi.toml");
    like body_of("http://127.0.0.1:$port/node/a?b"), qr{\AGET /node/a[?]b }, 'a route to the proxy';
    is body_of("http://127.0.0.1:$port/"), "no upstream\n", 'and another one';
    $oribi->stop;
    for my $case (
        ['"https://a"',  qr/bad value `https:\/\/a` for proxy: expected http:\/\/HOST:PORT/],
        ['[]',           qr/`proxy` needs at least one URL/],
        ["\"http://a\"\nfile = \"app.lua\"", qr/an app has a file or a proxy, not both/],
        ["\"http://a\"\nlanguage = \"lua\"", qr/a proxy has no language/],
        ['7',            qr/proxy/],
    ) {
        my ($proxy, $message) = @$case;
        $write->($proxy);
        my $out = qx{'@{[Test::Oribi::command()]}' check -c '$folder/oribi.toml' 2>&1};
        like $out, $message, "a mistake: $proxy";
        is $? >> 8, 2, 'its status';
    }
};

done_testing;
