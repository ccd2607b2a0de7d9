package Oribi::Mojolicious;
use strict;
use warnings;

our $VERSION = '0.1.0';

my $UNTIL = 'the event loop of Mojolicious does not run here, so timers, promises and render_later come to nothing: '
    . 'respond before the action returns, or run the app with --loop mojo';

# Returns the error in a response body of Mojo::Server::PSGI, or undef. `empty` is true if the body has returned empty lines
# again and again, as it does when its content arrives later.
sub complaint {
    my ($arguments) = @_;
    my ($body, $empty) = @{$arguments};
    return "the Mojolicious app waits before the rest of its response: $UNTIL" if $empty;
    my $transaction = eval { $body->{tx} };
    return if !$transaction || defined $transaction->res->code;
    return "the Mojolicious app has rendered nothing: $UNTIL";
}

1;

__END__

=head1 NAME

Oribi::Mojolicious - reports features that a Mojolicious app lacks under PSGI

=head1 DESCRIPTION

An app that answers later (C<render_later>) needs the event loop of Mojolicious, which L<Mojo::Server::PSGI> does not run, and
Oribi only with C<--loop>. Without it, the app would be answered with an empty 404. Oribi logs the missing feature, and the client gets a 500.

=cut
