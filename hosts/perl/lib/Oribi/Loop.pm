package Oribi::Loop;
use strict;
use warnings;

our $VERSION = '0.1.0';

# Each loop is a pair of functions. `watch` gets the descriptor of the lane. `come_round` runs the loop until that descriptor is
# readable, the given seconds are over (undef: no limit) or the loop has done something. The watcher ends with its first event,
# and the next round renews it: so an app that runs the loop within a request is not woken again and again for the next one.
my ($watch, $come_round);

# The loops by their names for --loop, in the order in which they are looked for: those first that run over others.
my @LOOPS = (
    [mojo     => 'Mojo/IOLoop.pm',    \&_mojo],
    [ioasync  => 'IO/Async/Loop.pm',  \&_ioasync],
    [anyevent => 'AnyEvent.pm',       \&_anyevent],
    [ev       => 'EV.pm',             \&_ev],
);

# Prepares the loop of this choice, and returns its name; undef if there is none. Dies if the loop cannot be had.
sub choose {
    my ($choice, $can_loop) = @_;
    return if $choice eq 'none' || ($choice eq 'auto' && !$can_loop);
    die "--loop $choice needs --threads 1, and without edges --io epoll\n" if !$can_loop;
    my ($found) = grep { $choice eq 'auto' ? $INC{ $_->[1] } : $choice eq $_->[0] } @LOOPS;
    return if !$found;
    my ($name, $file, $make) = @{$found};
    if (!eval { require $file; 1 }) {
        die "--loop $name needs the module that $file belongs to: $@";
    }
    ($watch, $come_round) = $make->();
    return $name if $come_round;
    die "--loop $name: AnyEvent runs over " . AnyEvent::detect() . ", which Oribi cannot run\n" if $choice ne 'auto';
    return;
}

sub watch {
    my ($descriptor) = @_;
    return $watch->($descriptor);
}

sub come_round {
    my ($seconds) = @_;
    return $come_round->($seconds);
}

# Called when the worker is about to end, as soon as its open requests have been answered. Others may still come.
sub note_stop {
    Oribi::PAGI->stop if $INC{'Oribi/PAGI.pm'};
    return;
}

# Another descriptor of the same thing, for loops that want a handle.
sub _handle {
    my ($descriptor) = @_;
    open my $handle, '<&', $descriptor or die "cannot duplicate a descriptor: $!\n";
    return $handle;
}

sub _ev {
    my ($watcher, $timer);
    return (
        sub {
            my ($descriptor) = @_;
            $watcher = EV::io($descriptor, EV::READ(), sub { $_[0]->stop });
            $timer ||= EV::timer_ns(1, 0, sub { });
        },
        sub {
            my ($seconds) = @_;
            $watcher->start;
            if (!defined $seconds) {
                EV::run(EV::RUN_ONCE());
            } elsif ($seconds == 0) {
                EV::run(EV::RUN_NOWAIT());
            } else {
                $timer->set($seconds, 0);
                $timer->start;
                EV::run(EV::RUN_ONCE());
                $timer->stop;
            }
        }
    );
}

sub _anyevent {
    my $model = AnyEvent::detect();
    return _ev() if $model eq 'AnyEvent::Impl::EV';
    return _ioasync() if $model eq 'AnyEvent::Impl::IOAsync';
    return if $model ne 'AnyEvent::Impl::Perl';
    my ($descriptor, $watcher);
    return (
        sub { ($descriptor, $watcher) = @_; return },
        sub {
            my ($seconds) = @_;
            $watcher ||= AnyEvent->io(fh => $descriptor, poll => 'r', cb => sub { undef $watcher });
            # An idle watcher, and not a timer: a round with a timer looks for no events of descriptors.
            my $end
                = !defined $seconds ? undef
                : $seconds == 0     ? AnyEvent->idle(cb => sub { })
                :                     AnyEvent->timer(after => $seconds, cb => sub { });
            AnyEvent::Loop::one_event();
        }
    );
}

sub _ioasync {
    my ($loop, $handle, $is_watched);
    return (
        sub {
            my ($descriptor) = @_;
            $loop ||= IO::Async::Loop->new;
            $loop->unwatch_io(handle => $handle, on_read_ready => 1) if $is_watched;
            ($handle, $is_watched) = (_handle($descriptor), 0);
        },
        sub {
            my ($seconds) = @_;
            if (!$is_watched) {
                $is_watched = 1;
                $loop->watch_io(
                    handle        => $handle,
                    on_read_ready => sub {
                        $loop->unwatch_io(handle => $handle, on_read_ready => 1);
                        $is_watched = 0;
                    }
                );
            }
            $loop->loop_once($seconds);
        }
    );
}

sub _mojo {
    my ($reactor, $handle, $is_watched);
    return (
        sub {
            my ($descriptor) = @_;
            $reactor ||= Mojo::IOLoop->singleton->reactor;
            $reactor->remove($handle) if $is_watched;
            ($handle, $is_watched) = (_handle($descriptor), 0);
        },
        sub {
            my ($seconds) = @_;
            if (!$is_watched) {
                $is_watched = 1;
                $reactor->io($handle => sub { $reactor->remove($handle); $is_watched = 0 })->watch($handle, 1, 0);
            }
            my $timer = defined $seconds ? $reactor->timer($seconds => sub { }) : undef;
            $reactor->one_tick;
            $reactor->remove($timer) if defined $timer;
        }
    );
}

1;

__END__

=head1 NAME

Oribi::Loop - runs the event loop of the app in a worker

=head1 DESCRIPTION

With C<--loop> a worker waits in an event loop that the app has loaded: L<EV>, L<AnyEvent> (over EV, over its own loop, or over
L<IO::Async>), L<IO::Async::Loop> or L<Mojo::IOLoop>. So many requests can wait in the app at once. C<psgi.nonblocking> is then true.

=cut
