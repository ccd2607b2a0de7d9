package Plack::Handler::Cacilheiro;
use strict;
use warnings;
use parent 'Plack::Handler::EVHTP';

our $VERSION = '0.1.0';

1;

__END__

=head1 NAME

Plack::Handler::Cacilheiro - another name of Plack::Handler::EVHTP

=head1 SYNOPSIS

    plackup -s Cacilheiro --max-workers 8 app.psgi

=cut
