package Oribi::Live::Connection;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Carp qw(croak);

sub new {
    my ($class, $id, $handler, $data, $env) = @_;
    return bless {
        id       => $id,
        handler  => $handler,
        data     => $data,
        kept     => $data,
        env      => $env,
        exchange => Oribi::Live::exchange(),
        open     => 1,
    }, $class;
}

# A connection by its ID, for messages to it from any request or event.
sub of {
    my ($class, $id) = @_;
    croak 'the ID of a connection has 16 hexadecimal digits' if !defined $id || $id !~ /\A[0-9a-f]{16}\z/;
    return bless { id => $id, exchange => -1, open => 1 }, $class;
}

sub id        { my ($self) = @_; return $self->{id} }
sub env       { my ($self) = @_; return $self->{env} }
sub is_binary { my ($self) = @_; return $self->{binary} }
sub is_open   { my ($self) = @_; return $self->{open} }

# $connection->data, or $connection->data($bytes)
sub data {
    my ($self, @data) = @_;
    if (@data) {
        $self->_check_own;
        $self->{data} = Oribi::Live::bytes_of($data[0]);
    }
    return $self->{data};
}

sub send { ## no critic (ProhibitBuiltinHomonyms)
    my ($self, $text) = @_;
    return $self->_send('text', Oribi::Live::characters_as_bytes($text));
}

sub send_binary {
    my ($self, $bytes) = @_;
    return $self->_send('binary', Oribi::Live::bytes_of($bytes));
}

# Lines of an event: "event: news\ndata: ...".
sub send_event {
    my ($self, $lines) = @_;
    return $self->_send('event', Oribi::Live::characters_as_bytes($lines));
}

sub _send {
    my ($self, $kind, $payload) = @_;
    return 0 if !$self->{open};
    my $sent = Oribi::Live::send_message($self->_name, $kind, $payload);
    $self->{pending}++ if $sent && defined $self->{pending};
    return $sent;
}

# The messages before the next on_drained.
sub pending {
    my ($self) = @_;
    return $self->{open} && $self->{pending} || 0;
}

sub close { ## no critic (ProhibitBuiltinHomonyms)
    my ($self, $code, $reason) = @_;
    return if !$self->{open};
    Oribi::Live::close_connection($self->_name, $code, $reason);
    $self->{open} = 0;
    return;
}

sub subscribe {
    my ($self, $channel) = @_;
    $self->_check_own;
    return Oribi::Live::subscribe($channel);
}

sub unsubscribe {
    my ($self, $channel) = @_;
    $self->_check_own;
    return Oribi::Live::unsubscribe($channel);
}

sub publish {
    my ($self, $channel, $text) = @_;
    return Oribi::publish($channel, $text);
}

# ---- For Oribi::Live ---------------------------------------------------------------------------------------------------------

# Keeps the data, if it has changed.
sub settle {
    my ($self) = @_;
    return if $self->{data} eq $self->{kept} || !$self->{open};
    Oribi::Live::set_data(Oribi::Live::keep($self->{handler}, $self->{data}));
    $self->{kept} = $self->{data};
    return;
}

# Counts the messages that are not sent, of which there are so many.
sub count_pending { my ($self, $count) = @_; $self->{pending} = $count; return }

# The client has gone.
sub end { my ($self) = @_; $self->{open} = 0; return }

sub _is_own { my ($self) = @_; return $self->{exchange} == Oribi::Live::exchange() }

sub _check_own {
    my ($self) = @_;
    croak 'this can be done only in an event of the connection itself' if !$self->_is_own;
    return;
}

# undef: the connection of the request.
sub _name {
    my ($self) = @_;
    my $own = $self->_is_own;
    croak 'a connection that is kept from on_open is reached only in its own events' if !$own && !defined $self->{id};
    return $own ? undef : $self->{id};
}

1;

__END__

=head1 NAME

Oribi::Live::Connection - a WebSocket or a stream of events, as its handlers see it

=head1 METHODS

=head2 send($text), send_binary($bytes), send_event($lines)

Send a message: a text of characters, bytes (to WebSockets only), or lines of an event (to streams of events only). To a
stream, a text is the data of an event. They return false if the connection has ended.

=head2 close($code, $reason)

Closes the connection after all messages before, by default with 1000. Codes are 1000 to 1003, 1007 to 1014 and 3000 to 4999.

=head2 subscribe($channel), unsubscribe($channel), publish($channel, $text)

Make the connection get all messages to a channel, end that, and send a message to all who get them. Messages do not pass
through the app.

=head2 data, data($bytes)

The bytes that come with every event of the connection, at most 64 KiB with the name of the handler and its arguments. Nothing
else is kept from one event to the next, which may reach another worker.

=head2 id

The name of the connection, C<undef> in C<on_open>. C<< Oribi::Live::Connection->of($id) >> returns an object for messages to
it from any request or event.

=head2 env

The environment of the request that has opened the connection.

=head2 pending

The number of messages to the client of which a part may not have been sent, so that C<on_drained> follows; 0 for a handler
without that method.

=head2 is_binary, is_open

Whether the message is bytes, and whether the connection can still take messages.

=cut
