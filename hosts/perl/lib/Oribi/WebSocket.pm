package Oribi::WebSocket;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Oribi::Live ();

# $env->{'psgix.websocket'}->accept(handler => ..., data => ..., protocol => ..., headers => [...])
sub accept { ## no critic (ProhibitBuiltinHomonyms)
    my ($self, %options) = @_;
    my @fields = @{ $options{headers} || [] };
    push @fields, 'Sec-WebSocket-Protocol' => $options{protocol} if defined $options{protocol};
    my $lines = Oribi::Live::lines(@fields);
    Oribi::Live::open_connection(sub { my ($kept) = @_; return Oribi::Live::accept_websocket($lines, $kept) }, %options);
    return [200, [], []];
}

1;

__END__

=head1 NAME

Oribi::WebSocket - WebSockets that no worker holds

=head1 SYNOPSIS

    package Chat;

    sub on_open    { my ($class, $connection) = @_; $connection->subscribe('chat') }
    sub on_message { my ($class, $connection, $text) = @_; $connection->publish('chat', $text) }
    sub on_close   { my ($class, $connection, $code, $reason) = @_ }

    package main;

    my $app = sub {
        my ($env) = @_;
        my $websocket = $env->{'psgix.websocket'} or return [426, [Upgrade => 'websocket'], []];
        return $websocket->accept(handler => 'Chat');
    };

=head1 METHODS

=head2 accept(%options)

Makes the connection of the request a WebSocket, calls C<on_open> of its handler, and returns a response for the app to
return, which no client gets.

=over

=item handler

The name of a package with any of the methods C<on_open>, C<on_message> and C<on_close>, which are called with a
L<Oribi::Live::Connection>; or C<[$package, @strings]>: then each event makes an object by C<< $package->new(@strings) >>.

Its method C<on_drained($connection)>, if there is one, is called when all messages to the client that the app has sent have
left the server, once after any number of them; C<on_shutdown($connection)> before the connection ends because the server
does, so that it can send a last message.

=item data

The bytes of C<< $connection->data >>.

=item protocol, headers

The subprotocol, and a list of names and values of more fields of the response.

=back

=cut
