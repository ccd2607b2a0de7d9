package Oribi::PAGI::Loop;
use strict;
use warnings;
use Future ();
use IO::Async::Loop ();

our $VERSION = '0.1.0';

my $loop;

# Called in a worker. Apps that wait by Future::IO wait in the loop of the worker, unless they have chosen otherwise.
sub prepare {
    $loop = IO::Async::Loop->new;
    no warnings qw(once);    ## no critic (ProhibitNoWarnings) -- the module need not be there
    if ($INC{'Future/IO.pm'} && !defined $Future::IO::IMPL) {
        if (!eval { require Future::IO::Impl::IOAsync; 1 }) {
            my $message = "Future::IO blocks the worker, without Future::IO::Impl::IOAsync: $@";
            Oribi::log_message({ level => 'warn', message => $message });
        }
    }
    return;
}

sub loop { return $loop ||= IO::Async::Loop->new }

# A future that is done when the loop has come round.
sub next_round {
    my $future = future();
    loop()->later(sub { $future->done if !$future->is_ready });
    return $future;
}

sub future { return loop()->new_future }

# Calls the code after a time in seconds; returns an identifier for `forget`.
sub after {
    my ($seconds, $code) = @_;
    return loop()->watch_time(after => $seconds, code => $code);
}

sub forget {
    my ($id) = @_;
    loop()->unwatch_time($id) if defined $id;
    return;
}

# Runs the loop until the condition holds, for at most a time in seconds if one is given.
sub run_until {
    my ($condition, $seconds) = @_;
    my $is_over = 0;
    my $timer   = defined $seconds ? after($seconds, sub { $is_over = 1 }) : undef;
    loop()->loop_once while !$is_over && !$condition->();
    forget($timer) if !$is_over;
    return;
}

1;

__END__

=head1 NAME

Oribi::PAGI::Loop - the event loop of PAGI apps

=head1 DESCRIPTION

Timers and futures of L<IO::Async::Loop>.

=cut
