#!/usr/bin/perl
# client.pl NUMBER: asks haproxy again and again until standard input ends, in turns with GET and POST, twenty times on a
# connection before it opens another one. It tries nothing twice. For each request it prints a line: the method, the number of
# the order, the status or the word `lost`, and the answer.

use v5.36;
use IO::Select;
use IO::Socket::IP;
use Time::HiRes qw(sleep);

use constant PATIENCE => 30;

my ($number) = @ARGV;
my $asked = 0;
my $ends  = IO::Select->new(\*STDIN);
local $SIG{PIPE} = 'IGNORE';
STDOUT->autoflush;
my $socket;
until ($ends->can_read(0)) {
    my $method = ++$asked % 2 ? 'GET' : 'POST';
    my $order  = "$number-$asked";
    $socket = undef if $asked % 20 == 0;
    $socket //= IO::Socket::IP->new(PeerHost => '10.0.0.10', PeerPort => 80, Timeout => PATIENCE);
    my $length  = $method eq 'POST' ? length $order : 0;
    my $content = $method eq 'POST' ? $order        : q();
    my $answer  = 'lost';
    if ($socket) {
        my @lies = ('X-Forwarded-For: 192.0.2.1', 'Forwarded: for=192.0.2.2');
        my @fields = ('Host: shop.example', @lies, "Content-Length: $length");
        syswrite $socket, join "\r\n", "$method /$order HTTP/1.1", @fields, q(), $content;
        $answer = answer($socket);
        $socket = undef if $answer !~ /\A200/;
    }
    say "$method $order $answer";
    sleep 0.01;
}

# The status and the content of an answer that has arrived whole.
sub answer ($socket) {
    my $received = q();
    my $reads    = IO::Select->new($socket);
    while ($reads->can_read(PATIENCE)) {
        sysread $socket, $received, 65_536, length $received or return "lost: closed after " . length($received) . ' bytes';
        my ($status, $head, $content) = $received =~ m{\AHTTP/1[.]1 (\d+) (.*?\r\n)\r\n(.*)\z}s or next;
        my ($length) = $head =~ /^Content-Length: (\d+)\r$/mi;
        # An error of haproxy itself.
        return $status if !defined $length;
        return "$status " . $content =~ s/\n.*//sr if length $content >= $length;
    }
    return 'lost: no answer';
}
