package Test::FreePort;

# Ports for servers of tests.

use strict;
use warnings;
use Exporter qw(import);
use Net::EmptyPort ();

our @EXPORT_OK = qw(free_port);

my ($owner, $last) = (0);

# A port of 127.0.0.1 without a listener, outside of the range from which the kernel chooses: there a server of another test could
# get it before that of the caller does. Each process begins at another place.
sub free_port {
    if ($owner != $$ || $last > 31_000) {
        ($owner, $last) = ($$, 12_000 + $$ * 37 % 18_000);
    }
    return $last = Net::EmptyPort::empty_port($last);
}

1;
