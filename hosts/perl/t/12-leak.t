# A short test for leaks; the long one is xt/leak.t.

use strict;
use warnings;
use lib 't/lib';
use LeakCheck  ();
use Test::More;

my $check = LeakCheck->start;
$check->run(4000);
my $before = $check->memory;
$check->run(12_000);
my $after  = $check->memory;
# A leak of 20 bytes in each of the 12000 requests would be 234 KiB.
cmp_ok $after - $before, '<', 200, "memory of the worker: $before KiB after 4000 requests, $after KiB after 16000";
is $check->server->stop, 0, 'stopped';

done_testing;
