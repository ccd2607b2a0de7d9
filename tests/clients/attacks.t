#!/usr/bin/perl
# Property: attacks of hostile clients of HTTP/2 and TLS are ended with the right error and after a bounded number of frames;
# meanwhile others are served on kept and new connections without a failure, and the server's memory is bounded.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use HTTP::Tiny;
use IO::Socket::IP ();
use IPC::Open2      qw(open2);
use Test::FreePort  qw(free_port);
use Test::Clients;
use Test::More;
use Test::Oribi;
use Time::HiRes qw(sleep);

# How the server ends each attack. The error codes are: ENHANCE_YOUR_CALM 11, COMPRESSION_ERROR 9, REFUSED_STREAM 7 and
# PROTOCOL_ERROR 1. The server tolerates 100 cancelled requests, and 10,000 frames that have no effect.
my $ended = <<'ENDED';
rapid reset: GOAWAY 11 within 200
made to reset by a window of 0: GOAWAY 11 within 200
made to reset by a window too large: GOAWAY 11 within 200
made to reset by a priority of a wrong size: GOAWAY 11 within 200
made to reset by content behind the end: GOAWAY 11 within 200
CONTINUATION without an end: GOAWAY 11
CONTINUATION of one byte: GOAWAY 11
CONTINUATION of nothing: GOAWAY 11
HPACK bomb: GOAWAY 11
flapping table: served
table too large: GOAWAY 9
Huffman with EOS: GOAWAY 9
Huffman with much padding: GOAWAY 9
an index of nothing: GOAWAY 9
an integer without an end: GOAWAY 9
PING: GOAWAY 11 within 10500
SETTINGS: GOAWAY 11 within 10500
PRIORITY: GOAWAY 11 within 10500
PRIORITY_UPDATE: GOAWAY 11 within 10500
WINDOW_UPDATE: GOAWAY 11 within 10500
unknown frames: GOAWAY 11 within 10500
empty DATA: GOAWAY 11 within 10500
DATA of one byte: GOAWAY 11 within 10500
too many streams: 20 refused, reset 7
a pseudo-field twice: reset 1
a pseudo-field behind a field: reset 1
no path: reset 1
an empty path: reset 1
capital letters: reset 1
an empty name: reset 1
connection: reset 1
te: gzip: reset 1
transfer-encoding: reset 1
a line end in a value: reset 1
NUL in a value: reset 1
space before a value: reset 1
another content-length: reset 1
host that is not :authority: reset 1
hoarding of responses: 500 heads and no content
ENDED

for my $edge (qw(on off)) {
    subtest "edge $edge" => sub {
        my $metrics = free_port();
        my @limits  = ('--workers', 2, '--edge', $edge, '--header-timeout', '3s', '--metrics', $metrics);
        my $site    = start_for_clients('app.lua', @limits);
        my $oribi = $site->{oribi};
        my %port  = map { $_ => $site->{$_} =~ /:(\d+)\z/ } qw(http https);
        my $pid   = open2(my $out, my $in, go_program('load'), $site->{https});
        my $ask   = sub { print {$in} "go on\n" or die "load: $!"; return scalar readline $out };
        $ask->();
        my ($descriptors, $memory) = resources($oribi);
        my @attack = ('timeout', 120, '/usr/bin/python3', "$FindBin::Bin/programs/attack.py", '127.0.0.1');
        is(output_of(@attack, $port{http},  'clear'), $ended, 'in clear text');
        is(output_of(@attack, $port{https}, 'tls'),   $ended, 'over TLS');
        is($ask->(), "first first\n", 'others are served');
        is_deeply(counted($metrics, 'http2_connections_ended_total'), {
            # Each in clear text and over TLS.
            '{reason="resets"}' => 10, '{reason="nuisances"}' => 16, '{reason="fields"}' => 8, '{reason="other"}' => 10,
        }, 'each attack is counted by its kind');
        cmp_ok(counted($metrics, 'limits_hit_total')->{'{limit="http2-streams"}'}, '>=', 40, 'too many streams are counted');

        stalled_handshakes($site, $port{https}, $ask);
        is(counted($metrics, 'tls_handshakes_failed_total')->{'{reason="timeout"}'}, 301, 'handshakes that stalled are counted');
        update_keys($port{https});
        odd_names($port{https});
        is($ask->(), "first first\n", 'others are served');

        my @after;
        $oribi->wait_until(sub { @after = resources($oribi); $after[0] <= $descriptors });
        cmp_ok($after[0], '<=', $descriptors, 'no descriptor stays open');
        cmp_ok(peak($oribi), '<', $memory + 256 * 1024, 'the memory was bounded, in KiB');
        note("KiB before, at most, and after: $memory, @{[peak($oribi)]}, $after[1]");
        close $in or die "load: $!";
        is(join(q(), readline $out), <<~'SAID', 'nobody else has noticed anything');
            http1 kept: 0 failed, one connection, first
            http1 new: 0 failed, several connections
            http2 kept: 0 failed, one connection, first
            http2 new: 0 failed, several connections
            SAID
        waitpid $pid, 0;
    };
}

# The labels and values of the counters of these families.
sub counted ($metrics, @families) {
    my $told  = HTTP::Tiny->new->get("http://127.0.0.1:$metrics/metrics")->{content};
    my $names = join q(|), @families;
    my %counted = $told =~ /^oribi_(?:$names)(\S+) ([1-9]\d*)$/mg;
    return \%counted;
}

# The sum of the peak memory of the processes.
sub peak ($oribi) {
    my $peak = 0;
    my @processes = Test::Oribi::children($oribi->pid);
    while (defined(my $process = shift @processes)) {
        push @processes, Test::Oribi::children($process);
        open my $in, '<', "/proc/$process/status" or next;
        $peak += join(q(), readline $in) =~ /^VmHWM:\s+(\d+)/m ? $1 : 0;
    }
    return $peak;
}

# 59: handshakes that stop after some bytes, come byte by byte, or are none.
sub stalled_handshakes ($site, $port, $ask) {
    my $hello = "\x16\x03\x01\x40\x00\x01\x00\x3f\xfc\x03\x03" . 'r' x 12_000;
    my @stalled;
    for my $number (1 .. 300) {
        my $socket = IO::Socket::IP->new(PeerHost => '127.0.0.1', PeerPort => $port) or die "127.0.0.1:$port: $!";
        syswrite $socket, substr $hello, 0, $number % 3 ? 12_000 : $number;
        push @stalled, $socket;
    }
    is($ask->(), "first first\n", 'others are served while handshakes stall');
    # One that sends a byte now and then has not more time.
    my $slow = IO::Socket::IP->new(PeerHost => '127.0.0.1', PeerPort => $port) or die "127.0.0.1:$port: $!";
    my $sent = 0;
    local $SIG{PIPE} = 'IGNORE';
    while (syswrite $slow, substr $hello, $sent, 1) {
        sleep 0.1;
        last if ++$sent > 600;
    }
    cmp_ok($sent, '<', 600, 'a handshake byte by byte has an end');
    my $closed = 0;
    for my $socket (@stalled) {
        local $SIG{ALRM} = sub { die "still open\n" };
        alarm 60;
        $closed++ if !eval { 1 while sysread $socket, my $alert, 100; 0 };
        alarm 0;
    }
    is($closed, 300, 'all that stalled were closed');
    for my $nonsense ("\x16\x03\x01\xff\xff", "\x80\x2e\x01\x00\x02", "\0" x 100, "\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00") {
        my $socket = IO::Socket::IP->new(PeerHost => '127.0.0.1', PeerPort => $port) or die "127.0.0.1:$port: $!";
        print {$socket} $nonsense or die "127.0.0.1:$port: $!";
        local $/ = undef;
        unlike(readline($socket) // q(), qr/^HTTP/, 'what is no handshake is refused');
    }
    return;
}

# 60: a client that changes its keys for nothing, and one that wants to negotiate again.
sub update_keys ($port) {
    for (['-tls1_3', 'k', 'key updates'], ['-tls1_2', 'R', 'renegotiation']) {
        my ($version, $order, $what) = @$_;
        my $pid = open2(my $out, my $in, 'sh', '-c', 'exec "$@" 2>&1', 'sh', 'openssl', 's_client', $version, '-connect', "127.0.0.1:$port");
        my $count = 0;
        local $SIG{PIPE} = 'IGNORE';
        while ($count < 2000 && syswrite $in, "$order\n") {
            $count++;
            # Only a line that it reads alone is an order.
            sleep 0.005;
        }
        close $in or note("$what: $!");
        my $said = join q(), readline $out;
        waitpid $pid, 0;
        cmp_ok($count, '<', 2000, "$what: an end after $count");
        like($said, qr/no renegotiation/, 'it was refused') if $order eq 'R';
    }
    return;
}

# 61: protocols that are not spoken, and names of servers that are none.
sub odd_names ($port) {
    my @client = ('openssl', 's_client', '-connect', "127.0.0.1:$port");
    like(output_of(@client, '-alpn', 'spdy/3'), qr/alert no application protocol/, 'another protocol is refused');
    for my $name ('a' x 255, 'a..b', '-', '127.0.0.1', "\xff\xfe") {
        like(output_of(@client, '-servername', $name), qr/CN = first|alert/, 'a name that is none has an alert or the certificate');
    }
    return;
}

done_testing;
