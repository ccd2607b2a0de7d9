package Mojo::Server::Oribi::Stream;
use Mojo::Base 'Mojo::IOLoop::Stream';

our $VERSION = '0.1.0';

sub start { my $self = shift; return $self->timeout($self->{timeout}) }
sub stop  { }

sub close {    ## no critic (ProhibitBuiltinHomonyms) -- the name of the method
    my $self = shift;
    return if $self->{closed}++;
    $self->timeout(0)->emit('close');
    return;
}

sub note_activity { return shift->_again }

1;

__END__

=encoding utf8

=head1 NAME

Mojo::Server::Oribi::Stream - stands for the connection of a client

=head1 DESCRIPTION

A stream without a handle, so that C<inactivity_timeout> and C<< Mojo::IOLoop->stream >> work in apps: the connection itself belongs to
Oribi.

=cut
