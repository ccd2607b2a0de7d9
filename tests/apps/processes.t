#!/usr/bin/perl
# Property: no client loses an answer because of what happens to processes, unless the process that had the answer was lost.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use POSIX          qw(SIGINT WIFEXITED WEXITSTATUS);
use Test::Curl;
use Test::Load;
use Test::More;
use Test::Oribi;

my $probe = "$FindBin::Bin/probe.psgi";

subtest 'TERM under load is an error for nobody' => sub {
    for my $signal (qw(TERM INT QUIT)) {
        my $server = Test::Oribi->start($probe, '--workers', 2);
        my $load   = Test::Load->new($server, '/process', 32);
        $load->run(2000);
        $server->signal($signal);
        $load->run_out;
        is scalar $load->lost, 0, "$signal: every request on a connection is answered";
        is $load->refused, 0, 'with 200';
        ok $server->wait_until(sub { defined $server->exit_status }), 'and oribi ends';
        is $server->exit_status, 0, 'with status 0';
        is $server->connection, undef, 'and no longer listens';
    }
};

subtest 'TERM lets a request in the app end' => sub {
    my $server = Test::Oribi->start($probe);
    my $slow   = Test::Load->new($server, '/sleep?1', 1);
    ok $server->wait_until(sub { $server->log_text =~ /^asleep$/m }), 'the request is with the app';
    $server->signal('TERM');
    $slow->run_out;
    is $slow->answers, 1, 'it is answered, with Connection: close';
    is scalar $slow->lost, 0, 'and nothing is lost';
    ok $server->wait_until(sub { defined $server->exit_status }), 'and oribi ends';
};

subtest 'kill -9 loses only what the worker had' => sub {
    my $server = Test::Oribi->start($probe, '--workers', 3);
    my $load   = Test::Load->new($server, '/process', 32);
    $load->run(1000);
    my $victim = body_of($server->url . '/process');
    my @before = $server->workers;
    ok +(grep { $_ == $victim } @before), 'a worker names itself';

    kill 'KILL', $victim;
    $load->run(5000);
    my @others = grep { defined && $_ != $victim } $load->lost;
    is_deeply \@others, [], 'connections of other workers see nothing';
    cmp_ok scalar $load->lost, '<=', 32, 'and no connection is lost twice';
    is $load->refused, 0, 'every answer is a 200';
    ok $server->wait_until(sub { my @now = $server->workers; @now == @before && !grep { $_ == $victim } @now }), 'a new worker stands in';
    is $server->stop, 0, 'TERM ends oribi with status 0';
};

subtest 'workers that are replaced leave no gap' => sub {
    my $server = Test::Oribi->start($probe, '--workers', 2, '--max-requests', 200, '--min-requests', 100);
    my @before = $server->workers;
    my $load   = Test::Load->new($server, '/process', 16);
    $load->run(5000);
    is scalar $load->lost, 0, 'every request is answered';
    is $load->refused, 0, 'with 200';
    my %before = map { $_ => 1 } @before;
    ok $server->wait_until(sub { !grep { $before{$_} } $server->workers }), 'by other workers than at first';
    is $server->stop, 0, 'TERM ends oribi with status 0';
};

done_testing;
