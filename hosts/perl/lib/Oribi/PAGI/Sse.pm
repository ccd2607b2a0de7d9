package Oribi::PAGI::Sse;
use strict;
use warnings;
use parent 'Oribi::PAGI::Response';
use Oribi::PAGI::Loop ();
use Oribi::PAGI::Scope ();
use Scalar::Util qw(weaken);

our $VERSION = '0.1.0';

my %METHODS = (
    'sse.start'               => '_start',
    'sse.send'                => '_send_event',
    'sse.comment'             => '_send_comment',
    'sse.keepalive'           => '_set_keepalive',
    'sse.close'               => '_close',
    'http.fullflush'          => '_check_stream',
    'sse.http.response.start' => 'start_response',
    'sse.http.response.body'  => '_decline_content',
);

# Whether the client accepts a stream of events.
sub is_wanted {
    my ($class, $env) = @_;
    my $accept = $env->{HTTP_ACCEPT};
    return defined $accept && $accept =~ m{(?:\A|,)\s*text/event-stream\s*(?:[,;]|\z)}i;
}

sub begin {
    my ($class, $app, $env, $state, $respond) = @_;
    my $self  = $class->SUPER::new($env, $respond);
    my $scope = Oribi::PAGI::Scope::of('sse', $env, $state);
    $scope->{'pagi.transport'} = $self->{transport};
    # Each event is sent at once.
    $scope->{extensions}{fullflush} = {};
    $self->call($app, $scope);
    return;
}

sub method_for { my ($self, $type) = @_; return $METHODS{$type} }

sub lasts { my ($self) = @_; return $self->{is_stream} && !$self->{is_gone} && !$self->{is_complete} }

sub next_event {
    my ($self) = @_;
    return { type => 'sse.disconnect', reason => $self->{reason} // q{} } if $self->{is_gone} || $self->{is_complete};
    return $self->next_content('sse.request');
}

sub _start {
    my ($self, $event) = @_;
    my $status = $event->{status} // 200;
    my @fields = Oribi::PAGI::Exchange::check_fields($event);
    my %given  = map { lc $fields[2 * $_] => 1 } 0 .. @fields / 2 - 1;
    my @more;
    push @more, ['content-type',  'text/event-stream'] if !$given{'content-type'};
    push @more, ['cache-control', 'no-cache']          if !$given{'cache-control'};
    $self->start_response({ %{$event}, status => $status, headers => [@{ $event->{headers} // [] }, @more], trailers => 0 });
    $self->{is_stream} = 1;
    $self->flush;
    $self->_arm(@{ delete $self->{keepalive} }) if $self->{keepalive};
    $self->note_lasting;
    return;
}

sub _check_stream {
    my ($self, $event) = @_;
    die "'$event->{type}': the client gets another response than a stream\n" if !$self->{is_stream} && $self->is_begun;
    die "'$event->{type}': send sse.start first\n" if !$self->{is_stream};
    die "'$event->{type}': the stream is closed\n" if $self->{is_complete};
    return;
}

sub _send_event {
    my ($self, $event) = @_;
    $self->_check_stream($event);
    my $text = q{};
    for my $key (qw(event id)) {
        next if !defined $event->{$key};
        my $value = Oribi::PAGI::Exchange::check_text($event, $key);
        die "'$event->{type}': $key has a line end\n" if $value =~ /[\r\n]/;
        $text .= "$key: $value\n";
    }
    my $retry = Oribi::PAGI::Exchange::check_integer($event, 'retry', undef);
    $text .= "retry: $retry\n" if defined $retry;
    die "'$event->{type}': data is missing\n" if !defined $event->{data};
    my $data = Oribi::PAGI::Exchange::check_text($event, 'data');
    $text .= "data: $_\n" for length $data ? split /\r\n|\r|\n/, $data, -1 : q{};
    return $self->write("$text\n");
}

sub _comment {
    my ($event) = @_;
    my $text = defined $event->{comment} ? Oribi::PAGI::Exchange::check_text($event, 'comment') : q{};
    $text = ":$text" if $text !~ /\A:/;
    # A line end begins another comment, and no field.
    $text =~ s/\r\n|\r|\n/\n:/g;
    return "$text\n\n";
}

sub _send_comment {
    my ($self, $event) = @_;
    $self->_check_stream($event);
    return $self->write(_comment($event));
}

sub _set_keepalive {
    my ($self, $event) = @_;
    $self->_check_stream($event) if $self->is_begun;
    my $interval = Oribi::PAGI::Exchange::check_number($event, 'interval', 0);
    my $comment  = _comment($event);
    Oribi::PAGI::Loop::forget(delete $self->{timer});
    $self->{keepalive} = $interval > 0 ? [$interval, $comment] : undef;
    # An app may ask for it before the stream starts.
    $self->_arm(@{ delete $self->{keepalive} }) if $self->{is_stream} && $self->{keepalive};
    return;
}

sub _arm {
    my ($self, $interval, $comment) = @_;
    my $weak = $self;
    weaken $weak;
    $self->{timer} = Oribi::PAGI::Loop::after($interval, sub { $weak->_beat($interval, $comment) if $weak });
    return;
}

sub _beat {
    my ($self, $interval, $comment) = @_;
    # A client that has not taken everything needs no sign of life.
    $self->write($comment) if !$self->{transport}->buffered_amount;
    $self->_arm($interval, $comment);
    return;
}

sub _close {
    my ($self, $event) = @_;
    return if $self->{is_stream} && $self->{is_complete};
    $self->_check_stream($event);
    $self->{reason} = $event->{reason} // q{};
    $self->close_response;
    return;
}

sub _decline_content {
    my ($self, $event) = @_;
    die "'$event->{type}': the stream has started already\n" if $self->{is_stream};
    die "'$event->{type}': a file cannot decline a stream\n"  if grep { defined $event->{$_} } qw(file fh);
    return $self->send_content($event);
}

sub release {
    my ($self) = @_;
    Oribi::PAGI::Loop::forget(delete $self->{timer});
    return $self->SUPER::release;
}

# The worker ends. The client gets the end of the stream, and comes again.
sub server_stops {
    my ($self) = @_;
    $self->{reason} = 'server_shutdown';
    $self->close_response;
    $self->{is_gone} = 1;
    return;
}

sub app_ended {
    my ($self, $error) = @_;
    return if $self->{is_gone} || $self->{is_complete};
    return $self->close_response if $self->{is_stream} && !defined $error;
    $self->log(error => 'the app has ended without a whole response') if !defined $error;
    $self->fail;
    return;
}

1;

__END__

=head1 NAME

Oribi::PAGI::Sse - the scope sse

=cut
