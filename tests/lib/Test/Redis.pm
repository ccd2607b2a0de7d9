package Test::Redis;

# A real Redis for a test, which keeps nothing on the disk.

use v5.36;
use Carp             qw(croak);
use File::Temp       ();
use IO::Socket::UNIX ();
use POSIX            ();
use Test::FreePort   qw(free_port);
use Time::HiRes      qw(sleep time);

use constant PATIENCE => 60;

# Test::Redis->new(OPTION...): at a free port of 127.0.0.1, and at a Unix socket, with these options of redis-server.
sub new ($class, @options) {
    my $self = bless { port => free_port(), folder => File::Temp->newdir, options => [@options], owner => $$ }, $class;
    $self->start;
    return $self;
}

sub port   ($self) { return $self->{port} }
sub url    ($self) { return "redis://127.0.0.1:$self->{port}" }
sub socket ($self) { return "$self->{folder}/redis.sock" } ## no critic (ProhibitBuiltinHomonyms)

# Starts it, at the same places as before.
sub start ($self) {
    my @places  = ('--port', $self->port, '--bind', '127.0.0.1', '--unixsocket', $self->socket, '--unixsocketperm', 777);
    my @command = ('redis-server', @places, '--save', q(), '--dir', "$self->{folder}", '--loglevel', 'warning', $self->{options}->@*);
    chmod 0711, "$self->{folder}" or croak "$self->{folder}: $!";
    $self->{pid} = fork // croak "fork: $!";
    if (!$self->{pid}) {
        open STDIN,  '<',  '/dev/null'           or POSIX::_exit(126);
        open STDOUT, '>>', "$self->{folder}/log" or POSIX::_exit(126);
        open STDERR, '>&', \*STDOUT              or POSIX::_exit(126);
        # The same program has several names; the package of its tools starts no service.
        exec {'redis-check-rdb'} @command or POSIX::_exit(127);
    }
    my $end = time + PATIENCE;
    until (IO::Socket::UNIX->new(Peer => $self->socket)) {
        croak 'Redis does not start' if time > $end || waitpid($self->{pid}, POSIX::WNOHANG()) == $self->{pid};
        sleep 0.02;
    }
    return;
}

# Runs `redis-cli ARGUMENT...` and returns its output without the last line end.
sub cli ($self, @arguments) {
    open my $from, '-|', 'redis-cli', '-s', $self->socket, @arguments or croak "redis-cli: $!";
    local $/ = undef;
    my $said = readline $from;
    close $from or croak "redis-cli @arguments: $said";
    return $said =~ s/\n\z//r;
}

sub signal ($self, $signal) { return kill $signal, $self->{pid} }

# Ends it at once.
sub stop ($self) {
    return if $self->{owner} != $$ || !$self->{pid};
    local ($?, $!) = (0, 0);
    kill KILL => $self->{pid};
    waitpid delete $self->{pid}, 0;
    return;
}

sub DESTROY ($self) { return $self->stop }

1;
