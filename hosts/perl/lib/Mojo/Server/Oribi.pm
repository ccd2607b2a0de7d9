package Mojo::Server::Oribi;
use Mojo::Base 'Mojo::Server::PSGI';

use Mojo::Server::Oribi::Exchange ();
use Mojo::Util qw(monkey_patch);

our $VERSION = '0.1.0';

# Apps that are loaded as PSGI apps, as by `app->start`, have been given to Mojo::Server::PSGI already. It calls this method for
# each request, also below middleware.
sub install {
    monkey_patch('Mojo::Server::PSGI', run => \&run);
    return;
}

sub run {
    my ($self, $env) = @_;
    my $tx  = $self->build_tx;
    my $req = $tx->req->parse($env);
    $tx->local_port($env->{SERVER_PORT})->remote_address($env->{REMOTE_ADDR})->remote_port($env->{REMOTE_PORT});
    while (!$req->is_finished && $env->{'psgi.input'}->read(my $buffer, 131_072)) {
        $req->parse($buffer);
    }
    my $socket = $req->is_handshake ? $env->{'psgix.io'} : undef;
    return sub { Mojo::Server::Oribi::Exchange->begin($self, $tx, $socket, $env, @_) };
}

1;

__END__

=encoding utf8

=head1 NAME

Mojo::Server::Oribi - runs Mojolicious apps on Oribi, with their event loop

=head1 SYNOPSIS

    oribi app.pl
    oribi script/my_app

=head1 DESCRIPTION

With C<--loop mojo>, or if the app has loaded L<Mojo::IOLoop>, Oribi runs the event loop of Mojolicious in its workers, and this
module takes the place of L<Mojo::Server::PSGI>: an app may respond later (C<render_later>, promises), write a response piece by
piece, use timers, and speak WebSocket, as with L<Mojo::Server::Hypnotoad>.

=head1 METHODS

=head2 install

Makes L<Mojo::Server::PSGI> serve its apps in this way. Oribi calls it.

=head2 run($env)

Returns a delayed response of PSGI.

=cut
