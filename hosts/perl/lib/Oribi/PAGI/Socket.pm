# A connection that belongs to the loop of the worker.
package Oribi::PAGI::Socket;
use strict;
use warnings;
use Errno qw(EAGAIN EINTR EWOULDBLOCK);
use IO::Socket ();
use Oribi::PAGI::Loop ();
use Scalar::Util qw(weaken);

our $VERSION = '0.1.0';

# The time in seconds for a client to take what has been written before the end.
use constant FINISH_TIME => 10;

# Takes the connection behind psgix.io from the server. `%callbacks`: `read` gets bytes, `end` a reason, `note` the number of
# bytes that wait for the client.
sub take {
    my ($class, $io, %callbacks) = @_;
    my $file   = fileno $io;
    my $handle = defined $file ? IO::Socket->new : undef;
    die "cannot take the connection of the client\n" if !$handle || !open $handle, '+<&', $file;
    $handle->blocking(0);
    # The environment keeps this descriptor, without which the connection ends with this object.
    close $io;
    my $self = bless { handle => $handle, out => q{}, callbacks => \%callbacks }, $class;
    $self->resume;
    return $self;
}

# Reads, or leaves what the client sends in the kernel.
sub resume {
    my ($self) = @_;
    return if $self->{is_reading} || !$self->{handle};
    $self->{is_reading} = 1;
    my $weak = $self;
    weaken $weak;
    Oribi::PAGI::Loop::loop()->watch_io(handle => $self->{handle}, on_read_ready => sub { $weak->_read if $weak });
    return;
}

sub pause {
    my ($self) = @_;
    return if !delete $self->{is_reading};
    Oribi::PAGI::Loop::loop()->unwatch_io(handle => $self->{handle}, on_read_ready => 1);
    return;
}

sub _read {
    my ($self) = @_;
    my $count = sysread $self->{handle}, my $bytes, 65_536;
    if ($count) {
        $self->{callbacks}{read}->($bytes);
    } elsif (defined $count) {
        $self->_end('client_closed');
    } elsif ($! != EAGAIN && $! != EWOULDBLOCK && $! != EINTR) {
        $self->_end('read_error');
    }
    return;
}

sub write {    ## no critic (ProhibitBuiltinHomonyms) -- a method
    my ($self, $bytes) = @_;
    return if !$self->{handle} || $self->{is_closing};
    $self->{out} .= $bytes;
    if ($self->{is_writing}) {
        $self->{callbacks}{note}->(length $self->{out});
    } else {
        $self->_write;
    }
    return;
}

sub _write {
    my ($self) = @_;
    while (length $self->{out}) {
        local $SIG{PIPE} = 'IGNORE';
        my $count = syswrite $self->{handle}, $self->{out}, 262_144;
        if (defined $count) {
            substr $self->{out}, 0, $count, q{};
        } elsif ($! == EAGAIN || $! == EWOULDBLOCK) {
            last;
        } elsif ($! != EINTR) {
            return $self->_end('write_error');
        }
    }
    if (length $self->{out} && !$self->{is_writing}) {
        $self->{is_writing} = 1;
        my $weak = $self;
        weaken $weak;
        Oribi::PAGI::Loop::loop()->watch_io(handle => $self->{handle}, on_write_ready => sub { $weak->_write if $weak });
    } elsif (!length $self->{out} && delete $self->{is_writing}) {
        Oribi::PAGI::Loop::loop()->unwatch_io(handle => $self->{handle}, on_write_ready => 1);
    }
    $self->{callbacks}{note}->(length $self->{out});
    $self->end if $self->{is_closing} && !length $self->{out};
    return;
}

# Ends the connection when everything has been sent, or after some time. Nothing else need keep this object.
sub finish {
    my ($self) = @_;
    return if $self->{is_closing} || !$self->{handle};
    return $self->end if !length $self->{out};
    $self->{is_closing} = 1;
    $self->{timer} = Oribi::PAGI::Loop::after(FINISH_TIME, sub { $self->end });
    return;
}

# Ends the connection now.
sub end {
    my ($self) = @_;
    my $handle = $self->{handle} or return;
    $self->pause;
    Oribi::PAGI::Loop::loop()->unwatch_io(handle => $handle, on_write_ready => 1) if delete $self->{is_writing};
    Oribi::PAGI::Loop::forget(delete $self->{timer});
    delete $self->{handle};
    close $handle;
    return;
}

sub _end {
    my ($self, $reason) = @_;
    $self->end;
    $self->{callbacks}{end}->($reason);
    return;
}

sub DESTROY {
    my ($self) = @_;
    $self->end;
    return;
}

1;

__END__

=head1 NAME

Oribi::PAGI::Socket - the connection of a WebSocket

=cut
