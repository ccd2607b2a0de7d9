# PAGI apps: the scopes http, sse, websocket and lifespan.

use strict;
use warnings;
use lib 't/lib';
use File::Temp       ();
use IO::Select       ();
use OverHTTP2        ();
use Plack::Util      ();
use POSIX            qw(getcwd);
use Socket           ();
use Test::More;
use TestServer ();

for my $module (qw(IO::Async::Loop Future::AsyncAwait)) {
    plan skip_all => "$module is not installed" if system $^X, "-M$module", '-e', '1';
}
plan skip_all => 'WebSockets and pieces of HTTP/1' if OverHTTP2::is_on();

my $directory = File::Temp->newdir;
my $file      = "$directory/large";
my $notes     = "$directory/notes";
open my $handle, '>', $file or die $!;
print {$handle} map { sprintf "%09d\n", $_ } 1 .. 50_000;
close $handle;

# Starts the mold with the app, as the oribi command does.
sub start {
    my ($app, @settings) = @_;
    unlink $notes;
    my $environment = { TEST_FILE => $file, TEST_NOTES => $notes, PLACK_ENV => 'deployment' };
    return TestServer->start_mold($app, $environment, @settings);
}

sub ask {
    my ($server, $target, @fields) = @_;
    my $connection = $server->connection;
    $connection->send(join "\r\n", "GET $target HTTP/1.1", 'Host: localhost', @fields, q{}, q{});
    return $connection;
}

sub events { return ask(@_, 'Accept: text/event-stream') }

sub leaves {
    my ($connection) = @_;
    setsockopt $connection->socket, Socket::SOL_SOCKET(), Socket::SO_LINGER(), pack 'll', 1, 0;
    return close $connection->socket;
}

sub text_of { my ($path) = @_; open my $in, '<', $path or return q{}; local $/ = undef; return scalar readline $in }

sub noted {
    my ($pattern, $what) = @_;
    TestServer::wait_for(sub { text_of($notes) =~ $pattern });
    return like text_of($notes), $pattern, $what;
}

# Waits until what a connection has received matches, or until it ends.
sub received {
    my ($connection, $pattern) = @_;
    1 while $connection->{buffer} !~ $pattern && $connection->fill;
    return $connection->{buffer};
}

sub handshake {
    my ($server, $target, @fields) = @_;
    return ask(
        $server, $target, 'Connection: keep-alive, Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13',
        'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==', @fields
    );
}

sub socket_at {
    my ($server, $target) = @_;
    my $connection = handshake($server, $target);
    received($connection, qr/\r\n\r\n/);
    $connection->{buffer} =~ s/\A(.*?)\r\n\r\n//s;
    return $connection;
}

# A frame of a client, masked.
sub frame {
    my ($first, $content) = @_;
    my $length = length $content;
    my $head   = $length < 126 ? pack 'CC', $first, 0x80 | $length : pack 'CCn', $first, 0xFE, $length;
    return $head . 'mask' . ($content ^ substr 'mask' x ($length / 4 + 1), 0, $length);
}

# The next frame of the server: its type and its content.
sub next_frame {
    my ($connection) = @_;
    1 while length $connection->{buffer} < 2 && $connection->fill;
    my ($type, $size) = unpack 'CC', $connection->{buffer};
    return if !defined $size;
    my $front = $size == 126 ? 4 : 2;
    1 while length $connection->{buffer} < $front && $connection->fill;
    $size = unpack 'x2n', $connection->{buffer} if $size == 126;
    1 while length $connection->{buffer} < $front + $size && $connection->fill;
    my $whole = substr $connection->{buffer}, 0, $front + $size, q{};
    return ($type & 15, substr $whole, $front);
}

sub says {
    my ($connection, $text) = @_;
    $connection->send(frame(0x81, $text));
    return (next_frame($connection))[1];
}

my $code = getcwd() . '/t/lib/app.pagi';

my $server = start('t/lib/app.pagi', 'concurrency=1100');
ok $server->listens, 'it listens';

subtest 'the scope' => sub {
    my $lines = $server->get('/scope/%E2%98%BA/%2f?a=%20b', 'X-One' => 1, Cookie => 'a=1', Cookie => 'b=2')->{body};
    my %line  = map { split /=/, $_, 2 } split /\n/, $lines;
    is_deeply \%line,
        {
        type => 'http', http_version => '1.1', method => 'GET', scheme => 'http', path => "/scope/\xe2\x98\xba//",
        raw_path => '/scope/%E2%98%BA/%2f', query_string => 'a=%20b', root_path => q{}, 'x-one' => 1, cookie => 'a=1; b=2',
        version => '0.3', client => '127.0.0.1 N', greeting => 'hello',
        },
        'has what the request has, and what the startup left';
};

subtest 'http' => sub {
    is $server->request(POST => '/echo', [], 'abc')->{body}, '1 3 abc', 'content';
    is $server->get('/echo')->{body}, '1 0 ', 'none';
    like $server->request(POST => '/echo', [], 'z' x 300_000)->{body}, qr/\A[5-9] 300000 zzz/, 'much, in pieces';
    my $chunked = $server->connection;
    $chunked->send("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    is $chunked->response->{body}, '1 5 abcde', 'of unknown length';
    my $pieces = ask($server, '/pieces', 'TE: trailers', 'Connection: close, TE');
    like $pieces->rest, qr/\AHTTP\/1.1 201 .*one.*two.*three.*end\r\n0\r\nx-sum: 4\r\n\r\n\z/s, 'pieces and trailers';
    my $head = $server->request(HEAD => '/most');
    is_deeply [$head->{status}, TestServer::Connection::field($head, 'Content-Length')], [200, 1], 'HEAD';
    my $early = ask($server, '/flush');
    like received($early, qr/\r\n\r\n/), qr/^x-early: yes\r$/m, 'a head before its content';
    leaves($early);
    noted(qr/flush: http.disconnect/, 'whose client leaves');
    $server->get('/complete');
    noted(qr/complete 1 1\n/, 'on_complete');
    is $server->get('/cancel')->{body}, 'timer', 'an event may be waited for in vain';
    my $connection = $server->connection;
    is $connection->request(GET => '/after?0.01')->{body}, 'late', "request $_ on one connection" for 1 .. 3;
};

subtest 'back-pressure' => sub {
    my $slow = ask($server, '/large');
    is $server->get('/after?0.01')->{body}, 'late', 'others are answered';
    my $content = $slow->response->{body};
    my ($high, $drained, $waits) = $content =~ /x(\d+) (\d+) (\d+)\z/;
    is length $content =~ s/[^x].*//r, 20_000_000, 'everything arrives';
    ok $waits && $high && $drained, 'and the app has waited for its client' or diag "$high, $drained, $waits";
};

subtest 'files' => sub {
    my $whole = text_of($file);
    ok $server->get('/file?0')->{body} eq $whole, 'a whole file';
    ok $server->get('/file?100,200000')->{body} eq substr($whole, 100, 200_000), 'a part of it';
    ok $server->get('/file?499990')->{body} eq substr($whole, 499_990), 'its end';
    is $server->get('/file?999999999')->{body}, q{}, 'beyond its end';
    ok $server->get('/handle')->{body} eq substr($whole, 10, 200_000), 'an open handle';
    like $server->get('/no-file')->{body}, qr{cannot open /nowhere: No such file}, 'a file that is not there';
};

subtest 'mistakes' => sub {
    is_deeply [split /\n/, $server->get('/wrong')->{body}],
        [
        map { "$_ at $code line " . line_of('$send->($event); ') . q{.} } 'an event is a hash reference with a type',
        'an event is a hash reference with a type',
        q{'http.nothing' is no event of the scope http},
        q{'http.response.body': no response has started},
        q{'http.response.start': status must be a number from 200 to 599},
        q{'http.response.start': headers must be an array reference of pairs},
        q{'http.response.start': the header a has a line end or a NUL in its value},
        q{'http.response.start': a header has a name that is no token},
        q{'sse.start' is no event of the scope http},
        q{'http.response.start': the response has started already},
        q{'http.response.body': wide character in body: it must be encoded into bytes},
        q{'http.response.body': only one of body, file and fh may be given},
        q{'http.response.trailers': the response has not been started with trailers},
        ],
        'of events are raised where they are sent';
    noted(qr/after the end: 'http.response.body': the response is complete at/, 'also after the end');
    is $server->get($_)->{status}, 500, "$_ is a 500" for qw(/dies /dies-later /dies-started /silent /nowhere);
    my $begun = ask($server, '/dies-begun')->rest;
    like $begun, qr/begun/, 'an app that dies in its response';
    unlike $begun, qr/\r\n0\r\n/, 'cuts it off';
    my $log = $server->log_like(qr/dies in its response/);
    like $log, qr{GET $_}, "the log has: $_"
        for '/dies: the app died: it dies', '/silent: the app has ended without a response',
        '/complete: a callback for a client died: a callback dies',
        '/dies-started: the app died: it dies after its start';
};

# The line of the app with this text.
sub line_of {
    my ($text) = @_;
    my @lines = split /\n/, text_of('t/lib/app.pagi');
    my ($line) = grep { index($lines[$_], $text) >= 0 } 0 .. $#lines;
    return $line + 1;
}

subtest 'many that wait' => sub {
    my $count   = 1000;
    my @waiting = map { ask($server, "/together?$count") } 2 .. $count;
    is $server->get('/after?0')->{body}, 'late', 'another one is answered meanwhile';
    push @waiting, ask($server, "/together?$count");
    is scalar(grep { $_->response->{body} eq 'waited' } @waiting), $count, "$count requests are answered";
    is $server->get('/most')->{body}, $count, 'all were open at the same time, in one worker';
};

subtest 'clients that leave' => sub {
    for my $target ('/leave', '/leave?stream') {
        my $before      = $server->get('/left')->{body};
        my @connections = map { ask($server, $target) } 1 .. 3;
        ok TestServer::wait_for(sub { $server->get('/open')->{body} == 3 }), "$target: three clients wait";
        leaves($_) for @connections;
        ok TestServer::wait_for(sub { $server->get('/left')->{body} == $before + 3 }), 'and the app learns that they have gone';
    }
    unlike text_of($notes), qr/^complete$/m, 'on_complete is not called';
};

subtest 'sse' => sub {
    my $connection = events($server, '/events');
    my $stream     = received($connection, qr/:b\r?\n\n/);
    like $stream, qr/\AHTTP\/1.1 200 OK\r\n/, 'a stream begins';
    like $stream, qr/^content-type: text\/event-stream\r$/mi, 'with its type';
    like $stream, qr/^cache-control: no-cache\r$/mi, 'that no cache keeps';
    like $stream, qr/event: tick\nid: 7\nretry: 100\ndata: one\ndata: two \xe2\x98\xba\n\n/, 'and events';
    like $stream, qr/^data: \n\n/m,   'without data';
    like $stream, qr/^:a\n:b\n\n/m, 'and comments';
    noted(qr/'sse.send': id has a line end at/, 'an id cannot forge an event');
    leaves($connection);
    noted(qr{^/events sse.disconnect client_closed$}m, 'a client leaves');
    for my $target ('/keepalive', '/keepalive?early') {
        my $signs = qr/(?::alive\n\n.*){3}/s;
        like received(events($server, $target), $signs), $signs, "$target: signs of life";
    }
    like events($server, "/$_", 'Connection: close')->rest, qr/\r\n0\r\n\r\n\z/, "the app has $_" for qw(returned closed);
    noted(qr/'sse.send': the stream is closed at/, 'after its end the stream takes nothing');
    my $declined = $server->get('/declined', Accept => 'text/html, text/event-stream;q=0.5');
    is $declined->{status}, 204, 'a client that is declined';
    my $posted = $server->request(POST => '/returned', [Accept => 'text/event-stream'], 'content');
    like $posted->{body}, qr/^data: content$/m, 'POST';
};

subtest 'real clients' => sub {
    my $curl = "curl -sN --max-time 20 -H 'Accept: text/event-stream' http://127.0.0.1:" . $server->port . '/events';
    my $pid   = open my $out, '-|', "exec $curl" or die $!;
    my $lines = q{};
    $lines .= readline $out while $lines !~ /two/;
    is $lines, "event: tick\nid: 7\nretry: 100\ndata: one\ndata: two \xe2\x98\xba\n", 'curl -N gets events at once';
    kill TERM => $pid;
    close $out;
SKIP: {
        skip 'Mojolicious is not installed', 1 if system $^X, '-MMojo::UserAgent', '-e', '1';
        my $code = <<'CLIENT';
my ($ua, @got) = (Mojo::UserAgent->new);
$ua->websocket(shift() => ['two'] => sub {
    my ($ua, $tx) = @_;
    push @got, $tx->protocol;
    $tx->on(message => sub { push @got, length $_[1]; $_[0]->finish(4002, 'bye') });
    $tx->on(finish  => sub { push @got, $_[1]; Mojo::IOLoop->stop });
    $tx->send('x' x 100_000);
});
Mojo::IOLoop->start;
print "@got";
CLIENT
        open my $answer, '-|', $^X, '-MMojo::UserAgent', '-e', $code, 'ws://127.0.0.1:' . $server->port . '/chat' or die $!;
        is readline $answer, 'two 100006 4002', 'Mojo::UserAgent speaks WebSocket';
        close $answer;
    }
};

subtest 'websocket' => sub {
    my $connection = handshake($server, '/chat', 'Sec-WebSocket-Protocol: one, two');
    my $head       = received($connection, qr/\r\n\r\n/);
    like $head, qr/\AHTTP\/1.1 101 /, 'a handshake';
    like $head, qr/^Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK\+xOo=\r$/m, 'for this key';
    like $head, qr/^Sec-WebSocket-Protocol: two\r$/m, 'with a subprotocol';
    like $head, qr/^x-path: \/chat\r$/m, 'and headers of the app';
    $connection->{buffer} =~ s/\A.*?\r\n\r\n//s;
    is says($connection, 'one'), 'echo: one', 'a text';
    is says($connection, "\xe2\x98\xba"), "echo: \xe2\x98\xba", 'another one, which is not ASCII';
    is says($connection, "\xef\xbf\xbf\xf4\x8f\xbf\xbf"), "echo: \xef\xbf\xbf\xf4\x8f\xbf\xbf", 'noncharacters are text';
    is says($connection, 'y' x 40_000), 'echo: ' . 'y' x 40_000, 'a long one';
    $connection->send(frame(0x82, "\0\xff"));
    is_deeply [next_frame($connection)], [2, "\0\xff"], 'bytes';
    $connection->send(frame(0x01, 'in ') . frame(0x89, 'ping') . frame(0x00, 'three ') . frame(0x80, 'pieces'));
    is_deeply [next_frame($connection)], [10, 'ping'], 'a ping';
    is_deeply [next_frame($connection)], [1, 'echo: in three pieces'], 'within a text in pieces';
    is $server->get('/after?0.01')->{body}, 'late', 'other requests are answered meanwhile';
    $connection->send(frame(0x88, pack('n', 4001) . 'bye'));
    is_deeply [next_frame($connection)], [8, pack 'n', 4001], 'the client closes';
    is $connection->rest, q{}, 'and the connection ends';
    noted(qr/^socket 4001 bye$/m, 'the app learns it');

    $connection = socket_at($server, '/chat');
    is says($connection, 'close'), pack('n', 4000) . 'enough', 'the app closes';
    $connection->send(frame(0x88, pack('n', 4000) . 'enough'));
    is $connection->rest, q{}, 'and the connection ends';
    noted(qr/^socket 4000 enough$/m, 'the app learns it');

    $connection = socket_at($server, '/chat');
    leaves($connection);
    noted(qr/^socket 1006 (?:client_closed|read_error|write_error)$/m, 'a client leaves');
    is says(socket_at($server, '/chat'), 'return'), pack('n', 1000), 'the app returns';
    is says(socket_at($server, '/chat'), 'die'),    pack('n', 1011), 'the app dies';

    my $refused = handshake($server, '/refused')->response;
    is_deeply [@{$refused}{qw(status body)}], [403, "Forbidden\n"], 'a handshake is refused';
    my $denied = handshake($server, '/denied')->response;
    is_deeply [@{$denied}{qw(status body)}], [401, 'who are you'], 'or denied with a response';
    is TestServer::Connection::field($denied, 'WWW-Authenticate'), 'Bearer', 'and its fields';
    is handshake($server, '/fails')->response->{status}, 500, 'an app that dies in the handshake';
    my $old = ask($server, '/chat', 'Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 8')->response;
    is_deeply [$old->{status}, TestServer::Connection::field($old, 'Sec-WebSocket-Version')], [426, 13], 'another version';

    my $ends = 0;
    for my $target ('/keepalive', '/keepalive?early') {
        $ends++;
        $connection = socket_at($server, $target);
        is_deeply [next_frame($connection)], [9, q{}], "$target: the server pings";
        noted(qr/(?:^socket 1006 keepalive_timeout\n.*){$ends}/ms, 'a client that does not answer is gone');
    }

    $connection = socket_at($server, '/chat');
    $connection->send(frame(0x81, 'flood'));
    noted(qr/^the flood waits$/m, 'an app waits for its client');
    is scalar(grep { length((next_frame($connection))[1]) == 50_000 } 1 .. 600), 600, 'which gets everything';
    is((next_frame($connection))[1], 'waited', 'in the end');

    $connection = socket_at($server, '/chat');
    $connection->send(frame(0x81, 'last') . frame(0x83, q{}));
    is_deeply [(next_frame($connection))[1], unpack 'n', (next_frame($connection))[1]], ['echo: last', 1002],
        'what comes before a mistake is answered';

    for my $wrong (
        ['no mask',              pack('CC', 0x81, 1) . 'a',      1002],
        ['reserved bits',        frame(0xC1, 'a'),               1002],
        ['an unknown type',      frame(0x83, 'a'),               1002],
        ['a ping in pieces',     frame(0x09, 'a'),               1002],
        ['no begin',             frame(0x80, 'a'),               1002],
        ['a text in a text',     frame(0x01, 'a') . frame(0x81, 'b'), 1002],
        ['not UTF-8',            frame(0x81, "\xff"),            1007],
        ['more than Unicode',    frame(0x81, "\xf4\x90\x80\x80"), 1007],
        ['a surrogate',          frame(0x81, "\xed\xa0\x80"),    1007],
        ['a wrong code',         frame(0x88, pack 'n', 1005),    1002],
        ['half a code',          frame(0x88, 'a'),               1002],
        ['a huge message',       pack('CCNN', 0x82, 0xFF, 0, 0x4000_0000), 1009],
        ['an impossible length', pack('CCNN', 0x82, 0xFF, 0x8000_0000, 0), 1002],
        ['a long form',          pack('CCn', 0x81, 0xFE, 5),     1002],
        )
    {
        my ($what, $bytes, $code) = @{$wrong};
        $connection = socket_at($server, '/chat');
        $connection->send($bytes);
        my ($type, $content) = next_frame($connection);
        is_deeply [$type, unpack 'n', $content], [8, $code], $what;
    }
    ok TestServer::wait_for(sub { $server->get('/sockets')->{body} == 0 }), 'no socket is left';
};

is $server->stop, 0, 'TERM ends the server' or diag $server->log_text;
unlike $server->log_text, qr{PAGI\S*[.]pm line}, 'no warnings';
like text_of($notes), qr/\Astartup (\d+) 1 1\n.*^shutdown \1 1 1\n\z/sm, 'startup and shutdown in the worker';

subtest 'the end' => sub {
    $server = start('t/lib/app.pagi');
    ok $server->listens, 'it listens';
    my @waiting = map { ask($server, '/after?0.5') } 1 .. 5;
    my $socket  = socket_at($server, '/chat');
    my $stream  = events($server, '/events');
    received($stream, qr/:b\n\n/);
    my $process = $server->get('/process')->{body};
    kill HUP => $server->pid;
    is scalar(grep { $_->response->{body} eq 'late' } @waiting), 5, 'HUP: open answers are finished';
    is_deeply [next_frame($socket)], [8, pack('n', 1001) . 'the server stops'], 'WebSockets are closed';
    noted(qr/^socket 1006 server_shutdown$/m, 'the app learns it at once');
    ok !IO::Select->new($socket->{socket})->can_read(0), 'and the client may answer';
    $socket->send(frame(0x88, pack 'n', 1001));
    ok !$socket->fill, 'before the connection ends';
    like received($stream, qr/\r\n0\r\n/), qr/\r\n0\r\n/, 'streams end';
    noted(qr/^socket 1006 server_shutdown\n(?:.*\n)*shutdown $process 1 1$/m, 'before the shutdown');
    noted(qr{^/events sse.disconnect server_shutdown$}m, 'the apps learn it');
    isnt $server->get('/process')->{body}, $process, 'and a new worker serves';
    is $server->get('/scope')->{body} =~ /greeting=hello/, 1, 'after its startup';
    is $server->stop, 0;
    unlike $server->log_text, qr/error|warn|dropped/i, 'nothing was wrong' or diag $server->log_text;

    $server = start('t/lib/app.pagi');
    ok $server->listens, 'it listens';
    my $late = ask($server, '/after?0.5');
    ($socket, $stream) = (socket_at($server, '/chat'), events($server, '/events'));
    received($stream, qr/:b\n\n/);
    kill TERM => $server->pid;
    is_deeply [next_frame($socket)], [8, pack('n', 1001) . 'the server stops'], 'TERM: WebSockets are closed';
    like received($stream, qr/\r\n0\r\n/), qr/\r\n0\r\n/, 'streams end';
    is $late->response->{body}, 'late', 'open answers are finished';
    is $server->wait_end, 0, 'and the server ends';
    like text_of($notes), qr/^shutdown \d+ 1 1\n\z/m, 'after the shutdown';
    unlike $server->log_text, qr/error|warn|dropped/i, 'nothing was wrong' or diag $server->log_text;

    $server = start('t/lib/app.pagi', 'max-requests=3');
    ok $server->listens, 'it listens';
    my @answers = map { ask($server, '/after?0.2') } 1 .. 9;
    is scalar(grep { $_->response->{body} eq 'late' } @answers), 9, 'a worker that is replaced finishes its answers';
    TestServer::wait_for(sub { (() = text_of($notes) =~ /^shutdown/mg) > 0 });
    is $server->stop, 0;
    my @started = text_of($notes) =~ /^startup (\d+)/mg;
    my @ended   = text_of($notes) =~ /^shutdown (\d+)/mg;
    is_deeply [sort @ended], [sort @started], 'each worker that has started is shut down';
};

subtest 'a startup that fails' => sub {
    local $ENV{TEST_STARTUP} = 'fails';
    $server = start('t/lib/app.pagi');
    isnt $server->wait_end, 0, 'no server starts';
    like $server->log_text, qr/the startup of the app failed: no database/, 'the log says why' or diag $server->log_text;
};

subtest 'frames in pieces' => sub {
    require Oribi::PAGI::Frames;
    my @frames = (
        frame(0x81, "\xe2\x98\xba"), frame(0x01, 'a' x 130), frame(0x89, 'ping'), frame(0x80, "b\xc3\xa4"), frame(0x82, q{}),
        frame(0x88, pack('n', 1000) . 'end'),
    );
    my $bytes = join q{}, @frames;
    my @whole = Oribi::PAGI::Frames->new->read($bytes);
    is_deeply \@whole,
        [text => "\x{263a}", ping => 'ping', text => 'a' x 130 . "b\xe4", binary => q{}, close => '1000:end'],
        'at once';
    for my $input ($bytes, "$frames[0]$frames[1]$frames[0]") {
        my @expected = Oribi::PAGI::Frames->new->read($input);
        my $same     = 0;
        for my $split (0 .. length $input) {
            my $frames = Oribi::PAGI::Frames->new;
            my @found  = ($frames->read(substr $input, 0, $split), $frames->read(substr $input, $split));
            $same++ if eq_array(\@found, \@expected);
        }
        is $same, 1 + length $input, 'split at every byte';
    }
    my $single = Oribi::PAGI::Frames->new;
    my @found  = map { $single->read($_) } split //, $bytes;
    is_deeply \@found, \@whole, 'byte by byte';
    my $small = Oribi::PAGI::Frames->new(100);
    is_deeply [$small->read(frame(0x01, 'a' x 60) . frame(0x80, 'a' x 60))], [error => [1009, 'a large message']], 'a limit';
    is Oribi::PAGI::Frames::frame(2, 'c' x 70_000), pack('CCNN', 0x82, 127, 0, 70_000) . 'c' x 70_000, 'a long frame';
    is length Oribi::PAGI::Frames::close_frame(1000, "\x{263a}" x 100), 2 + 2 + 123, 'the reason of a close is cut';
};

subtest 'Future::IO' => sub {
    plan skip_all => 'Future::IO is not installed' if system $^X, '-MFuture::IO', '-e', '1';
    my $app = "$directory/sleeps.pagi";
    open my $out, '>', $app or die $!;
    print {$out} <<'APP';
use Future::AsyncAwait;
use Future::IO;
my ($open, $most) = (0, 0);
async sub app {
    my ($scope, $receive, $send) = @_;
    die "no $scope->{type}\n" if $scope->{type} ne 'http';
    $open++;
    $most = $open if $open > $most;
    await Future::IO->sleep(0.02) while $most < $scope->{query_string};
    $open--;
    await $send->({ type => 'http.response.start', status => 200 });
    await $send->({ type => 'http.response.body', body => 'slept' });
}
\&app;
APP
    close $out;
    $server = start($app);
    ok $server->listens, 'it listens';
    my @waiting = map { ask($server, '/?20') } 1 .. 20;
    is scalar(grep { $_->response->{body} eq 'slept' } @waiting), 20, 'apps sleep at the same time';
    is $server->stop, 0;
};

subtest 'other apps' => sub {
    my $plain = "$directory/plain.pl";
    open my $out, '>', $plain or die $!;
    print {$out} <<'APP';
use Future;
sub {
    my ($scope, $receive, $send) = @_;
    die "no $scope->{type}\n" if $scope->{type} ne 'http';
    return 1 if $scope->{path} ne q{/};
    my $started = $send->({ type => 'http.response.start', status => 200 });
    return $started->then(sub { $send->({ type => 'http.response.body', body => 'plain' }) });
};
APP
    close $out;
    $server = start($plain, 'interface=pagi');
    ok $server->listens, 'an app without a lifespan';
    is $server->get(q{/})->{body}, 'plain', 'that is no async sub';
    is $server->get('/other')->{status}, 500, 'nor returns a future';
    is $server->stop, 0;
    like $server->log_text, qr{GET /other: the app died: it returned no future: a PAGI app is an async sub}, 'is an error';
    like $server->log_text, qr/\[info\].*the app takes no events of its lifespan: no lifespan/, 'the log has it';
    my $plackup = TestServer->start(load => sub { Plack::Util::load_psgi($plain) }, options => { interface => 'pagi' });
    is $plackup->get(q{/})->{body}, 'plain', 'under plackup';
    is $plackup->stop, 0;
    open $out, '>', "$directory/mounted.psgi" or die $!;
    print {$out} <<"APP";
use Plack::Builder;
use Oribi::PAGI;
my \$pagi = do '$code';
builder {
    enable sub {
        my \$app = shift;
        sub { Plack::Util::response_cb(\$app->(\$_[0]), sub { push \@{ \$_[0][1] }, 'X-Seen' => 1; return }) };
    };
    mount '/live' => Oribi::PAGI->wrap(\$pagi);
    mount '/'     => sub { [200, [], ['PSGI']] };
};
APP
    close $out;
    $server = start("$directory/mounted.psgi");
    ok $server->listens, 'PAGI in an app of PSGI';
    is $server->get(q{/})->{body}, 'PSGI', 'beside others';
    my $mounted = $server->get('/live/after?0.01');
    is_deeply [$mounted->{body}, TestServer::Connection::field($mounted, 'X-Seen')], ['late', 1], 'and below middleware';
    like $server->get('/live/scope')->{body}, qr{^path=/live/scope\n.*^root_path=/live$}ms, 'at a path of its own';
    my $waiting = ask($server, '/live/leave?stream');
    received($waiting, qr/begun/);
    my $before = $server->get('/live/left')->{body};
    leaves($waiting);
    ok TestServer::wait_for(sub { $server->get('/live/left')->{body} == $before + 1 }), 'where it learns of clients that leave';
    is $server->stop, 0;
    $server = start('t/lib/app.pagi', 'loop=none');
    isnt $server->wait_end, 0, 'without a loop';
    like $server->log_text, qr/--loop none cannot run PAGI apps: they need ioasync/, 'the log says why';
};

done_testing;
