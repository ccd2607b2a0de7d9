#!/usr/bin/perl
# Property: handlers of connections that an edge keeps open get events, and give commands. The checkout's tests/live/ has whole
# servers with clients.

use strict;
use warnings;
use utf8;

use Oribi;
use Test::More;

my @given;
my $exchange = 1;
{
    no warnings qw(redefine);
    *Oribi::Live::command = sub {
        my ($tag, $body) = unpack 'C N/a*', $_[0];
        die 'one command at a time' if length $_[0] != 5 + length $body;
        push @given, [$tag, $body];
        return 1;
    };
    *Oribi::Live::exchange    = sub { return $exchange };
    *Oribi::Live::environment = sub { return { PATH_INFO => '/ws' } };
}

package Counter {
    our ($kept, @closed);

    sub new { my ($class, @words) = @_; return bless { words => \@words }, $class }

    sub on_open {
        my ($self, $connection) = @_;
        $kept = $connection;
        $connection->subscribe('räume');
        $connection->send("hi @{ $self->{words} }");
        return;
    }

    sub on_message {
        my ($self, $connection, $message) = @_;
        $connection->data($connection->data + 1);
        return $connection->send_binary("$message\xFF") if $connection->is_binary;
        die "no\n" if $message eq 'die';
        $connection->send(length($message) . " @{ $self->{words} }");
        return;
    }

    sub on_close {
        my ($self, $connection, $code, $reason) = @_;
        push @closed, [$code, $reason, $connection->send('x') ? 1 : 0];
        return;
    }
}

package Sender {
    our @parts = qw(a b c d e);

    sub on_message { my ($class, $connection) = @_; return $class->on_drained($connection) }

    sub on_drained {
        my ($class, $connection) = @_;
        $connection->send(shift @parts) while $connection->pending < 2 && @parts;
        return;
    }

    sub on_shutdown {
        my ($class, $connection) = @_;
        $connection->send('bye, ' . $connection->pending . ' pending');
        return $connection->data('told');
    }
}

package Failing {
    sub on_open { die "at once\n" }
}

# Sends an event and returns the commands that answer it.
sub event {
    my ($kind, $data, $payload, $pending) = @_;
    @given = ();
    $exchange++;
    my $content = pack 'N/a* a*', $data, $payload;
    open my $input, '<', \$content or die;
    my %env = ('HTTP_ORIBI/EVENT' => $kind, 'HTTP_ORIBI/CONNECTION' => '00000000000000ff', CONTENT_LENGTH => length $content,
        'psgi.input' => $input, defined $pending ? ('HTTP_ORIBI/PENDING' => $pending) : ());
    is_deeply(Oribi::Live::event(\%env), [200, [], []], 'an event has a response');
    is_deeply([keys %env], ['psgi.input'], 'its environment is that of the handshake');
    return @given;
}

my $websocket = bless {}, 'Oribi::WebSocket';
is_deeply($websocket->accept(handler => [Counter => 'Jürgen', 'b'], data => 0, protocol => 'chat', headers => ['X-A' => 1]),
    [200, [], []], 'a WebSocket is accepted');
is_deeply([map { $_->[0] } @given], [1, 4, 2], 'the handler subscribes and sends');
my ($lines, $data) = unpack 'N/a* a*', $given[0][1];
is($lines, "X-A: 1\r\nSec-WebSocket-Protocol: chat\r\n", 'with fields');
is($given[1][1], "r\xC3\xA4ume", 'a channel has bytes');
is_deeply([unpack 'Q> C a*', $given[2][1]], [0, 1, "hi J\xC3\xBCrgen b"], 'a message has bytes');

for my $number (1 .. 2) {
    my @answers = event('text', $data, "gr\xC3\xBC\xC3\x9Fe");
    is_deeply([map { $_->[0] } @answers], [2, 7], 'it answers and keeps its data');
    is_deeply([unpack 'Q> C a*', $answers[0][1]], [0, 1, "5 J\xC3\xBCrgen b"], 'text is characters');
    $data = $answers[1][1];
    is((unpack 'N/a* a*', $data)[1], $number, 'the data is carried');
}
is_deeply([unpack 'Q> C a*', (event('binary', $data, "\xE4"))[0][1]], [0, 2, "\xE4\xFF"], 'bytes are bytes');
is(scalar event('close', $data, pack 'n a*', 1000, "\xC3\xBC"), 0, 'the end needs no answer');
is_deeply(\@Counter::closed, [[1000, 'ü', 0]], 'and nothing can be sent after it');

ok(!eval { event('text', $data, 'die'); 1 } && $@ eq "no\n", 'an error of a handler reaches the host');
ok(!eval { $Counter::kept->send('x'); 1 } && $@ =~ /kept from on_open/, 'a connection is open in its own events');

@given = ();
my $other = Oribi::Live::Connection->of('00010000000000ff');
$other->send_event('data: 1');
$other->close(4000, 'ö');
is_deeply([map { [$_->[0], unpack 'H16', $_->[1]] } @given], [[2, '00010000000000ff'], [3, '00010000000000ff']], 'another is named');
is_deeply([unpack 'x8 n a*', $given[1][1]], [4000, "\xC3\xB6"], 'with the code and the reason');
ok(!eval { $other->subscribe('x'); 1 } && $@ =~ /in an event of the connection itself/, 'which does not subscribe');

@given = ();
$websocket->accept(handler => 'Sender');
is_deeply([map { $_->[0] } @given], [1, 13], 'a handler has events that others have not');
is($given[1][1], "\3", 'both of them');
my $kept = (unpack 'N/a* a*', $given[0][1])[1];
my $texts = sub { return [map { (unpack 'Q> C a*', $_->[1])[2] } grep { $_->[0] == 2 } @_] };
is_deeply($texts->(event('text', $kept, 'go')),          [qw(a b)], 'messages are counted');
is_deeply($texts->(event('text', $kept, 'go', 1)),       ['c'],     'with those that the edge has');
is_deeply($texts->(event('drained', $kept, q{})),        [qw(d e)], 'until all are sent');
my @answers = event('shutdown', $kept, q{}, 3);
is_deeply($texts->(@answers), ['bye, 3 pending'], 'a last message');
is($answers[1][0], 7, 'and data');
is(scalar event($_, $data, q{}), 0, "a handler without on_$_ does nothing") for qw(drained shutdown);

@given = ();
ok(!eval { $websocket->accept(handler => 'Failing'); 1 } && $@ eq "at once\n", 'an error of on_open reaches the app');
is_deeply([$given[-1][0], unpack 'x8 n', $given[-1][1]], [3, 1011], 'and closes the connection');

@given = ();
my $stream = bless {}, 'Oribi::EventStream';
is($stream->hold(handler => [Counter => 'x'], subscribe => ['a', 'b'])->[1][1], 'text/event-stream', 'a stream is held');
is_deeply([map { $_->[0] } @given], [8, 4, 4, 4, 2], 'with channels, before its handler is called');
@given = ();
$stream->subscribe('news');
is_deeply(\@given, [[8, q{}], [4, 'news']], 'or without a handler');

@given = ();
Oribi::publish('news', 'ä');
Oribi::publish_binary('news', "\xE4");
Oribi::publish_event('news', "id: 1\ndata: x");
is_deeply([map { [unpack 'C n/a* a*', $_->[1]] } @given], [[1, 'news', "\xC3\xA4"], [2, 'news', "\xE4"], [3, 'news', "id: 1\ndata: x"]],
    'messages are published');

for my $case (
    [sub { $websocket->accept(handler => 'Missing') },                     qr/package Missing has none/],
    [sub { $websocket->accept(handler => [Counter => {}]) },               qr/arguments of a handler are strings/],
    [sub { $websocket->accept(handler => 'Counter', data => 'x' x 65536) }, qr/has at most 65536 bytes/],
    [sub { $websocket->accept(handler => 'Counter', data => "\x{100}") },   qr/wide character/],
    [sub { $websocket->accept(handler => 'Counter', headers => ['A' => "x\r\nB: y"]) }, qr/control character/],
    [sub { Oribi::publish('x' x 1025, 'x') },                              qr/at most 1024 bytes/],
    [sub { Oribi::publish_binary('x', "\x{100}") },                        qr/wide character/],
) {
    @given = ();
    my ($code, $message) = @{$case};
    ok(!eval { $code->(); 1 }, 'an error');
    like($@, $message, 'with its reason');
    is_deeply(\@given, [], 'gives no command');
}

done_testing;
