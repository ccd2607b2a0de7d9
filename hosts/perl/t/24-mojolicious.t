# Mojolicious apps with their own event loop.

use strict;
use warnings;
use lib 't/lib';
use File::Temp       ();
use OverHTTP2        ();
use Socket           ();
use Test::More;
use TestServer ();

plan skip_all => 'Mojolicious is not installed' if !eval { require Mojolicious; Mojolicious->VERSION('9'); 1 };
plan skip_all => 'WebSockets and pieces of HTTP/1' if OverHTTP2::is_on();

my $directory = File::Temp->newdir;
my $file      = "$directory/large";
open my $handle, '>', $file or die $!;
print {$handle} 'y' x 3_000_000;
close $handle;

sub start {
    my ($app, @settings) = @_;
    my $environment = { MOJO_LOG_LEVEL => 'fatal', TEST_FILE => $file, PLACK_ENV => 'deployment' };
    my $server = TestServer->start_mold($app, $environment, @settings);
    ok $server->listens, 'listens';
    return $server;
}

sub ask {
    my ($server, $target, @fields) = @_;
    my $connection = $server->connection;
    $connection->send(join "\r\n", "GET $target HTTP/1.1", 'Host: localhost', @fields, q{}, q{});
    return $connection;
}

sub leaves {
    my ($connection) = @_;
    setsockopt $connection->socket, Socket::SOL_SOCKET(), Socket::SO_LINGER(), pack 'll', 1, 0;
    return close $connection->socket;
}

# A frame of a client: final, masked with zeros.
sub frame { my ($type, $content) = @_; return pack('CC', 0x80 | $type, 0x80 | length $content) . "\0\0\0\0" . $content }

my $server = start('t/lib/mojolicious.pl');

subtest 'answers' => sub {
    is $server->get('/now')->{body},        'now',  'at once';
    is $server->get('/later')->{body},      'late', 'later';
    is $server->get('/promise')->{body},    'kept', 'by a promise';
    is $server->get('/rejected')->{status}, 500,    'a promise that is rejected';
    is $server->get('/dies')->{status},     500,    'an action that dies';
    is $server->get('/none')->{status},     404,    'a page that is not there';
    is $server->request(POST => '/echo', [], 'z' x 300_000)->{body}, 'z' x 300_000, 'content is read';
    ok TestServer::wait_for(sub { $server->get('/ticks')->{body} > 2 }), 'timers of the app run';
    my $head = $server->request(HEAD => '/now');
    is TestServer::Connection::field($head, 'Content-Length'), 3, 'HEAD';
    my @waiting = map { ask($server, '/later') } 1 .. 50;
    is scalar(grep { $_->response->{body} eq 'late' } @waiting), 50, 'many wait at a time';
    my $connection = $server->connection;
    is $connection->request(GET => '/later')->{body}, 'late', "request $_ on one connection" for 1 .. 3;
};

subtest 'pieces' => sub {
    is $server->get('/chunks')->{body}, 'firstsecondthird', 'write_chunk';
    is $server->get('/drain')->{body}, 'x' x 10_000_000, 'write, with a callback when the piece has gone';
    is $server->get('/length')->{body}, 'abcdef', 'write, with a length';
    ok $server->get('/file')->{body} eq 'y' x 3_000_000, 'a file';
    my $part = $server->get('/file', Range => 'bytes=1000-1999');
    is_deeply [$part->{status}, length $part->{body}], [206, 1000], 'a part of a file';
};

subtest 'clients that leave' => sub {
    for my $target ('/held', '/events') {
        my $before      = $server->get('/finished')->{body};
        my @connections = map { ask($server, $target) } 1 .. 3;
        if ($target eq '/events') {
            $_->fill for @connections;
        }
        ok TestServer::wait_for(sub { $server->get('/all_held')->{body} == 3 }), "$target: three clients wait";
        leaves($_) for @connections;
        ok TestServer::wait_for(sub { $server->get('/finished')->{body} == $before + 3 }), 'and the app learns that they have gone';
    }
    is $server->get('/idle')->{status}, 504, 'inactivity_timeout';
    my $begun = ask($server, '/begun');
    1 while $begun->fill;
    like $begun->{buffer}, qr/begun/, 'a response that has begun';
    unlike $begun->{buffer}, qr/\r\n0\r\n/, 'is cut by inactivity_timeout';
};

subtest 'WebSocket' => sub {
    my $before     = $server->get('/finished')->{body};
    my $connection = ask(
        $server, '/socket', 'Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13',
        'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='
    );
    1 while $connection->{buffer} !~ /\r\n\r\n/ && $connection->fill;
    like $connection->{buffer}, qr/\AHTTP\/1.1 101 /, 'the connection is upgraded';
    like $connection->{buffer}, qr/^Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK\+xOo=\r$/m, 'for this key';
    $connection->{buffer} =~ s/\A.*?\r\n\r\n//s;
    for my $text ('one', 'two') {
        $connection->send(frame(1, $text));
        my $expected = pack('CC', 0x81, 6 + length $text) . "echo: $text";
        1 while length $connection->{buffer} < length $expected && $connection->fill;
        is $connection->{buffer}, $expected, "$text is answered";
        $connection->{buffer} = q{};
    }
    is $server->get('/later')->{body}, 'late', 'other requests are answered meanwhile';
    $connection->send(frame(8, pack 'n', 1000));
    ok $connection->rest, 'it is closed';
    ok TestServer::wait_for(sub { $server->get('/finished')->{body} == $before + 1 }), 'and the app learns it';
};

is $server->stop, 0, 'TERM ends the server';
my ($log, $cut) = ($server->log_text, qr/^.*the app dropped the writer.*\n/m);
is scalar(() = $log =~ /$cut/g), 1, 'the log tells of the response that was cut';
unlike $log =~ s/$cut//r, qr/dropped|error|warn/i, 'and nothing else was wrong' or diag $log;

subtest 'below middleware with a responder and a writer of its own' => sub {
    my $app = "$directory/below.psgi";
    open my $out, '>', $app or die $!;
    print {$out} <<'APP';
use Mojolicious::Lite;
use Plack::Util;
get '/later'  => sub { my ($c) = @_; $c->render_later; Mojo::IOLoop->timer(0.05 => sub { $c->render(text => 'late') }) };
get '/pieces' => sub { my ($c) = @_; $c->write_chunk('one' => sub { $_[0]->write_chunk('x' x 1_000_000 => sub { $_[0]->finish('three') }) }) };
my $inner = app->start;
sub { Plack::Util::response_cb($inner->($_[0]), sub { sub { defined $_[0] ? uc $_[0] : undef } }) };
APP
    close $out;
    my $below = start($app);
    is $below->get('/later')->{body}, 'LATE', 'a response that comes later';
    is $below->get('/pieces')->{body}, 'ONE' . 'X' x 1_000_000 . 'THREE', 'pieces';
    is $below->stop, 0, 'and the server ends';
    unlike $below->log_text, qr/dropped|error|warn/i, 'and nothing was wrong';
};

subtest 'open answers at the end' => sub {
    $server = start('t/lib/mojolicious.pl');
    my @waiting = map { ask($server, '/later') } 1 .. 5;
    is $server->get('/now')->{body}, 'now', 'the app has them';
    kill TERM => $server->pid;
    is scalar(grep { $_->response->{body} eq 'late' } @waiting), 5, 'are finished';
    is $server->wait_end, 0, 'and the server ends';
};

done_testing;
