#!/usr/bin/perl
# Property: below start_server, a new generation of the server takes over without a lost request.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::FreePort qw(free_port);
use Test::Curl qw(body_of);
use Test::Load;
use Test::More;
use Test::Oribi;

my $probe  = "$FindBin::Bin/probe.psgi";
my $blib   = Test::Oribi::root() . '/hosts/perl/blib';
my %server = (
    oribi   => [ Test::Oribi::command(), $probe, '--workers', 2 ],
    plackup => [ $^X, "-Mblib=$blib", '-S', 'plackup', '-s', 'Oribi', '-E', 'deployment', '--workers', 2, $probe ],
);

for my $name (sort keys %server) {
    subtest $name => sub {
        my $port    = free_port();
        my $starter = Test::Oribi->run_on_port($port, 'start_server', "--port=127.0.0.1:$port", '--', @{ $server{$name} });
        my $load    = Test::Load->new($starter, '/process', 16);
        $load->run(500);
        my ($before) = Test::Oribi::children($starter->pid);
        $starter->signal('HUP');
        my $replaced = sub {
            $load->run(100);
            my @now = Test::Oribi::children($starter->pid);
            return @now == 1 && $now[0] != $before;
        };
        ok $starter->wait_until($replaced), 'HUP starts a new generation, and the old one ends';
        is scalar $load->lost, 0, 'without a lost request';
        is $load->refused, 0, 'and with no answer but 200';
        my $text = body_of($starter->url . '/environment');
        like $text, qr/^SERVER_NAME=127\.0\.0\.1$/m, 'SERVER_NAME is the host that start_server listens on';
        like $text, qr/^SERVER_PORT=$port$/m,        'SERVER_PORT is the port';

        my $slow = Test::Load->new($starter, '/sleep?1', 1);
        ok $starter->wait_until(sub { $starter->log_text =~ /^asleep$/m }), 'a request is with the app';
        $starter->signal('TERM');
        $slow->run_out;
        is $slow->answers, 1, 'which answers it after TERM';
        is scalar $slow->lost, 0, 'with Connection: close';
        ok $starter->wait_until(sub { defined $starter->exit_status }), 'and start_server ends';
        is $starter->connection, undef, 'and nobody listens any more';
    };
}

done_testing;
