package Oribi::RequestTimeout;
use strict;
use warnings;

our $VERSION = '0.1.0';

use overload
    q{""}    => 'message',
    bool     => sub { 1 },
    fallback => 1;

# Called by the server at the position where the app is interrupted.
sub new {
    my ($seconds) = @_;
    my ($file, $line) = (caller)[1, 2];
    return bless { seconds => $seconds, file => $file, line => $line }, __PACKAGE__;
}

sub seconds { my ($self) = @_; return $self->{seconds} }
sub file    { my ($self) = @_; return $self->{file} }
sub line    { my ($self) = @_; return $self->{line} }

sub message {
    my ($self) = @_;
    return "oribi: the request took longer than $self->{seconds} s at $self->{file} line $self->{line}.\n";
}

# Returns the position of the app, followed by the calls that led there, without their arguments, which may be secrets. Leaves
# out the calls by which the program reached the server; the last two arguments name the line from which it called the server.
sub backtrace {
    my (undef, $outer_file, $outer_line) = @_;
    my @calls;
    for (my $level = 0; my (undef, $file, $line, $name) = caller $level; $level++) {
        my $is_app = $file eq $outer_file && $line == $outer_line;
        push @calls, $is_app ? $name : "$name at $file line $line";
        last if $is_app;
    }
    # The first frames are this function, called at the app's position, and the eval around it.
    my ($place) = $calls[0] =~ /\A\S+( at .*)\z/s;
    splice @calls, 0, 2;
    return join ', in ', $place, @calls;
}

1;

__END__

=head1 NAME

Oribi::RequestTimeout - the exception of a request that took too long

=head1 SYNOPSIS

    eval { slow(); 1 } or do {
        die $@ if !(ref $@ && $@->isa('Oribi::RequestTimeout'));
        return [503, ['Content-Type' => 'text/plain'], ["Try again later.\n"]];
    };

=head1 DESCRIPTION

The server raises it in an app that has exceeded C<--request-timeout>, once for each request, wherever the app is: in a loop, in
C<sleep>, in a read from a socket. As text it is C<oribi: the request took longer than 5 s at app.psgi line 12.> An app that does
not catch it need not do anything: the client gets a 504.

=head1 METHODS

=head2 seconds

The deadline that was exceeded.

=head2 file, line

The position of the app.

=head2 message

The text above, with a line end.

=cut
