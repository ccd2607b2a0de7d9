package Oribi::PAGI::Transport;
use strict;
use warnings;
use Oribi::PAGI::Loop ();

our $VERSION = '0.1.0';

# The bytes that may wait for a client before a sender waits.
use constant { HIGH => 65_536, LOW => 16_384 };

sub new {
    my ($class, $log) = @_;
    return bless { log => $log, buffered => 0, is_high => 0, waiters => [], high => [], drain => [] }, $class;
}

sub buffered_amount { return shift->{buffered} }
sub high_water_mark { return HIGH }
sub low_water_mark  { return LOW }

sub on_high_water {
    my ($self, $callback) = @_;
    push @{ $self->{high} }, $callback;
    $self->_call($callback) if $self->{is_high};
    return;
}

sub on_drain {
    my ($self, $callback) = @_;
    push @{ $self->{drain} }, $callback;
    return;
}

# Notes how many bytes wait for the client now.
sub note {
    my ($self, $bytes) = @_;
    $self->{buffered} = $bytes;
    if (!$self->{is_high} && $bytes >= HIGH) {
        $self->{is_high} = 1;
        $self->_call($_) for @{ $self->{high} };
    } elsif ($self->{is_high} && $bytes <= LOW) {
        $self->{is_high} = 0;
        $_->is_ready || $_->done for splice @{ $self->{waiters} };
        $self->_call($_) for @{ $self->{drain} };
    }
    return;
}

# Returns a future that is done when there is room; undef if there is.
sub room {
    my ($self) = @_;
    return if !$self->{is_high};
    my $future = Oribi::PAGI::Loop::future();
    push @{ $self->{waiters} }, $future;
    return $future;
}

# Nothing waits any longer.
sub end {
    my ($self) = @_;
    $self->note(0);
    @{$self}{qw(high drain)} = ([], []);
    return;
}

sub _call {
    my ($self, $callback) = @_;
    eval { $callback->(); 1 } or $self->{log}->("a callback for a client died: $@");
    return;
}

1;

__END__

=head1 NAME

Oribi::PAGI::Transport - how much waits for a client: pagi.transport

=cut
