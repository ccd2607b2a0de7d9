#!/usr/bin/perl
# kept.pl PORT FILE: keeps four connections to a server of 127.0.0.1 busy until FILE exists. Prints the number of requests, of
# those that failed, and of connections that the server has closed.

use strict;
use warnings;
use IO::Socket::INET;

my ($port, $file) = @ARGV;
my %count = (requests => 0, failed => 0, closed => 0);
my @sockets = map { connection() } 1 .. 4;
while (!-e $file) {
    for my $socket (@sockets) {
        $count{requests}++;
        next if ask($socket);
        $count{failed}++;
        $socket = connection();
    }
}
print "$count{requests} requests, $count{failed} failed, $count{closed} closed\n";

sub connection {
    return IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Timeout => 30) || die "cannot connect: $!\n";
}

# Whether a request got its whole answer.
sub ask {
    my ($socket) = @_;
    print {$socket} "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" or return 0;
    my ($answer, $length) = (q{}, undef);
    while (!defined $length || length $answer < $length) {
        if (!sysread $socket, $answer, 65_536, length $answer) { $count{closed}++; return 0 }
        my $end = index $answer, "\r\n\r\n";
        next if $end < 0 || defined $length;
        $count{closed}++ if $answer =~ /^connection: *close/im;
        $length = $end + 4 + ($answer =~ /^content-length: *(\d+)/im ? $1 : 0);
    }
    return $answer =~ m{\AHTTP/1\.1 200 };
}
