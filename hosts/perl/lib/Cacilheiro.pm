package Cacilheiro;
use strict;
use warnings;

our $VERSION = '0.1.0';

1;

__END__

=head1 NAME

Cacilheiro - the PSGI server of that name, now Oribi

=head1 SYNOPSIS

    plackup -s Cacilheiro app.psgi

=head1 DESCRIPTION

Cacilheiro ran a PSGI app in cloned interpreters on the threads of an event loop. L<Oribi> succeeds it: the handlers
L<Plack::Handler::Cacilheiro> and L<Plack::Handler::EVHTP> take the same options with the same meaning. This module provides a
version for distributions that depend on it by name.

=cut
