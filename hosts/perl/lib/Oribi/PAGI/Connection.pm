package Oribi::PAGI::Connection;
use strict;
use warnings;
use Oribi::PAGI::Loop ();

our $VERSION = '0.1.0';

sub new {
    my ($class, $log) = @_;
    return bless { log => $log, is_open => 1, started => 0, complete => 0, gone => [], done => [], futures => [] }, $class;
}

sub is_connected      { return shift->{is_open} }
sub disconnect_reason { return shift->{reason} }
sub response_started  { return shift->{started} }
sub response_complete { return shift->{complete} }

sub on_disconnect {
    my ($self, $callback) = @_;
    if (defined $self->{reason}) {
        $self->_call($callback, $self->{reason});
    } elsif (!$self->{complete}) {
        push @{ $self->{gone} }, $callback;
    }
    return;
}

sub on_complete {
    my ($self, $callback) = @_;
    if ($self->{complete}) {
        $self->_call($callback);
    } elsif (!defined $self->{reason}) {
        push @{ $self->{done} }, $callback;
    }
    return;
}

# Each caller gets a future of its own, which it may cancel.
sub disconnect_future {
    my ($self) = @_;
    my $future = Oribi::PAGI::Loop::future();
    if (defined $self->{reason}) {
        $future->done($self->{reason});
    } elsif (!$self->{complete}) {
        push @{ $self->{futures} }, $future;
    }
    return $future;
}

sub note_start { return shift->{started} = 1 }

sub note_completion {
    my ($self) = @_;
    return if $self->{complete} || !$self->{is_open};
    @{$self}{qw(complete is_open)} = (1, 0);
    my $callbacks = $self->_take('done');
    $self->_call($_) for @{$callbacks};
    return;
}

sub note_disconnect {
    my ($self, $reason) = @_;
    return if !$self->{is_open};
    @{$self}{qw(is_open reason)} = (0, $reason);
    my $futures   = $self->{futures};
    my $callbacks = $self->_take('gone');
    for my $future (@{$futures}) {
        $future->done($reason) if !$future->is_ready;
    }
    $self->_call($_, $reason) for @{$callbacks};
    return;
}

# The values to which closures refer are released with them.
sub _take {
    my ($self, $name) = @_;
    my $callbacks = $self->{$name};
    @{$self}{qw(gone done futures)} = ([], [], []);
    return $callbacks;
}

sub _call {
    my ($self, $callback, @arguments) = @_;
    eval { $callback->(@arguments); 1 } or $self->{log}->("a callback for a client died: $@");
    return;
}

1;

__END__

=head1 NAME

Oribi::PAGI::Connection - the state of a request: pagi.connection

=cut
