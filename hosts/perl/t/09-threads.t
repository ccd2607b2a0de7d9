# Interpreters: how they are cloned, renewed and freed.

use strict;
use warnings;
use lib 't/lib';
use Notes;
use Oribi::Options ();
use Test::More;
use TestServer     ();

plan skip_all => 'this perl has no threads' if !Oribi::Options::has_threads();

package Counted {
    our $clones = 0;
    sub CLONE   { $clones++; main::note_down('CLONE') }
    sub new     { return bless {}, $_[0] }
    # The test itself ends without its directory.
    sub DESTROY { eval { main::note_down("DESTROY $$") } }
}

package Skipped {
    sub CLONE_SKIP {1}
    sub new { return bless {}, $_[0] }
}

package main;

our $loaded  = 'as loaded';
our $counter = 0;
our $object  = Counted->new;
our $skipped = Skipped->new;

my $app = sub {
    my ($env) = @_;
    if ($env->{PATH_INFO} eq '/slow') {
        select undef, undef, undef, 0.5;
        return [ 200, [], ["slow in $$"] ];
    }
    my $text = join q{ }, "pid=$$", "state=$loaded", 'request=' . ++$counter, "clones=$Counted::clones", 'object=' . ref $object,
        'skipped=' . ref $skipped;
    $loaded = 'changed';
    return [ 200, [], [$text] ];
};

sub parts { my ($response) = @_; return { map { split /=/, $_, 2 } split q{ }, $response->{body} =~ s/state=as loaded/state=loaded/r } }

subtest 'lanes' => sub {
    forget_notes();
    my $server = TestServer->start(app => $app, options => { threads => 4 });
    is times_noted('^CLONE$'), 4, 'CLONE ran once for each lane';
    my $one = $server->connection;
    my $two = $server->connection;
    my $first = parts($one->request(GET => '/'));
    is $first->{state},   'loaded',  'a lane starts from what was loaded';
    is $first->{clones},  1,         'its CLONE has run';
    is $first->{object},  'Counted', 'objects are cloned';
    is $first->{skipped}, 'SCALAR',  'save those that skip it';
    my $second = parts($one->request(GET => '/'));
    is $second->{state},   'changed', 'state stays in a lane';
    is $second->{request}, 2;
    my @slow = map { $server->connection } 1 .. 4;
    $_->send("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n") for @slow;
    is $_->response('GET')->{status}, 200, 'slow requests' for @slow;
    is $server->stop, 0, 'stopped';
};

subtest 'renewal' => sub {
    forget_notes();
    # With an edge, a connection belongs to no lane.
    my $server     = TestServer->start(app => $app, options => { threads => 2, max_requests => 10, edge => 'off' });
    my $connection = $server->connection;
    my (%first_requests, $pid);
    my $last = 0;
    my $end  = time + 15;
    # A lane keeps serving until a new interpreter is ready, so how many requests it takes is not certain.
    for (my $number = 1; ($first_requests{loaded} || 0) < 4 && time < $end; $number++) {
        my $parts = parts($connection->request(GET => '/'));
        $pid ||= $parts->{pid};
        if ($parts->{pid} ne $pid) { fail 'the process changed'; last }
        if ($parts->{request} == 1) {
            $first_requests{ $parts->{state} }++;
        } elsif ($parts->{request} != $last + 1) {
            fail "request $number is number $parts->{request} of its interpreter, after $last";
            last;
        }
        $last = $parts->{request};
    }
    is_deeply [ keys %first_requests ], ['loaded'], 'each new interpreter starts from what was loaded';
    cmp_ok $first_requests{loaded}, '>=', 4, "the lane was renewed $first_requests{loaded} times on one connection";
    cmp_ok times_noted('^CLONE$'), '>=', 1 + $first_requests{loaded}, 'CLONE ran for each';
    ok TestServer::wait_for(sub { times_noted('^DESTROY') >= $first_requests{loaded} - 2 }), 'and objects of the old ones were destroyed';
    is $server->stop, 0, 'stopped';
};

subtest 'renewal leaks nothing' => sub {
    forget_notes();
    my $server     = TestServer->start(app => sub { [ 200, [], [$$] ] }, options => { threads => 2, max_requests => 3 });
    my $connection = $server->connection;
    my $pid        = $connection->request(GET => '/')->{body};
    my $memory     = sub { open my $handle, '<', "/proc/$pid/statm" or die $!; return (split q{ }, readline $handle)[1] * 4 };
    my $renew      = sub { my ($number) = @_; $connection->request(GET => '/') while times_noted('^CLONE$') < $number; return $memory->() };
    my $before     = $renew->(30);
    my $growth     = $renew->(100) - $before;
    # 70 clones of this program were made, with some 5000 KiB each.
    cmp_ok $growth, '<', 8000, "the worker grew by $growth KiB";
    is $connection->request(GET => '/')->{body}, $pid, 'in one process';
    is $server->stop, 0, 'stopped';
};

subtest 'alarms' => sub {
    my $server = TestServer->start(
        # Compiled when the module is loaded, as it is by the oribi command.
        load    => sub {
            return eval q{
                sub {
                    my ($env) = @_;
                    my ($after, $sleep) = $env->{PATH_INFO} =~ /(\d+)/g;
                    my $rang = 'slept';
                    eval {
                        local $SIG{ALRM} = sub { $rang = 'rang'; die "ring\n" };
                        alarm $after;
                        select undef, undef, undef, $sleep;
                        alarm 0;
                    };
                    return [ 200, [], ["$rang in $$"] ];
                }
            } || die $@;
        },
        options => { threads => 4 },
    );
    my %expected = ('/1/9' => 'rang', '/2/9' => 'rang', '/9/1' => 'slept');
    my %connection;
    for my $path (sort keys %expected) {
        $connection{$path} = $server->connection;
        $connection{$path}->send("GET $path HTTP/1.1\r\nHost: x\r\n\r\n");
        # So that another lane takes the next.
        select undef, undef, undef, 0.1;
    }
    my %process;
    for my $path (sort keys %expected) {
        my ($what, $pid) = $connection{$path}->response('GET')->{body} =~ /(\w+) in (\d+)/;
        is $what, $expected{$path}, "$path: each lane has its own alarm";
        $process{$pid}++;
    }
    is scalar keys %process, 1, 'all in one process';
    is $server->stop, 0, 'which lives';
};

subtest 'EVHTP' => sub {
    forget_notes();
    my $server = TestServer->start(handler => 'EVHTP', app => $app, options => { workers => undef, max_workers => 3 });
    is times_noted('^CLONE$'), 3, 'max_workers is threads';
    is parts($server->get('/'))->{state}, 'loaded';
    is $server->stop, 0;
};

subtest 'a CLONE that dies' => sub {
    my $server = TestServer->start(
        load    => sub { eval q{package Broken; sub CLONE { die "cannot be cloned\n" } 1} or die $@; return $app },
        options => { threads => 2 },
        wait    => 0,
    );
    like $server->log_like(qr/cannot be cloned/), qr/cannot be cloned/, 'says so';
    $server->stop;
    ok 1, 'and the server can be stopped';
};

done_testing;
