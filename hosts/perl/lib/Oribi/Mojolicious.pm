package Oribi::Mojolicious;
use strict;
use warnings;

our $VERSION = '0.001000';

my $UNTIL = 'the event loop of Mojolicious does not run under PSGI, so timers, promises and render_later come to nothing: '
    . 'respond before the action returns, or run the app by hypnotoad or prefork';

# What is wrong with the body of a response of Mojo::Server::PSGI; undef: nothing. `empty`: it has said again and again that its content
# comes later.
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

Oribi::Mojolicious - says what a Mojolicious app misses under PSGI

=head1 DESCRIPTION

An app that answers later (C<render_later>) needs the event loop of Mojolicious, which L<Mojo::Server::PSGI> does not run. It would be
answered with an empty 404. Oribi logs what is missing, and the client gets a 500.

=cut
