package Oribi::PAGI::Http;
use strict;
use warnings;
use parent 'Oribi::PAGI::Response';
use Oribi::PAGI::Connection ();
use Oribi::PAGI::Scope ();

our $VERSION = '0.1.0';

my %METHODS = (
    'http.response.start'    => 'start_response',
    'http.response.body'     => 'send_content',
    'http.response.trailers' => 'send_trailers',
    'http.fullflush'         => '_flush_event',
);

sub begin {
    my ($class, $app, $env, $state, $respond) = @_;
    my $self  = $class->SUPER::new($env, $respond);
    my $scope = Oribi::PAGI::Scope::of('http', $env, $state);
    $self->{connection} = Oribi::PAGI::Connection->new($self->logger);
    @{$scope}{qw(pagi.connection pagi.transport)} = @{$self}{qw(connection transport)};
    $scope->{extensions}{fullflush} = {};
    $self->call($app, $scope);
    return;
}

sub method_for { my ($self, $type) = @_; return $METHODS{$type} }

sub next_event {
    my ($self) = @_;
    return { type => 'http.disconnect' } if $self->{is_gone} || $self->{is_complete};
    return $self->next_content('http.request');
}

sub has_started   { my ($self) = @_; return $self->{connection}->note_start }
sub has_completed { my ($self) = @_; return $self->{connection}->note_completion }
sub has_gone      { my ($self, $reason) = @_; return $self->{connection}->note_disconnect($reason) }

sub _flush_event {
    my ($self, $event) = @_;
    die "'$event->{type}': no response has started\n" if !$self->is_begun;
    $self->flush if !$self->{is_complete};
    return;
}

sub app_ended {
    my ($self, $error) = @_;
    return if $self->{is_gone} || $self->{is_complete};
    return $self->close_response if !defined $error && $self->{awaits_trailers};
    if (!defined $error) {
        my $what = $self->is_begun ? 'before its response was complete' : 'without a response';
        $self->log(error => "the app has ended $what");
    }
    $self->fail;
    return;
}

1;

__END__

=head1 NAME

Oribi::PAGI::Http - the scope http

=cut
