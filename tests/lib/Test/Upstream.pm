package Test::Upstream;

# A server of HTTP/1 behind a proxy, whose answers a test writes byte by byte.

use v5.36;
use Carp               qw(croak);
use File::Temp         ();
use IO::Socket::IP     ();
use IO::Socket::UNIX   ();
use Test::FreePort     qw(free_port);
use POSIX              ();
use Test::Files        qw(content_of);

# Test::Upstream->start(HANDLER, at => PORT or PATH): accepts connections, each in a process of its own, and calls
# HANDLER(CONNECTION, HEAD, CONTENT, UPSTREAM) for each request. The connection closes when HANDLER returns false.
sub start ($class, $handler, %option) {
    my $at   = $option{at} // free_port();
    my $self = bless { at => $at, handler => $handler, log => $option{log} // File::Temp->new, owner => $$ }, $class;
    $self->again;
    return $self;
}

sub at  ($self) { return $self->{at} }
sub url ($self) { return $self->{at} =~ m{\A/} ? "http+unix:$self->{at}" : "http://127.0.0.1:$self->{at}" }

# Starts it again at the same place.
sub again ($self) {
    my $listener = $self->_listen;
    my $pid      = fork // croak "fork: $!";
    if ($pid == 0) {
        POSIX::setpgid(0, 0);
        $self->_serve($listener);
        POSIX::_exit(0);
    }
    POSIX::setpgid($pid, $pid);
    $self->{pid} = $pid;
    return;
}

# Ends it, with all of its connections.
sub stop ($self) {
    my $pid = delete $self->{pid} // return;
    local ($?, $!, $@);
    kill '-KILL', $pid;
    waitpid $pid, 0;
    return;
}

# The lines noted so far that match: `connected`, `request METHOD TARGET`, `ended`, and notes of handlers.
sub notes ($self, $wanted = qr/./) { return grep { /$wanted/ } split /\n/, content_of($self->{log}->filename) }

# For handlers.
sub note ($self, $text) {
    # One write, so that lines of several processes do not mix.
    open my $log, '>>', $self->{log}->filename or croak "log: $!";
    syswrite $log, "$text\n";
    return;
}

sub _listen ($self) {
    if ($self->{at} =~ m{\A/}) {
        unlink $self->{at};
        return IO::Socket::UNIX->new(Local => $self->{at}, Listen => 128) // croak "$self->{at}: $!";
    }
    my %option = (LocalHost => '127.0.0.1', LocalPort => $self->{at}, Listen => 128, ReuseAddr => 1);
    return IO::Socket::IP->new(%option) // croak "port $self->{at}: $!";
}

sub _serve ($self, $listener) {
    local $SIG{CHLD} = 'IGNORE';
    local $SIG{PIPE} = 'IGNORE';
    while (1) {
        my $connection = $listener->accept // next;
        my $pid = fork // next;
        next if $pid;
        $self->note('connected');
        my $input = q();
        while (my ($head, $content) = _request($connection, \$input)) {
            $self->note('request ' . ($head =~ /\A(\S+ \S+)/)[0]);
            last if !$self->{handler}->($connection, $head, $content, $self);
        }
        $self->note('ended');
        POSIX::_exit(0);
    }
    return;
}

# The next request of a connection; nothing at its end.
sub _request ($connection, $input) {
    my $more = sub { return sysread $connection, $$input, 65_536, length $$input };
    until ($$input =~ /\r\n\r\n/) {
        $more->() or return;
    }
    my ($head, $rest) = $$input =~ /\A(.*?\r\n\r\n)(.*)\z/s;
    if ($head =~ /^Transfer-Encoding: chunked\r$/m) {
        $$input = $rest;
        until ($$input =~ /(?:\A|\r\n)0\r\n(?:[^\r\n]+\r\n)*\r\n\z/) {
            $more->() or return;
        }
        my $content = $$input;
        $$input = q();
        return ($head, $content);
    }
    my ($length) = $head =~ /^Content-Length: (\d+)\r$/m;
    $$input = $rest;
    while (length $$input < ($length // 0)) {
        $more->() or return;
    }
    return ($head, substr $$input, 0, $length // 0, q());
}

sub DESTROY ($self) { return $self->{owner} == $$ ? $self->stop : undef }

1;
