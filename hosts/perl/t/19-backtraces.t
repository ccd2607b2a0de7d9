# `oribi ctl backtrace`: where apps are, without their noticing.

use strict;
use warnings;
use lib 't/lib';
use Config;
use File::Temp       ();
use IO::Select       ();
use IO::Socket::UNIX ();
use JSON::PP         ();
use Oribi            ();
use Socket           ();
use Test::More;
use TestServer  ();
use Time::HiRes ();

my $directory = File::Temp->newdir;
my $PATIENCE  = 60;

# Loops end when this file is there, so that nothing is left running.
my $release = "$directory/release";

sub spin { 1 until -e $release; return }
my $spin_line = __LINE__ - 1;

sub deep { my ($level) = @_; return $level ? deep($level - 1) : spin() }
my $deep_line = __LINE__ - 1;


# A name that would clear the screen of a terminal.
{
    no strict 'refs';
    *{"main::evil\e[2J\n"} = eval { require Sub::Util; Sub::Util::set_subname("main::evil\e[2J\n", sub { spin() }) } or die $@;
}

my %app = (
    evil    => sub { no strict 'refs'; &{"main::evil\e[2J\n"}(); return 'evil' },
    pid     => sub { return $$ },
    deep    => sub { deep(2); return 'deep' },
    endless => sub { endless(0); return 'endless' },
    sorts   => sub { my @sorted = sort { spin(); $a <=> $b } 2, 1; return 'sorts' },
    evals   => sub { eval { deep(0) }; return 'evals' },
    strings => sub { eval "#line 7 \"hostile\e]0;name\"\n1 until -e \$release"; return 'strings' },
    sleeps  => sub { leave_number('sleeps'); my $slept = Time::HiRes::sleep(3); return $slept >= 2.99 ? 'whole' : "woke after $slept" },
    selects => sub { leave_number('selects'); my $found = select undef, undef, undef, 3; return $found == 0 ? 'whole' : "select: $found, $!" },
    quick   => sub { my $env = shift; my $sum = 0; $sum += $_ for 1 .. 300; return "$env->{QUERY_STRING} $sum" },
);

# Writes the process ID of this process into a file; the process goes to sleep next.
sub leave_number {
    my ($name) = @_;
    open my $file, '>', "$directory/$name.new" or die "$name: $!";
    print {$file} $$;
    close $file;
    rename "$directory/$name.new", "$directory/$name" or die "$name: $!";
    return;
}

# Whether the process that has written its process ID sleeps.
sub is_asleep {
    my ($name) = @_;
    open my $file, '<', "$directory/$name" or return 0;
    my $pid = readline $file;
    open my $status, '<', "/proc/$pid/stat" or return 0;
    return readline($status) =~ /\) S /;
}

sub endless { my ($level) = @_; no warnings 'recursion'; return $level > 300 ? spin() : endless($level + 1) }

sub app {
    my $env = shift;
    my ($name) = $env->{PATH_INFO} =~ m{(\w+)};
    return [ 200, [], [ $app{$name}->($env) ] ];
}

sub start {
    my (%options) = @_;
    unlink $release;
    return TestServer->start(app => \&app, unix => 1, options => { control => "$directory/control", %options });
}

sub release { open my $file, '>', $release or die "$release: $!"; close $file; return }

sub connect_control { return IO::Socket::UNIX->new(Peer => "$directory/control") || die "control: $!" }

sub answer_of { my ($socket) = @_; return JSON::PP::decode_json(TestServer::within($PATIENCE, sub { scalar readline $socket })) }

# The output of ctl for the workers.
sub ask {
    my ($worker) = @_;
    my $socket = connect_control();
    print {$socket} 'backtrace', defined $worker ? " $worker" : q{}, "\n";
    my $answer = answer_of($socket);
    return $answer->{workers} || die $answer->{error};
}

# Asks until something is true of the answer.
sub ask_until {
    my ($what, $condition, $worker) = @_;
    my $seen;
    my $done = TestServer::wait_for(sub { $seen = ask($worker); $condition->($seen) }, $PATIENCE);
    fail "$what: " . JSON::PP->new->canonical->encode($seen) if !$done;
    return $seen;
}

sub frames { my ($workers) = @_; return map { $_->{frames} ? $_->{frames} : () } map { @{ $_->{threads} } } @$workers }

# A client that waits for its answer in a process of its own.
sub client {
    my ($server, $path) = @_;
    pipe my $read, my $write or die "pipe: $!";
    defined(my $pid = fork) or die "fork: $!";
    if (!$pid) {
        my $body = eval { $server->get($path)->{body} };
        print {$write} defined $body ? $body : "failed: $@";
        close $write;
        POSIX::_exit(0);
    }
    close $write;
    return sub { local $/ = undef; my $body = TestServer::within($PATIENCE, sub { scalar readline $read }); waitpid $pid, 0; return $body };
}

for my $edge (qw(off on)) {
    subtest "--edge $edge: a loop is told with its file, its line and its subs, and goes on" => sub {
        my $server = start(edge => $edge);
        my $pid    = $server->get('/pid')->{body};
        for my $path (qw(/deep /sorts /evals /strings /evil)) {
            my $answer = client($server, "$path?secret");
            # Until it is where it stays.
            my $inside = $path eq '/strings' ? qr/\(eval\)/ : $path eq '/evil' ? qr/::evil/ : qr/::spin/;
            my ($worker) = @{ ask_until($path, sub { my ($there) = frames($_[0]); $there && "@$there" =~ $inside }) };
            my ($frames) = frames([$worker]);
            is_deeply [ @$worker{qw(pid trace)} ], [ $pid, 'told' ], "$path: the worker";
            my ($thread) = grep { $_->{frames} } @{ $worker->{threads} };
            is_deeply [ @$thread{qw(thread request)} ], [ $pid, "GET $path" ], "$path: its thread and request";
            my $told = join "\n", @$frames;
            if ($path eq '/deep') {
                my $file = __FILE__;
                like $told, qr/\A\Q$file\E:$spin_line in main::spin\n(?:\Q$file\E:$deep_line in main::deep\n){3}/, 'its frames';
                like $frames->[-1], qr/\A\Q$file\E:\d+ in main::app\z/, 'up to the app itself';
                is scalar @$frames, 6, 'and nothing else';
            } elsif ($path eq '/strings') {
                like $told, qr/\Ahostile\\x1b\]0;name:7 in \(eval\)\n/, 'a hostile file name is harmless';
            } elsif ($path eq '/evil') {
                like $told, qr/ in main::evil\\x1b\[2J\\n\n/, 'and so is a hostile name';
            } else {
                like $told, qr/in main::spin\n/, 'its frames';
            }
            release();
            is $answer->(), substr($path, 1), "$path: the app goes on";
            unlink $release;
        }
        my $answer = client($server, '/endless');
        my ($frames) = frames(ask_until('endless', sub { grep { @$_ == 100 } frames($_[0]) }));
        is scalar @$frames, 100, 'of endless frames some are told';
        release();
        is $answer->(), 'endless', 'and it goes on';
        $server->stop;
    };

    subtest "--edge $edge: an app that sleeps is not disturbed" => sub {
        my $server = start(edge => $edge, workers => 2);
        unlink "$directory/sleeps", "$directory/selects";
        my @answers = map { client($server, $_) } qw(/sleeps /selects);
        # A question that is on its way when an app goes to sleep wakes it, as any signal does.
        TestServer::wait_for(sub { is_asleep('sleeps') && is_asleep('selects') }, $PATIENCE);
        my $calls = sub { my ($workers) = @_; return grep { $_->{call} && $_->{call} =~ /nanosleep|select/ } map { @{ $_->{threads} } } @$workers };
        my $waiting = sub { my ($workers) = @_; return scalar grep { $_->{trace} eq 'waits' } @$workers };
        my $seen = ask_until('both sleep', sub { $calls->($_[0]) == 2 && $waiting->($_[0]) == 2 });
        is scalar(frames($seen)), 0, 'they were not asked';
        ask() for 1 .. 10;
        is $_->(), 'whole', 'nothing has woken it' for @answers;
        $server->stop;
    };

    subtest "--edge $edge: an idle worker, one that is stopped and one that is killed" => sub {
        my $server = start(edge => $edge, workers => 2);
        my $idle = ask_until('idle', sub { 2 == grep { $_->{trace} eq 'idle' } @{ $_[0] } });
        my $pid = $idle->[0]{pid};
        is_deeply [ map { $_->{number} } @{ ask(2) } ], [2], 'one may be meant by its number';
        is_deeply [ map { $_->{number} } @{ ask($pid) } ], [1], 'or by its process';
        ok !eval { ask(77); 1 }, 'another one is not there';
        kill STOP => $pid;
        my ($stopped) = @{ ask_until('stopped', sub { $_[0][0]{trace} eq 'stopped' }, 1) };
        is $stopped->{threads}[0]{state}, 'stopped', 'the state of its thread is told';
        is scalar @{ ask() }, 2, 'and that of others';
        kill CONT => $pid;
        my $answer = client($server, '/deep');
        my ($busy) = grep { $_->{trace} eq 'told' } @{ ask_until('busy', sub { frames($_[0]) }) };
        my @sockets = map { my $socket = connect_control(); print {$socket} "backtrace\n"; $socket } 1 .. 5;
        kill KILL => $busy->{pid};
        for my $socket (@sockets) {
            my $workers = answer_of($socket)->{workers};
            ok $workers, 'there is an answer';
            is scalar(grep { $_ < 3 } map { scalar @$_ } frames($workers)), 0, 'with whole backtraces';
        }
        ask_until('a replacement', sub { 2 == grep { $_->{pid} != $busy->{pid} && $_->{trace} eq 'idle' } @{ $_[0] } });
        release();
        $answer->();
        $server->stop;
    };

    subtest "--edge $edge: fifty questions under load leave every answer right" => sub {
        my $server = start(edge => $edge, workers => 2);
        my @clients;
        for my $client (1 .. 2) {
            pipe my $read, my $write or die "pipe: $!";
            defined(my $pid = fork) or die "fork: $!";
            if (!$pid) {
                my $right = 0;
                until (-e $release) {
                    my $wanted = "$client-" . rand;
                    my $body = eval { $server->get("/quick?$wanted")->{body} };
                    POSIX::_exit(1) if !defined $body || $body ne "$wanted 45150";
                    syswrite $write, "." if !$right++;
                }
                POSIX::_exit(0);
            }
            push @clients, [ $pid, $read ];
        }
        TestServer::within($PATIENCE, sub { sysread $_->[1], my $byte, 1 }) for @clients;
        is scalar(grep { @{ ask() } == 2 } 1 .. 50), 50, 'each question is answered';
        my @pairs = map { [ map { my $socket = connect_control(); print {$socket} "backtrace\n"; $socket } 1 .. 2 ] } 1 .. 10;
        is scalar(grep { @{ answer_of($_)->{workers} } == 2 } map {@$_} @pairs), 20, 'those of many clients at once, too';
        release();
        for my $client (@clients) {
            waitpid $client->[0], 0;
            is $?, 0, 'a client got what it had asked for';
        }
        $server->stop;
    };

    next if !$Config{useithreads};
    subtest "--edge $edge: threads tell each for itself" => sub {
        my $server = start(edge => $edge, threads => 3);
        my @answers = map { client($server, $_) } qw(/deep /sorts);
        my ($worker) = @{ ask_until('two', sub { frames($_[0]) == 2 && $_[0][0]{trace} eq 'told' }) };
        my %frames = map { $_->{request} => join "\n", @{ $_->{frames} } } grep { $_->{frames} } @{ $worker->{threads} };
        is_deeply [ sort keys %frames ], [ 'GET /deep', 'GET /sorts' ], 'their requests';
        is scalar(grep {/\A\S+:$spin_line in main::spin\n/} values %frames), 2, 'where they are';
        release();
        is_deeply [ map { $_->() } @answers ], [qw(deep sorts)], 'and they go on';
        $server->stop;
    };
}

done_testing;
