#!/usr/bin/perl
# setup/serve.pl COMMAND...: runs a server below make. When Ctrl-C reaches make and its child ends in the same moment, make
# complains about a child that it has already waited for; so its child outlives the server by a moment. Make passes TERM to its
# own child only, so it is passed on; Ctrl-C reaches the server from the terminal.

use v5.36;
use Time::HiRes qw(sleep);

my $server = fork // die "fork: $!\n";
if ($server == 0) {
    exec { $ARGV[0] } @ARGV or die "$ARGV[0]: $!\n";
}
local $SIG{INT}  = 'IGNORE';
local $SIG{TERM} = sub { kill 'TERM', $server };
1 until waitpid($server, 0) == $server;
my $status = $?;
sleep 0.2;
exit($status & 127 ? 128 + ($status & 127) : $status >> 8);
