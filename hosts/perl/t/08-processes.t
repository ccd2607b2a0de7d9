# exit, fork, signals, hooks: the actions of an app on its process, and the order of calls.

use strict;
use warnings;
use lib 't/lib';
use Notes;
use Oribi::Options ();
use OverHTTP2  ();
use POSIX      ();
use Test::More;
use TestServer ();

package Guard {
    sub DESTROY { main::note_down("guard of $$ gone in phase ${^GLOBAL_PHASE}") }
}

# Bodies whose methods fork.
package Forking {
    sub new { my ($class, %how) = @_; return bless {%how}, $class }
    sub getline { my ($self) = @_; return if $self->{done}++; return $self->{getline} ? main::child($self->{getline}) : 'text' }
    sub close { my ($self) = @_; main::note_down('close ' . main::child($self->{close})) if $self->{close}; return }
}

package Forking::Text {
    use overload q{""} => sub { main::child($_[0][0]) }, fallback => 1;
}

package main;

our $in_child;

# Actions of a child, and the exit status with which perl itself ends a program after the same action.
my %ending = (
    die    => [ sub { $! = 0; $? = 0; die "dies in the child\n" },          255, 'dies in the child' ],
    object => [ sub { $! = 0; $? = 0; die bless [], 'Excuse' },            255, 'an excuse of the child' ],
    wide   => [ sub { $! = 0; $? = 0; die "smiles \x{263a} in the child\n" }, 255, "smiles \xe2\x98\xba in the child" ],
    exec   => [ sub { no warnings 'exec'; exec '/nonexistent/program' or die "cannot exec: $!\n" }, 2, 'cannot exec: No such file' ],
    status => [ sub { $! = 0; $? = 768; die "after a child with 3\n" },     3,   'after a child with 3' ],
    exit   => [ sub { exit 3 },                                            3 ],
    end    => [ sub { $in_child = 1; exit 9 },                               7, 'END with 9' ],
);
END {
    if ($in_child) { print {*STDERR} "END with $?\n"; $? = 7 }
}

package Excuse {
    use overload q{""} => sub { "an excuse of the child\n" }, fallback => 1;
}

package main;

# Forks a child that ends in this way; how it has ended.
sub child {
    my ($how) = @_;
    my $pid = fork // die "fork: $!";
    $ending{$how}[0]->() if !$pid;
    waitpid $pid, 0;
    return "$how ended with " . ($? >> 8);
}

my %return = (
    pid       => sub { [ 200, [], [$$] ] },
    exit      => sub { exit 3 },
    exit_deep => sub { local $SIG{ALRM} = sub { }; my @list = map { exit 4 } 1 .. 3; [ 200, [], [] ] },
    exit_eval => sub { eval { exit 5 }; [ 200, [], [] ] },
    exit_stream => sub { sub { my $writer = $_[0]->([ 200, [] ]); $writer->write('part'); exit 6 } },
    exit_cleanup => sub { push @{ $_[0]{'psgix.cleanup.handlers'} }, sub { exit 7 }; [ 200, [], ['answered'] ] },
    posix_exit => sub { POSIX::_exit(8) },
    fork_exit => sub {
        my $pid = fork // die "fork: $!";
        exit 9 if !$pid;
        waitpid $pid, 0;
        [ 200, [], [ 'child ended with ' . ($? >> 8) ] ];
    },
    fork_die => sub {
        my $pid = fork // die "fork: $!";
        die "in the child\n" if !$pid;
        waitpid $pid, 0;
        [ 200, [], ['parent goes on'] ];
    },
    fork_fails => sub { my ($env) = @_; [ 200, [], [ child($env->{QUERY_STRING}) ] ] },
    fork_fails_stream => sub { my ($env) = @_; sub { my $ended = child($env->{QUERY_STRING}); $_[0]->([ 200, [], [$ended] ]) } },
    fork_fails_getline => sub { my ($env) = @_; [ 200, [], Forking->new(getline => $env->{QUERY_STRING}) ] },
    fork_fails_close => sub { my ($env) = @_; [ 200, [], Forking->new(close => $env->{QUERY_STRING}) ] },
    fork_fails_string => sub { my ($env) = @_; [ 200, [], [ bless [ $env->{QUERY_STRING} ], 'Forking::Text' ] ] },
    fork_fails_cleanup => sub {
        my ($env) = @_;
        push @{ $env->{'psgix.cleanup.handlers'} }, sub { note_down('cleanup ' . child($env->{QUERY_STRING})) };
        [ 200, [], ['ok'] ];
    },
    fork_fails_signal => sub {
        my ($env) = @_;
        my $how = $env->{QUERY_STRING};
        $SIG{USR2} = sub { note_down('signal ' . child($how)) };
        [ 200, [], [$$] ];
    },
    fork_return => sub {
        my $pid = fork // die "fork: $!";
        return [ 200, [], ['from the child'] ] if !$pid;
        waitpid $pid, 0;
        [ 200, [], ['from the parent'] ];
    },
    fork_stream => sub {
        sub {
            my $writer = $_[0]->([ 200, [] ]);
            $writer->write('a');
            my $pid = fork // die "fork: $!";
            if (!$pid) {
                eval { $writer->write('child') };
                note_down("in the child: $@");
                exit 0;
            }
            waitpid $pid, 0;
            $writer->write('b');
            $writer->close;
        };
    },
    fork_sleep => sub {
        my $pid = fork // die "fork: $!";
        if (!$pid) { sleep 600; POSIX::_exit(0) }
        [ 200, [], ["$pid $$"] ];
    },
    fork_wait => sub { wait; [ 200, [], [ 'signal ' . ($? & 127) ] ] },
    fork_exec => sub { my $text = qx(echo from a program); [ 200, [], [$text] ] },
    system    => sub { system 'exit 3;'; [ 200, [], [ $? >> 8 ] ] },
    sleeps    => sub { select undef, undef, undef, 1; [ 200, [], ['slept'] ] },
    local_term => sub { { local $SIG{TERM} = sub { note_down('local TERM') }; kill TERM => $$; } [ 200, [], ["$$"] ] },
    reset_signals => sub { $SIG{$_} = 'DEFAULT' for qw(TERM INT QUIT HUP CHLD PIPE); delete $SIG{USR1}; [ 200, [], [$$] ] },
    ignore_pipe => sub {
        { local $SIG{PIPE} = 'IGNORE' }
        pipe my $reader, my $writer;
        close $reader;
        my $written = syswrite $writer, 'x';
        [ 200, [], [ defined $written ? 'written' : 'not written' ] ];
    },
    random  => sub { [ 200, [], [ rand ] ] },
    alarm   => sub { my $rang = 0; local $SIG{ALRM} = sub { $rang = 1; die "ring\n" }; alarm 1; eval { select undef, undef, undef, 5 }; [ 200, [], ["rang $rang"] ] },
    child_signal => sub { local $SIG{CHLD} = 'IGNORE'; system 'true'; [ 200, [], ['ok'] ] },
);

my $app = sub { my ($env) = @_; my ($name) = $env->{PATH_INFO} =~ m{/(\w+)}; return $return{$name}->($env) };

sub worker_pid { my ($server) = @_; return $server->get('/pid')->{body} }

for my $threads (1, 2) {
    next if $threads > 1 && !Oribi::Options::has_threads();
    my $label  = $threads > 1 ? 'threads' : 'a worker';
    my $server = TestServer->start(app => $app, options => { threads => $threads });
    my $get    = sub { $server->get("/$_[0]") };

    for my $way (qw(exit exit_deep exit_eval)) {
        subtest "$label: $way" => sub {
            my $before = worker_pid($server);
            my $other  = $server->connection;
            is $other->request(GET => '/pid')->{status}, 200;
            is $get->($way)->{status}, 500, 'the client gets a 500';
            like $server->log_like(qr/exit\(\d\)/), qr/the app called exit\([345]\); its interpreter is replaced/, 'the log says why';
            my $next = $other->request(GET => '/pid');
            ok $next->{status} == 200 || $next->{status} == 0, 'another connection is answered, or closed' or diag $next->{status};
            ok TestServer::wait_for(sub { my $now = worker_pid($server); $threads > 1 ? $now eq $before : $now =~ /\d/ && $now ne $before }),
                $threads > 1 ? 'the process stays' : 'another process answers';
        };
    }
    subtest "$label: exit elsewhere" => sub {
        my $response = $get->('exit_stream');
        OverHTTP2::is_cut($response->{body}, 'part', 'what was sent');
        ok !$response->{whole}, 'exit in a stream cuts the response';
        TestServer::wait_for(sub { worker_pid($server) =~ /\d/ });
        is $get->('exit_cleanup')->{body}, 'answered', 'exit in cleanup comes after the answer';
        like $server->log_like(qr/exit\(7\)/), qr/exit\(7\)/;
        ok TestServer::wait_for(sub { worker_pid($server) =~ /\d/ }), 'the server goes on';
    };
    subtest "$label: forks" => sub {
        is $get->('fork_exit')->{body},   'child ended with 9', 'a child may exit';
        is $get->('fork_die')->{body},    'parent goes on',     'or die';
        for my $how (sort keys %ending) {
            # END blocks belong to the process, not to a thread.
            next if $how eq 'end' && $threads > 1;
            my (undef, $status, $message) = @{ $ending{$how} };
            my $ended = "$how ended with $status";
            for my $site ('fork_fails', 'fork_fails_stream', 'fork_fails_getline', 'fork_fails_string') {
                my $response = $server->get("/$site?$how");
                is $response->{body}, $ended, "$site: a child that ends by $how has the status of perl";
                ok $response->{whole};
            }
            $server->get("/fork_fails_$_?$how") for qw(close cleanup);
            like noted_like(qr/^$_ $ended/m), qr/^$_ $ended/m, "$_: and there" for qw(close cleanup);
            if ($threads == 1) {
                my $worker = $server->get("/fork_fails_signal?$how")->{body};
                kill USR2 => $worker;
                like noted_like(qr/^signal $ended/m), qr/^signal $ended/m, 'signal: and there';
            }
            like $server->log_like(qr/^\Q$message\E/m), qr/^\Q$message\E/m, "$how: its message is that of perl" if $message;
        }
        is $get->('fork_return')->{body}, 'from the parent',    'a child that returns does not answer';
        my $response = $get->('fork_stream');
        is $response->{body}, 'ab', 'nor does one that writes';
        ok $response->{whole};
        like noted_like(qr/in the child/), qr/in the child: a response can only be given by the process that received the request/;
        for my $signal (qw(TERM QUIT INT HUP)) {
            my ($child, $worker) = split ' ', $get->('fork_sleep')->{body};
            kill $signal => $child;
            is $get->('fork_wait')->{body}, 'signal ' . POSIX->can("SIG$signal")->(), "$signal ends a child";
            is worker_pid($server), $worker, 'and not its worker';
        }
        is $get->('fork_exec')->{body}, "from a program\n", 'programs';
        is $get->('system')->{body},    3,                  'and their status';
    };
    subtest "$label: signals" => sub {
        is $get->('alarm')->{body}, 'rang 1', 'alarms ring';
        is $get->('child_signal')->{body}, 'ok';
        like $get->('local_term')->{body}, qr/\d/, 'TERM that the app catches';
        like noted_like(qr/local TERM/), qr/local TERM/, 'is the app\'s';
        is $get->('ignore_pipe')->{body}, 'not written', 'a broken pipe kills nobody, also after `local $SIG{PIPE}`';
        my $pid = $get->('reset_signals')->{body};
        # The worker's own TERM handler finishes what is running; the default action would cut it.
        my $connection = $server->connection;
        $connection->send("GET /sleeps HTTP/1.1\r\nHost: x\r\n\r\n");
        select undef, undef, undef, 0.3;
        kill TERM => $pid;
        is $connection->response('GET')->{body}, 'slept', 'after the app reset them, the server\'s handlers are back';
        ok TestServer::wait_for(sub { my $now = worker_pid($server); $now =~ /\d/ && $now ne $pid }), 'and another worker comes';
    };
    is $server->stop, 0, "$label: stopped";
}

subtest 'random numbers' => sub {
    srand 42;
    for my $options ({ workers => 4 }, { threads => 4 }) {
        next if $options->{threads} && !Oribi::Options::has_threads();
        my $server = TestServer->start(app => $app, options => $options);
        my %seen;
        my @connections = map { $server->connection } 1 .. 12;
        $_->send("GET /random HTTP/1.1\r\nHost: x\r\n\r\n") for @connections;
        $seen{ $_->response('GET')->{body} }++ for @connections;
        is scalar keys %seen, 12, 'no two interpreters draw the same';
    }
};

subtest 'hooks' => sub {
    forget_notes();
    my $guard;
    my $server = TestServer->start(
        load => sub {
            $guard = bless {}, 'Guard';
            eval q{END { note_down("END in $$") } 1} or die $@;
            return $app;
        },
        options => {
            workers      => 2,
            server_ready => sub { note_down("ready in $$ on port $_[0]{port}") },
            before_fork  => sub { note_down("before $_[0] in $$") },
            after_fork   => sub { note_down("after $_[0] in $$") },
            child_exit   => 'sub { main::note_down("exit $_[0] in $$") }',
        },
    );
    my $main = $server->pid;
    TestServer::wait_for(sub { noted() =~ /after 1/ && noted() =~ /after 2/ });
    is $server->stop, 0;
    my $notes = noted();
    my ($first)  = $notes =~ /^after 1 in (\d+)$/m;
    my ($second) = $notes =~ /^after 2 in (\d+)$/m;
    like $notes, qr/^before $_ in $main$/m, 'before_fork where the app was loaded' for 1, 2;
    like $notes, qr/^ready in $main on port @{[ $server->port ]}$/m, 'server_ready there too';
    isnt $first, $second, 'after_fork in each worker';
    for my $pid ($first, $second) {
        like $notes, qr/^exit \d in $pid$/m, 'child_exit in the worker';
        is scalar(() = $notes =~ /^END in $pid$/mg), 1, 'END blocks run once';
        like $notes, qr/^guard of $pid gone/m, 'objects are destroyed';
        ok index($notes, "END in $pid") > index($notes, " in $pid\n"), 'in that order';
    }
};

subtest 'hooks that fail' => sub {
    my $server = TestServer->start(
        app     => $app,
        options => { after_fork => sub { die "no luck\n" }, child_exit => sub { die "no luck either\n" } },
    );
    like $server->get('/pid')->{body}, qr/\d/, 'the server serves';
    is $server->stop, 0;
    like $server->log_text, qr/the after_fork hook died: no luck/;
    like $server->log_text, qr/the child_exit hook died: no luck either/;
};

subtest 'titles' => sub {
    my $titled = TestServer->start(
        app     => sub { [ 200, [], [$0] ] },
        options => { workers => 1, 'app-name' => 'shop.psgi' }
    );
    is $titled->get('/')->{body}, 'oribi: worker 1 shop.psgi', 'a worker says what it is';
    is $titled->stop, 0;
    for my $threads (1, Oribi::Options::has_threads() ? 2 : ()) {
        # With an edge, a request that is not complete keeps no worker.
        my %options = (workers => 1, threads => $threads, app_name => 'shop.psgi', edge => 'off');
        $titled = TestServer->start(app => sub { [ 200, [], [$$] ] }, options => \%options);
        my $pid     = $titled->get('/')->{body};
        my $command = sub { open my $file, '<', "/proc/$pid/cmdline" or return q{}; return scalar readline $file };
        # A request that has begun keeps the worker.
        my $client  = $titled->connection;
        $client->send("GET / HTTP/1.1\r\n");
        kill TERM => $titled->pid;
        ok TestServer::wait_for(sub { $command->() =~ /shop\.psgi \(retiring\)/ }), "threads: $threads: and that it retires";
        $client->send("Host: a\r\n\r\n");
        is $client->response('GET')->{body}, $pid, 'but for this request';
        is $titled->wait_end, 0;
    }
    for my $off (0, 'off') {
        $titled = TestServer->start(app => sub { [ 200, [], [$0] ] }, options => { workers => 1, proctitle => $off });
        unlike $titled->get('/')->{body}, qr/worker/, "unless it is told not to by $off, as plackup says --disable-proctitle";
        is $titled->stop, 0;
    }
};

done_testing;
