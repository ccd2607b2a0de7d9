package Oribi::PAGI;
use strict;
use warnings;
use Oribi::PAGI::Exchange ();
use Oribi::PAGI::Http ();
use Oribi::PAGI::Lifespan ();
use Oribi::PAGI::Loop ();
use Oribi::PAGI::Scope ();
use Oribi::PAGI::Sse ();
use Oribi::PAGI::WebSocket ();
use POSIX ();
use Scalar::Util qw(blessed reftype);

our $VERSION = '0.1.0';

# How long WebSockets and event streams, and their apps, may take to end with their worker, in seconds.
use constant GRACE => 3;

# The apps of this process, in the order in which they were loaded.
my @lifespans;

sub wrap {
    my ($class, $app) = @_;
    $app = $app->to_app if blessed $app && $app->can('to_app');
    die "a PAGI app is a code reference, not " . (defined $app ? ref $app || 'a plain value' : 'undef') . "\n"
        if (reftype $app // q{}) ne 'CODE';
    my $lifespan = Oribi::PAGI::Lifespan->new($app);
    push @lifespans, $lifespan;
    return sub {
        my ($env) = @_;
        my $scope_class = _class_for($env);
        return sub { $scope_class->begin($app, $env, $lifespan->state, @_) };
    };
}

sub _class_for {
    my ($env) = @_;
    return 'Oribi::PAGI::WebSocket' if Oribi::PAGI::WebSocket->is_handshake($env);
    return 'Oribi::PAGI::Sse'       if Oribi::PAGI::Sse->is_wanted($env);
    return 'Oribi::PAGI::Http';
}

sub is_used { return scalar @lifespans }

# Adds the lifespan to the hooks of the workers.
sub add_hooks {
    my ($class, $hooks) = @_;
    my ($start, $end) = @{$hooks}{qw(after_fork child_exit)};
    $hooks->{after_fork} = sub {
        my ($worker) = @_;
        $start->(@_) if $start;
        Oribi::PAGI::Loop::prepare();
        for my $index (0 .. $#lifespans) {
            next if $lifespans[$index]->start($worker);
            # The worker has no client yet. Its supervisor reports the rest.
            $_->stop for reverse @lifespans[0 .. $index - 1];
            POSIX::_exit(1);
        }
    };
    $hooks->{child_exit} = sub {
        $class->stop;
        Oribi::PAGI::Loop::run_until(sub { !Oribi::PAGI::Exchange->lasting && !Oribi::PAGI::WebSocket->closing }, GRACE);
        $_->stop for reverse @lifespans;
        $end->(@_) if $end;
    };
    return;
}

# The worker is about to end: connections without an end of their own are ended.
sub stop { return Oribi::PAGI::Exchange->stop_all }

1;

__END__

=head1 NAME

Oribi::PAGI - runs PAGI apps

=head1 SYNOPSIS

    oribi app.pagi
    oribi --interface pagi app.pl

    # in an app.psgi
    use Oribi::PAGI;
    builder {
        mount '/live' => Oribi::PAGI->wrap($pagi_app);
        mount '/'     => $psgi_app;
    };

=head1 DESCRIPTION

PAGI is an interface between servers and apps that wait: an app is a code reference C<async sub ($scope, $receive, $send)>.
Oribi runs it over L<IO::Async::Loop>, with the scopes C<http>, C<sse>, C<websocket> and C<lifespan> of version 0.3 of the
specification.

=head1 METHODS

=head2 wrap($app)

Returns a PSGI app that runs a PAGI app. It needs C<--loop ioasync>, which is the default where an app has called this method.

=cut
