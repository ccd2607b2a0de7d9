# Apps that take too long: their position is logged, they are interrupted wherever that is possible, and they can set their own
# deadlines.

use strict;
use warnings;
use lib 't/lib';
use Config;
use Oribi          ();
use File::Temp     ();
use IO::Socket::INET ();
use Notes;
use OverHTTP2      ();
use POSIX          ();
use Socket         ();
use Test::More;
use TestServer     ();
use Time::HiRes    ();

# `sleep` is Oribi's in code that is compiled after Oribi was loaded, as by `oribi`.
my $long = 600;
our $global = 'global';

package Guard {
    sub new { my ($class, $code) = @_; return bless { code => $code }, $class }
    sub DESTROY { $_[0]{code}->() }
}

sub silent_peer {
    socketpair my $here, my $there, Socket::AF_UNIX, Socket::SOCK_STREAM, 0 or die "socketpair: $!";
    return ($here, $there);
}

sub deep { my ($level) = @_; return $level ? deep($level - 1) : sleep $long }

my $kept;
my %app = (
    pid      => sub { [ 200, [], [$$] ] },
    loop     => sub { 1 while 1; },
    straight => sub { sleep $long; [ 200, [], ['slept'] ] },
    deep     => sub { deep(3); [ 200, [], ['slept'] ] },
    select   => sub { select undef, undef, undef, $long; 1 while 1 },
    hires    => sub { Time::HiRes::sleep($long) while 1 },
    readline => sub { my ($here, $there) = silent_peer(); my $line = <$here>; [ 200, [], ['read'] ] },
    sysread  => sub { my ($here, $there) = silent_peer(); sysread $here, my $bytes, 1 or die "sysread: $!\n"; [ 200, [], ['read'] ] },
    recv     => sub { my ($here, $there) = silent_peer(); while (1) { recv $here, my $bytes, 1, 0 } },
    child    => sub { system 'sleep', $long; 1 while 1 },
    matches  => sub { my $found; while (1) { $found = ('a' x 20) =~ /(a+)*b/ } },
    sorts    => sub { my @sorted = sort { 1 while 1 } 1, 2 },
    catches  => sub {
        my $done  = eval { sleep $long; 1 };
        my $error = $@;
        note_down($done ? 'slept' : join '|', 'caught', ref $error, "$error", $error->seconds, $global);
        return [ 200, [], ['caught'] ];
    },
    nested => sub {
        local $global = 'local';
        eval { eval { local $global = 'inner'; sleep $long }; die "outer: $@" };
        note_down("nested: $global: $@");
        return [ 200, [], ['nested'] ];
    },
    sleep_two => sub { my $slept = sleep 2; [ 200, [], [ $slept >= 2 ? 'slept' : "woke after $slept" ] ] },
    has => sub { my $env = shift; [ 200, [], [ exists $env->{'oribi.deadline'} ? 'there' : 'not there' ] ] },
    local_gone => sub { [ 200, [], [$global] ] },
    dying_hook => sub { local $SIG{__DIE__} = sub { note_down("hook: $_[0]") }; sleep $long },
    swallows => sub { while (1) { eval { sleep $long } } },
    guards   => sub { my $guard = Guard->new(sub { note_down("destroyed: " . (defined $$ ? 'yes' : 'no')) }); sleep $long },
    destroy  => sub { { my $guard = Guard->new(sub { sleep $long; note_down('never') }) } note_down('after'); [ 200, [], ['after'] ] },
    destroy_quick => sub {
        my $end = time + 15;
        while (time < $end) { my $guard = Guard->new(sub { select undef, undef, undef, 0.05 }) }
        return [ 200, [], ['15 seconds'] ];
    },
    streams => sub {
        return sub { my $writer = $_[0]->([ 200, [] ]); $writer->write('begun'); sleep $long; $writer->close };
    },
    responder => sub { return sub { sleep $long } },
    body     => sub { [ 200, [], bless {}, 'SleepyBody' ] },
    closes   => sub { [ 200, [], bless { left => 1 }, 'StuckBody' ] },
    kept     => sub { return sub { $kept = shift; sleep $long } },
    extends  => sub { my $env = shift; $env->{'oribi.deadline'}->(5); sleep 2; [ 200, [], ['slept'] ] },
    shortens => sub { my $env = shift; $env->{'oribi.deadline'}->(0.5); sleep $long; [ 200, [], ['slept'] ] },
    lifts    => sub { my $env = shift; $env->{'oribi.deadline'}->(undef); sleep 2; [ 200, [], ['slept'] ] },
    bad      => sub { my $env = shift; $env->{'oribi.deadline'}->(-1) },
    forks    => sub {
        my $pid = fork;
        if (!$pid) { sleep 2; note_down("the child slept"); require POSIX; POSIX::_exit(0) }
        waitpid $pid, 0;
        sleep $long;
    },
    about    => sub { Time::HiRes::sleep(0.75 + rand 0.2); [ 200, [], ['about'] ] },
    about_busy => sub { my $end = Time::HiRes::time() + 0.75 + rand 0.2; 1 while Time::HiRes::time() < $end; [ 200, [], ['about'] ] },
    quick    => sub { my $x = 0; $x += $_ for 1 .. 1000; [ 200, [], ['quick'] ] },
);
{
    package SleepyBody;
    sub getline { sleep $long }
    sub close { main::note_down('closed') }
}

{
    package StuckBody;
    sub getline { return $_[0]{left}-- > 0 ? 'all of it' : undef }
    sub close { while (1) { eval { sleep $long } } }
}

sub app { my $env = shift; my ($name) = $env->{PATH_INFO} =~ m{(\w+)}; return $app{$name}->($env) }

# Both shapes of the processes: different ones keep the deadlines, and the apps see no difference.
my $edge;

sub start { my (@options) = @_; forget_notes(); return TestServer->start(app => \&app, unix => 1, options => { edge => $edge, @options }) }

sub pid_of { return $_[0]->get('/pid')->{body} }

my @deadlines = (request_warning => '200ms', request_timeout => '800ms', request_kill => '3s');

# Most of the time is waiting, so the groups run at the same time, each in a process of its own that writes its results down.
my %group = ('where it is' => \&interrupts, 'what comes of it' => \&follows);
my @runs;
for my $shape (qw(off on)) {
    for my $name (sort keys %group) {
        my $results = File::Temp->new;
        defined(my $pid = fork) or die "fork: $!";
        push @runs, { name => "--edge $shape, $name", pid => $pid, results => $results };
        next if $pid;
        $edge = $shape;
        take_own_notes();
        my $builder = Test::More->builder;
        $builder->$_($results) for qw(output failure_output todo_output);
        my $well = eval { $group{$name}->(); 1 };
        fail("it died: $@") if !$well;
        done_testing;
        $results->flush;
        POSIX::_exit($builder->is_passing ? 0 : 1);
    }
}
for my $run (@runs) {
    waitpid $run->{pid}, 0;
    my $status = $?;
    # Its lines are those of a subtest.
    open my $lines, '<', $run->{results}->filename or die "its results: $!";
    print {*STDOUT} map {"    $_"} <$lines>;
    is $status, 0, $run->{name};
}
done_testing;

sub interrupts {
    subtest 'an app is interrupted wherever it is, and its worker goes on' => sub {
        my $server = start(@deadlines);
        my $pid    = pid_of($server);
        for my $name (qw(loop straight deep select hires readline sysread recv matches sorts responder guards dying_hook)) {
            is $server->get("/$name")->{status}, 504, $name;
            is pid_of($server), $pid, 'the same worker';
            my $death = qr{GET /$name: the app died: oribi: the request took longer than 0\.8 s at \S*18-deadlines\.t line \d+};
            like $server->log_like($death), $death, 'the log says it';
        }
        my $call = qr{, in main::deep at \S+18-deadlines\.t line \d+};
        like $server->log_text, qr{the app has done nothing for 0\.8 s and is interrupted at \S+18-deadlines\.t line \d+$call$call},
            'with a backtrace';
        like $server->log_text, qr{is interrupted at .*, in main::app$}m, 'that ends with the app';
        like noted_like(qr/destroyed: yes/), qr/destroyed: yes/, 'what the app held is destroyed';
        like noted_like(qr/hook: /), qr/hook: oribi: the request took longer/, 'die hooks are called';
        is $server->stop, 0, 'it stops as ever';
    };

    subtest 'a warning tells where the app is, and disturbs nothing' => sub {
        my $server = start(request_warning => '300ms');
        is $server->get('/sleep_two')->{body}, 'slept', 'sleep lasts as long as it should';
        like $server->log_text, qr{GET /sleep_two: the app has done nothing for 0\.3 s and goes on at \S+ line \d+, in main::}, 'the log tells where';
        unlike $server->log_text, qr/is interrupted|the app died/, 'nothing else happens';
    };

}

sub follows {
    subtest 'eval catches it like any exception' => sub {
        my $server = start(@deadlines);
        # An edge has answered before the app does.
        is $server->get('/catches')->{status}, $edge eq 'on' ? 504 : 200, 'what the app answers then';
        my $caught = qr{^caught\|Oribi::RequestTimeout\|oribi: the request took longer than 0\.8 s at \S+ line \d+\.\n\|0\.8\|global$}m;
        like noted_like($caught), $caught, 'an object that is a text';
        is $server->get('/nested')->{status}, $edge eq 'on' ? 504 : 200, 'and nested';
        my $nested = qr{^nested: local: outer: oribi: the request took longer than 0\.8 s}m;
        like noted_like($nested), $nested, 'the outer one sees what the inner one made of it';
        is $server->get('/local_gone')->{body}, 'global', 'local values are restored';
    };

    subtest 'an app that goes on all the same loses its worker' => sub {
        my $server = start(@deadlines);
        my $pid    = pid_of($server);
        # Without an edge the connection ends with the worker, for which the proxy answers with 502.
        is $server->get('/swallows')->{status}, $edge eq 'on' ? 504 : OverHTTP2::is_on() ? 502 : 0, 'the client';
        my $end = $edge eq 'on' ? qr{worker $pid and does not stop: the worker is killed} : qr{worker 1 \(pid $pid\) is stopped: its app has done};
        like $server->log_like($end), $end, 'the worker is ended';
        isnt pid_of($server), $pid, 'another worker serves';
        my $count = () = $server->log_text =~ /the app has done nothing for \S+ s and is interrupted at/g;
        is $count, 1, 'it was told once';
    };

    subtest 'destructors' => sub {
        my $server = start(@deadlines);
        is $server->get('/destroy')->{status}, 504, 'one that does not end is left, and what called it is, too';
        unlike noted(), qr/never|after/, 'so neither goes on';
        is $server->get('/destroy_quick')->{status}, 504, 'one that is left does not keep the exception from the app';
    };

    subtest 'a response that has begun' => sub {
        my $server = start(@deadlines);
        my $pid    = pid_of($server);
        my $answer = $server->get('/streams');
        ok !$answer->{whole}, 'is cut';
        is $answer->{body}, 'begun', 'after what was sent';
        # Nothing is sent before its first piece.
        is $server->get('/body')->{status}, 504, 'a body that is an object and has sent nothing is late';
        like noted_like(qr/closed/), qr/closed/, 'is closed nevertheless';
        is pid_of($server), $pid, 'the worker goes on';
    };

    subtest 'a body that does not end when it is closed' => sub {
        my $server = start(request_warning => '200ms', request_kill => '1s');
        my $pid    = pid_of($server);
        my $answer = $server->get('/closes');
        is $answer->{status}, 200,         'its client has the response';
        is $answer->{body},   'all of it', 'as soon as it is complete';
        like $server->log_like(qr{GET /closes: the app has done nothing for 0\.2 s and goes on at \S+ line \d+}), qr{GET /closes: .* in StuckBody::close},
            'the log tells where the app is';
        my $end = qr{worker 1 \(pid $pid\) is stopped: its app has done nothing for 1 s: GET /closes};
        like $server->log_like($end), $end, 'its worker is ended';
        isnt pid_of($server), $pid, 'another one serves';
    };

    subtest 'deadlines of an app' => sub {
        my $server = start(@deadlines);
        is $server->get('/extends')->{body}, 'slept', 'extended';
        is $server->get('/lifts')->{body},   'slept', 'lifted';
        is $server->get('/shortens')->{status}, 504, 'shortened';
        like $server->log_like(qr/longer than/), qr/longer than 0\.5 s/, 'the message says which';
        is $server->get('/bad')->{status}, 500, 'a number below 0';
        like $server->log_like(qr/a deadline is/), qr/a deadline is a number of seconds above 0/, 'is explained';
        is $server->get('/straight')->{status}, 504, 'the next request has the deadline of the server';
        $server->stop;
        is start()->get('/has')->{body}, 'not there', 'without deadlines there is no key';
        is start(@deadlines)->get('/has')->{body}, 'there', 'with deadlines there is';
    };

    subtest 'a child that the app has forked is none of it' => sub {
        my $server = start(@deadlines);
        is $server->get('/forks')->{status}, 504, 'the app is interrupted';
        ok TestServer::wait_for(sub { noted() =~ /the child slept/ }), 'its child is not';
    };

    subtest 'an order reaches no other request' => sub {
        my $server = start(@deadlines, request_kill => '20s');
        my $pid    = pid_of($server);
        my %seen;
        for my $round (1 .. 8) {
            my $name = $round % 2 ? 'about' : 'about_busy';
            $seen{ $server->get("/$name")->{status} }++;
            is $server->get('/quick')->{status}, 200, 'the next request is answered';
        }
        note explain \%seen;
        is $seen{200} + ($seen{504} || 0), 8, 'each was answered in one of the two ways';
        is pid_of($server), $pid, 'by the same worker';
    };

    subtest 'with threads the right one is interrupted' => sub {
        plan skip_all => 'this perl has no threads' if !$Config{useithreads};
        my $server = start(@deadlines, threads => 4);
        my @connections = map { $server->connection } 1 .. 4;
        $connections[$_]->send('GET ' . ($_ % 2 ? '/lifts' : '/straight') . " HTTP/1.1\r\nHost: localhost\r\n\r\n") for 0 .. 3;
        my @statuses = map { $_->response->{status} } @connections;
        is_deeply \@statuses, [ 504, 200, 504, 200 ];
        is $server->stop, 0;
    };
}
