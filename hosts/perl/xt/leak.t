# Sends a million mixed requests. The memory of the worker at the end must be the same as after ten thousand, within 2 %.
# REQUESTS=100000 makes the test shorter.

use strict;
use warnings;
use FindBin    ();
use lib "$FindBin::Bin/../t/lib";
use LeakCheck  ();
use Test::More;

my $requests = $ENV{REQUESTS} || 1_000_000;
my $check    = LeakCheck->start;
$check->run(10_000);
my $before = $check->memory;
note "$before KiB after 10000 requests";
for my $part (1 .. 10) {
    $check->run(($requests - 10_000) / 10);
    note $check->memory . ' KiB after ' . (10_000 + $part * ($requests - 10_000) / 10) . ' requests';
}
my $after = $check->memory;
cmp_ok abs($after - $before), '<=', $before * 0.02, "$before KiB after 10000 requests, $after KiB after $requests";
is $check->server->stop, 0, 'stopped';

done_testing;
