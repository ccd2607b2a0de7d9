#!/usr/bin/perl
# Property: `make serve` serves an example until Ctrl-C, which ends all of it.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::FreePort qw(free_port);
use Test::Curl qw(curl);
use Test::More;
use Test::Oribi;

my $port = free_port();
chdir Test::Oribi::root() or die "chdir: $!";
# This may run below `make test`, whose flags are not for this make.
local @ENV{qw(MAKEFLAGS MFLAGS MAKELEVEL)};
delete @ENV{qw(MAKEFLAGS MFLAGS MAKELEVEL)};
my $server = Test::Oribi->run_on_port($port, 'make', 'serve', "PORT=$port", 'BUILT=' . Test::Oribi::built());
is curl($server->url . '/')->{status}, 200, 'the example answers';
ok $server->wait_until(sub { $server->log_text =~ m{http://127\.0\.0\.1:$port\b} }), 'the address is printed';
$server->stop('-INT');
ok $server->wait_until(sub { !kill 0, -$server->pid }), 'Ctrl-C ends all of it';
is $server->connection, undef, 'nobody listens any more';
unlike $server->log_text, qr/panic|error|[*]{3}/i, 'without a complaint' or diag $server->log_text;

done_testing;
