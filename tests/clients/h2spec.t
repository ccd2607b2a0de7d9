#!/usr/bin/perl
# Property: the server keeps the rules of HTTP/2 and of HPACK that h2spec tries, over TLS and in clear text.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use IO::Socket::IP ();
use Test::Clients;
use Test::More;
use Test::Oribi;

my $h2spec = Test::Oribi::root() . '/target/tools/bin/h2spec';
for my $edge (qw(on off)) {
    my $site = start_for_clients('app.lua', '--workers', 2, '--edge', $edge);
    my ($https, $http) = map { /:(\d+)\z/ } @$site{qw(https http)};

    my $said = output_of($h2spec, '--tls', '--insecure', '--host', '127.0.0.1', '--port', $https, '--timeout', 20);
    like($said, qr/^145 tests, 145 passed, 0 skipped, 0 failed$/m, "over TLS, edge $edge") or diag($said);

    # On the port for HTTP/1 and HTTP/2, a client that does not begin with the preface gets the answer 400 of HTTP/1. But if the
    # input begins with `PRI * HTTP/2.0`, the rest of the preface must follow.
    $said = output_of($h2spec, '--host', '127.0.0.1', '--port', $http, '--timeout', 20);
    like($said, qr/^145 tests, 144 passed, 0 skipped, 1 failed$/m, "in clear text, edge $edge") or diag($said);
    my ($failures) = $said =~ /^Failures:(.*)/ms;
    is_deeply([$failures =~ /× (.*)/g], ['2: Sends invalid connection preface'], 'but for one that HTTP/1 answers') or diag($said);
    my $socket = IO::Socket::IP->new(PeerHost => '127.0.0.1', PeerPort => $http) or die "127.0.0.1:$http: $!";
    print {$socket} "INVALID CONNECTION PREFACE\r\n\r\n" or die "127.0.0.1:$http: $!";
    local $/ = undef;
    like(readline $socket, qr{\AHTTP/1\.1 400 }, 'which it does');
    $socket = IO::Socket::IP->new(PeerHost => '127.0.0.1', PeerPort => $http) or die "127.0.0.1:$http: $!";
    print {$socket} "PRI * HTTP/2.0\r\n\r\nXY\r\n\r\n" or die "127.0.0.1:$http: $!";
    # The server's settings, if they have been sent, and GOAWAY with PROTOCOL_ERROR.
    like(readline $socket, qr/\0\0\x08\x07\0\0\0\0\0.{4}\0\0\0\x01\z/s, 'a preface that goes wrong is refused in HTTP/2');
}

done_testing;
