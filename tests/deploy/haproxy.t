#!/usr/bin/perl
# Property: behind haproxy with deploy/haproxy.cfg, clients that try nothing twice lose no request when the server of one of
# three machines stops, loads its app again or is upgraded. When it is killed, they lose at most the POST requests that it had
# begun, and no POST is run twice. Each machine is a network namespace; needs root.

use v5.36;
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/../lib";
use IO::Socket::UNIX ();
use POSIX ();
use Test::Command qw(run);
use Test::Files qw(append_file content_of);
use Test::More;
use Test::Oribi;
use Time::HiRes qw(sleep time);

# The namespaces begin here, and everything in them ends with this process, however it ends.
if (!$ENV{ORIBI_TEST_MACHINES}) {
    local $ENV{ORIBI_TEST_MACHINES} = 'here';
    my @unshare = qw(unshare --mount --net --pid --fork --kill-child --mount-proc);
    exec @unshare, $^X, $0, @ARGV or die "unshare: $!";
}

my %address = (haproxy => '10.0.0.10', a => '10.0.0.11', b => '10.0.0.12', c => '10.0.0.13');
my $CLIENTS = 16;
my $file    = "$FindBin::Bin/../../deploy/haproxy.cfg";
my $folder  = File::Temp->newdir;
my @clients;
chmod 0755, "$folder" or die "$folder: $!";
local $ENV{ORDERS} = "$folder/orders";
append_file($ENV{ORDERS}, q());

machines();
my %oribi   = map { $_ => oribi($_) } qw(a b c);
my $admin   = '/run/haproxy/admin.sock';
my $haproxy = Test::Oribi->run_on_socket($admin, on('haproxy', '/usr/sbin/haproxy', '-db', '-f', $file));
wait_until('haproxy finds all machines', sub { states() eq 'a UP, b UP, c UP' });
client($_) for 1 .. $CLIENTS;

serve('all three answer');
my $seen = qr/\A[abc][ ]10[.]0[.]0[.]1[ ]http[ ]HTTP_X_FORWARDED_FOR,HTTP_X_FORWARDED_PROTO[ ]\w+\z/;
is_deeply [grep { $_->[2] eq '200' && $_->[3] !~ $seen } visits()], [],
    'apps learn the address of the client, which cannot lie';

# A stop: haproxy sees it before anything closes.
$oribi{a}->signal('TERM');
wait_until('haproxy sees that a stops', sub { states() eq 'a DOWN, b UP, c UP' });
is $oribi{a}->exit_status, undef, 'while it still serves';
wait_until('it ends', sub { defined $oribi{a}->exit_status });
is $oribi{a}->exit_status, 0, 'with status 0';
serve('the others answer', 'a');
lost_nothing('a stop');
$oribi{a} = oribi('a');
wait_until('haproxy finds it again', sub { states() eq 'a UP, b UP, c UP' });
serve('all three answer again');

# New code, and a new program.
$oribi{b}->signal('HUP');
wait_until('b loads its app again', sub { $oribi{b}->log_text =~ /generation 2 has taken over/ });
serve('all three answer after a reload');
lost_nothing('a reload');
$oribi{b}->signal('USR2');
wait_until('b is upgraded', sub { $oribi{b}->log_text =~ /the new server \(pid \d+\) has taken over/ });
serve('all three answer after an upgrade');
lost_nothing('an upgrade');
is states(), 'a UP, b UP, c UP', 'and haproxy has noticed nothing';

# A death: all processes of c, so that connections end in the middle of requests.
kill '-KILL', $oribi{c}->pid;
wait_until('haproxy sees that c is dead', sub { states() eq 'a UP, b UP, c DOWN' });
serve('the others answer', 'c');
close $_->{in} or die "client: $!" for @clients;
waitpid $_->{pid}, 0 for @clients;
my @lost = lost();
my %begun = map {split} split /\n/, content_of($ENV{ORDERS});
is_deeply [grep { $_->[0] ne 'POST' } @lost], [], 'a death loses no GET';
cmp_ok scalar @lost, '<=', $CLIENTS, 'and at most what was under way';
is_deeply [grep { ($begun{ $_->[1] } // 'c') ne 'c' } @lost], [], 'on that machine';
my %runs;
$runs{$_}++ for content_of($ENV{ORDERS}) =~ /^(\S+)/mg;
is_deeply [grep { $runs{$_} > 1 } sort keys %runs], [], 'no POST has run twice';
cmp_ok scalar visits(), '>', 1000, 'of more than a thousand requests';
note scalar(visits()), ' requests, ', scalar(@lost), ' lost: ', join q(; ), map {"@$_"} @lost;

done_testing;

# A bridge with an address for the clients, and a network namespace for haproxy and for each machine.
sub machines () {
    run('mount', '-t', 'tmpfs', 'tmpfs', '/run');
    mkdir '/run/haproxy' or die "/run/haproxy: $!";
    run(qw(ip link set lo up));
    run(qw(ip link add name switch type bridge));
    run(qw(ip address add 10.0.0.1/24 dev switch));
    run(qw(ip link set switch up));
    for my $name (sort keys %address) {
        run(qw(ip netns add), $name);
        run(qw(ip link add name), "to-$name", qw(type veth peer name eth0 netns), $name);
        run(qw(ip link set), "to-$name", qw(master switch up));
        run(qw(ip -netns), $name, qw(address add), "$address{$name}/24", qw(dev eth0));
        run(qw(ip -netns), $name, qw(link set), $_, 'up') for qw(lo eth0);
    }
    return;
}

sub on ($machine, @command) { return ('ip', 'netns', 'exec', $machine, @command) }

# A server on a machine, with the options that deploy/haproxy.cfg names, and a socket for this test.
sub oribi ($machine) {
    my $socket = "$folder/$machine.sock";
    local $ENV{MACHINE} = $machine;
    my ($options) = content_of($file) =~ /^#     oribi app[.]psgi (.+)$/m;
    my @own       = ('--workers', 2, '--listen', $socket, '--control', "$folder/$machine.control");
    my @command   = (Test::Oribi::command(), "$FindBin::Bin/haproxy/app.psgi", (split q( ), $options), @own);
    return Test::Oribi->run_on_socket($socket, on($machine, @command));
}

# A client as a process, which ends when its input does.
sub client ($number) {
    pipe my $reader, my $writer or die "pipe: $!";
    my $pid = fork // die "fork: $!";
    if (!$pid) {
        open STDIN,  '<&', $reader             or POSIX::_exit(126);
        open STDOUT, '>', "$folder/client-$number" or POSIX::_exit(126);
        close $_ or POSIX::_exit(126) for $reader, $writer, map { $_->{in} } @clients;
        exec $^X, "$FindBin::Bin/haproxy/client.pl", $number or POSIX::_exit(127);
    }
    close $reader or die "pipe: $!";
    push @clients, { pid => $pid, in => $writer };
    return;
}

# All requests so far: each has its method, its order, its status and the answer.
sub visits () {
    return map { [split q( ), $_, 4] } map { content_of($_) =~ /^(.*)\n/mg } glob "$folder/client-*";
}

sub lost () { return grep { $_->[2] ne '200' } visits() }

sub lost_nothing ($event) {
    is_deeply [lost()], [], "$event loses nothing";
    return;
}

# How many answers each machine has given.
sub answers () {
    my %answers = (a => 0, b => 0, c => 0);
    $answers{ substr $_->[3], 0, 1 }++ for grep { $_->[2] eq '200' } visits();
    return %answers;
}

# Waits until all machines, or all but one, have given fifty answers more.
sub serve ($name, $but = q()) {
    my %before = answers();
    wait_until($name, sub {
        my %now = answers();
        return !grep { $_ ne $but && $now{$_} < $before{$_} + 50 } keys %now;
    });
    return;
}

# The state of each machine, as haproxy sees it.
sub states () {
    my $socket = IO::Socket::UNIX->new(Peer => $admin) or die "$admin: $!";
    print {$socket} "show stat\n" or die "$admin: $!";
    my @rows = map { [split /,/] } grep {/\Ashop,[abc],/} readline $socket;
    return join ', ', map { "$_->[1] " . $_->[17] =~ s/ .*//r } @rows;
}

sub wait_until ($name, $condition) {
    my $end = time + 60;
    until ($condition->()) {
        if (time > $end) {
            diag "$_: " . $oribi{$_}->log_text for sort keys %oribi;
            diag $haproxy->log_text =~ s/\A.*(?=.{2000}\z)//sr;
            BAIL_OUT("$name: not within a minute");
        }
        sleep 0.1;
    }
    pass $name;
    return;
}
