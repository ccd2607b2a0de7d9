# How a worker ends normally: END blocks, destructors, buffers and temporary files, each once; and the environment of a clone's
# children.

use strict;
use warnings;
use lib 't/lib';
use File::Temp     ();
use Notes;
use Oribi::Options ();
use POSIX          ();
use Test::More;
use TestServer     ();

my $directory = File::Temp->newdir;

package Noting {
    sub new { my ($class, $name) = @_; return bless { name => $name, pid => $$ }, $class }
    sub DESTROY { my ($self) = @_; main::note_down("destroyed $self->{name} of $self->{pid} in $$") }
}

package main;

# The test's own process has none of these, so they are made in the worker.
my $load = sub {
    return eval q{
        our ($global, $buffered, $temporary);
        END { main::note_down("END in $$") }
        sub {
            my ($env) = @_;
            if (!$global) {
                $global = Noting->new('global');
                open $buffered, '>>', "$directory/buffered" or die $!;
                print {$buffered} "buffered\n";
                $temporary = File::Temp->new(DIR => "$directory", SUFFIX => '.tmp');
                print {$temporary} 'kept';
            }
            exit 0 if $env->{PATH_INFO} eq '/exit';
            if ($env->{PATH_INFO} eq '/fork') {
                my $child = fork // die $!;
                POSIX::_exit(0) if !$child;
                waitpid $child, 0;
            }
            [ 200, [], [$$] ];
        };
    } || die $@;
};

my %way = (
    TERM => sub { my ($server) = @_; $server->stop },
    QUIT => sub { my ($server) = @_; $server->stop('QUIT') },
    HUP  => sub { my ($server) = @_; kill HUP => $server->pid },
    recycled => sub { my ($server) = @_; $server->get('/') for 1 .. 3 },
    exit => sub { my ($server) = @_; $server->get('/exit') },
);
for my $threads (1, 2) {
    next if $threads > 1 && !Oribi::Options::has_threads();
    for my $way (sort keys %way) {
        # An interpreter of many is replaced without its process: then the server is stopped.
        next if $threads > 1 && $way =~ /recycled|exit/;
        my $label = "$way, threads: $threads";
        forget_notes();
        unlink glob "$directory/*";
        my $server = TestServer->start(load => $load, options => { threads => $threads, $way eq 'recycled' ? (max_requests => 3) : () });
        my $pid = $server->get('/fork')->{body};
        $way{$way}->($server);
        ok TestServer::wait_for(sub { !kill 0 => $pid }), "$label: the worker ends";
        is scalar(() = noted() =~ /^END in $pid$/mg), 1, "$label: END runs once in the worker";
        is scalar(() = noted() =~ /^destroyed global of $pid in $pid$/mg), 1, "$label: a global is destroyed once";
        my $text = do { local @ARGV = "$directory/buffered"; local $/; readline };
        like $text, qr/\A(?:buffered\n)+\z/, "$label: what was buffered is written";
        $server->stop;
        is_deeply [ glob "$directory/*.tmp" ], [], "$label: temporary files are removed";
    }
}

SKIP: {
    skip 'this perl has no threads', 1 if !Oribi::Options::has_threads();
    local $ENV{ORIBI_TEST_LOADED} = 'as loaded';
    my $server = TestServer->start(
        options => { threads => 2 },
        app     => sub {
            my ($env) = @_;
            my ($way) = $env->{PATH_INFO} =~ m{/(\w+)};
            local $ENV{ORIBI_TEST} = "set for $way";
            my $command = 'echo "$ORIBI_TEST, $ORIBI_TEST_LOADED"';
            my $text;
            if ($way eq 'backticks') {
                $text = qx($command);
            } elsif ($way eq 'pipe') {
                open my $pipe, '-|', 'sh', '-c', $command or die $!;
                $text = readline $pipe;
            } elsif ($way eq 'open3') {
                require IPC::Open3;
                my $pid = IPC::Open3::open3(my $to, my $from, undef, 'sh', '-c', $command);
                $text = readline $from;
                waitpid $pid, 0;
            } elsif ($way eq 'system') {
                system 'sh', '-c', "$command > $directory/system";
                open my $handle, '<', "$directory/system" or die $!;
                $text = readline $handle;
            } elsif ($way eq 'fork') {
                pipe my $reader, my $writer or die $!;
                my $pid = fork // die $!;
                if (!$pid) {
                    open STDOUT, '>&', $writer;
                    %ENV = (%ENV, ORIBI_TEST => 'set in the child');
                    exec 'sh', '-c', $command or POSIX::_exit(1);
                }
                close $writer;
                $text = readline $reader;
                waitpid $pid, 0;
            } elsif ($way eq 'cleared') {
                local %ENV = (PATH => $ENV{PATH}, ORIBI_TEST_LOADED => 'changed');
                $text = qx($command);
            }
            return [ 200, [], [$text] ];
        },
    );
    for my $way (qw(backticks pipe open3 system)) {
        is $server->get("/$way")->{body}, "set for $way, as loaded\n", "a child of a clone by $way has its environment";
    }
    is $server->get('/fork')->{body}, "set in the child, as loaded\n", 'and one that changes it before it executes a program';
    is $server->get('/cleared')->{body}, ", changed\n", 'and one without what was loaded';
    is $server->stop, 0, 'stopped';
}

done_testing;
