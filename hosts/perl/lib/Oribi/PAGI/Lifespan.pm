package Oribi::PAGI::Lifespan;
use strict;
use warnings;
use parent 'Oribi::PAGI::Exchange';
use Oribi::PAGI::Loop ();
use Oribi::PAGI::Scope ();

our $VERSION = '0.1.0';

my %METHODS = map { ("lifespan.$_" => '_note') } qw(startup.complete startup.failed shutdown.complete shutdown.failed);

sub new {
    my ($class, $app) = @_;
    return bless { app => $app, state => {}, events => [], answers => {} }, $class;
}

sub state { return shift->{state} }    ## no critic (ProhibitBuiltinHomonyms) -- a method

sub method_for { my ($self, $type) = @_; return $METHODS{$type} }
sub is_deaf    { return 0 }
sub next_event { return shift @{ shift->{events} } }

# Runs the startup of the app in a worker. False if the app refuses to start.
sub start {
    my ($self, $worker) = @_;
    push @{ $self->{events} }, { type => 'lifespan.startup' };
    $self->{is_running} = 1;
    my $specification = Oribi::PAGI::Scope::SPECIFICATION;
    $self->call(
        $self->{app},
        {
            type       => 'lifespan',
            pagi       => { version => $specification, spec_version => $specification, is_worker => 1, worker_num => $worker },
            state      => $self->{state},
            extensions => {},
        }
    );
    Oribi::PAGI::Loop::run_until(sub { !$self->{is_running} || %{ $self->{answers} } });
    my $failure = $self->{answers}{'startup.failed'};
    $self->log(error => 'the startup of the app failed' . (length $failure ? ": $failure" : q{})) if defined $failure;
    return !defined $failure;
}

# Runs the shutdown of the app, if it has said that it has started.
sub stop {
    my ($self) = @_;
    return if !$self->{is_running} || !defined $self->{answers}{'startup.complete'};
    push @{ $self->{events} }, { type => 'lifespan.shutdown' };
    $self->deliver;
    my $answers = $self->{answers};
    Oribi::PAGI::Loop::run_until(sub { !$self->{is_running} || grep { /shutdown/ } keys %{$answers} });
    my $failure = $answers->{'shutdown.failed'};
    $self->log(error => 'the shutdown of the app failed' . (length $failure ? ": $failure" : q{})) if defined $failure;
    return;
}

sub _note {
    my ($self, $event) = @_;
    my ($answer) = $event->{type} =~ /\Alifespan[.](.*)\z/;
    $self->{answers}{$answer} = $event->{message} // q{};
    return;
}

# An app may end this call, or die, to decline the protocol: see `_finish`.
sub app_ended {
    my ($self, $error) = @_;
    $self->{is_running} = 0;
    return;
}

# The reason is no error before the startup is complete.
sub _finish {
    my ($self, $error) = @_;
    if (defined $error && !defined $self->{answers}{'startup.complete'}) {
        $error =~ s/\s+\z//;
        $self->log(info => "the app takes no events of its lifespan: $error");
        undef $error;
    }
    return $self->SUPER::_finish($error);
}

1;

__END__

=head1 NAME

Oribi::PAGI::Lifespan - the scope lifespan: start and end of a worker

=cut
