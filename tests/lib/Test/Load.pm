package Test::Load;

# A client that keeps many connections busy, with one request after the other on each. It records every connection that ends
# without the answer for which it waits.

use v5.36;
use IO::Select  ();
use Time::HiRes qw(time);

# The longest time without any event on any connection.
use constant PATIENCE => 60;

# Test::Load->new(SERVER, PATH, COUNT): COUNT connections to SERVER that ask for PATH.
sub new ($class, $server, $path, $count) {
    my $self = bless { server => $server, path => $path, select => IO::Select->new, answers => 0, lost => [] }, $class;
    $self->_open for 1 .. $count;
    return $self;
}

# The number of whole answers that arrived.
sub answers ($self) { return $self->{answers} }

# Of each connection that ended without the answer that it waited for: the content of the answer before, or undef.
sub lost ($self) { return @{ $self->{lost} } }

# Answers that were not a 200.
sub refused ($self) { return $self->{refused} // 0 }

# Goes on until COUNT more answers arrived. A connection that the server closes is opened again.
sub run ($self, $count) {
    my $goal = $self->{answers} + $count;
    $self->_turn(1) while $self->{answers} < $goal;
    return;
}

# Goes on until the server has closed every connection; none is opened again.
sub run_out ($self) {
    $self->_turn(0) while $self->{select}->count;
    return;
}

sub _open ($self) {
    my $socket = $self->{server}->connection // die "no connection: $!\n";
    $self->{select}->add($socket);
    $self->{state}{$socket} = { received => '', before => undef };
    $self->_ask($socket);
    return;
}

sub _ask ($self, $socket) {
    # A connection that is already closed shows itself when the answer is read.
    local $SIG{PIPE} = 'IGNORE';
    syswrite $socket, "GET $self->{path} HTTP/1.1\r\nHost: load\r\n\r\n";
    return;
}

sub _close ($self, $socket, $again) {
    $self->{select}->remove($socket);
    delete $self->{state}{$socket};
    close $socket or warn "close: $!\n";
    $self->_open if $again;
    return;
}

# Reads the received bytes of any connection.
sub _turn ($self, $again) {
    my @ready = $self->{select}->can_read(PATIENCE) or die "no answer on any connection\n";
    for my $socket (@ready) {
        my $state = $self->{state}{$socket};
        my $count = sysread $socket, $state->{received}, 65_536, length $state->{received};
        if (!$count) {
            push @{ $self->{lost} }, $state->{before};
            $self->_close($socket, $again);
        }
        elsif (my ($head, $content) = _answer($state->{received})) {
            $self->{answers}++;
            $self->{refused}++ if $head !~ m{\AHTTP/1\.1[ ]200[ ]};
            @{$state}{qw(received before)} = ('', $content);
            if   ($head =~ /^Connection:[ ]*close\r$/mi) { $self->_close($socket, $again) }
            else                                         { $self->_ask($socket) }
        }
    }
    return;
}

# Head and content of an answer that has arrived whole; nothing otherwise.
sub _answer ($received) {
    my $end = index $received, "\r\n\r\n";
    return if $end < 0;
    my $head = substr $received, 0, $end + 2;
    my ($length) = $head =~ /^Content-Length:[ ]*(\d+)\r$/mi or die "an answer without a length:\n$head";
    my $content = substr $received, $end + 4;
    return if length $content < $length;
    die "more than the answer came:\n$received" if length $content > $length;
    return ($head, $content);
}

1;
