package Oribi::EventStream;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Oribi::Live ();

# $env->{'psgix.event_stream'}->hold(handler => ..., data => ..., subscribe => [...], headers => [...])
sub hold {
    my ($self, %options) = @_;
    my @channels = ref $options{subscribe} ? @{ $options{subscribe} } : defined $options{subscribe} ? $options{subscribe} : ();
    my $order = sub {
        my ($kept) = @_;
        Oribi::Live::hold($kept);
        Oribi::Live::subscribe($_) for @channels;
        return;
    };
    if (defined $options{handler}) { Oribi::Live::open_connection($order, %options) }
    else                           { $order->(q{}) }
    return [200, _fields(@{ $options{headers} || [] }), []];
}

# The app may choose all fields but the type.
sub _fields {
    my (@given) = @_;
    my @fields = ('Content-Type' => 'text/event-stream');
    my $is_cached;
    while (my ($name, $value) = splice @given, 0, 2) {
        $is_cached = 1 if lc $name eq 'cache-control';
        push @fields, $name => $value if lc $name ne 'content-type';
    }
    push @fields, 'Cache-Control' => 'no-cache' if !$is_cached;
    return \@fields;
}

# For a stream that needs no handler.
sub subscribe {
    my ($self, @channels) = @_;
    return $self->hold(subscribe => \@channels);
}

1;

__END__

=head1 NAME

Oribi::EventStream - streams of events that no worker holds

=head1 SYNOPSIS

    my $app = sub {
        my ($env) = @_;
        my $stream = $env->{'psgix.event_stream'} or return [406, [], []];
        return $stream->subscribe('news');
    };

    Oribi::publish('news', 'hello');

=head1 METHODS

=head2 hold(%options)

Keeps the response open as a stream of events, and returns a response for the app to return. Options are C<handler> and
C<data> as for L<Oribi::WebSocket>, all of whose methods except C<on_message> are called; C<subscribe>, a channel or a list of
channels; and C<headers>, more fields of the response.

=head2 subscribe(@channels)

The same without a handler.

=cut
