# The call of an app for one scope, and the events in both directions.
package Oribi::PAGI::Exchange;
use strict;
use warnings;
use Future ();
use Oribi::PAGI::Loop ();
use Scalar::Util qw(blessed refaddr weaken);

our $VERSION = '0.1.0';

# A name of RFC 9110.
use constant TOKEN => qr/\A[!#\$%&'*+.^_`|~0-9A-Za-z-]+\z/;

# Calls that have not ended, by their addresses: nothing else keeps the future of an app.
my %running;

# Those that last as long as their clients, which no worker waits for.
sub lasting { return grep { $_->lasts } values %running }

sub lasts { return 0 }

# Ends those that last, now and later: the worker is about to end.
my $is_stopping = 0;

sub stop_all {
    $is_stopping = 1;
    for my $exchange (lasting()) {
        # The end of another one may have ended it, and a fault in one keeps no other open.
        next if !$exchange->lasts;
        eval { $exchange->server_stops; 1 } or $exchange->log(error => "cannot end a connection: $@");
    }
    return;
}

# To be called when an exchange has begun to last.
sub note_lasting {
    my ($self) = @_;
    $self->server_stops if $is_stopping;
    return;
}

sub server_stops { return }

# Calls the app. `name` is for messages.
sub call {
    my ($self, $app, $scope) = @_;
    $running{ refaddr $self } = $self;
    @{$self}{qw(waiters scope_type)} = ([], $scope->{type});
    my $future = eval { $app->($scope, sub { $self->receive }, sub { $self->_send(@_) }) };
    if (!blessed $future || !$future->can('on_ready')) {
        my $error = length $@ ? $@ : "it returned no future: a PAGI app is an async sub\n";
        $self->_finish("$error");
        return;
    }
    $self->{future} = $future;
    $future->on_ready(
        sub {
            my ($ended) = @_;
            my ($error) = $ended->is_cancelled ? ("its future was cancelled\n") : $ended->failure;
            $self->_finish($error);
        }
    );
    return;
}

sub _finish {
    my ($self, $error) = @_;
    delete $running{ refaddr $self };
    delete $self->{future};
    $self->log(error => "the app died: $error") if defined $error;
    if (!eval { $self->app_ended($error); 1 }) {
        $self->log(error => "cannot end the request: $@");
    }
    return;
}

sub receive {
    my ($self) = @_;
    my $event = $self->next_event;
    return Future->done($event) if $event;
    my $future = Oribi::PAGI::Loop::future();
    push @{ $self->{waiters} }, $future;
    return $future;
}

# Passes events to those who wait for them. A future that the app has cancelled takes none.
sub deliver {
    my ($self) = @_;
    my $waiters = $self->{waiters};
    while (@{$waiters}) {
        if ($waiters->[0]->is_ready) {
            shift @{$waiters};
            next;
        }
        my $event = $self->next_event or return;
        (shift @{$waiters})->done($event);
    }
    return;
}

# A mistake in an event is an error of the app, at the place where it sends the event.
sub _send {
    my ($self, $event) = @_;
    my ($package, $file, $line) = caller 1;
    my $future = eval {
        die "an event is a hash reference with a type\n" if ref $event ne 'HASH' || !defined $event->{type};
        my $method = $self->method_for($event->{type});
        die "'$event->{type}' is no event of the scope $self->{scope_type}\n" if !$method;
        # An app that sends without end lets the loop come round, also when its client has gone.
        my $room = $self->is_deaf ? Oribi::PAGI::Loop::next_round() : $self->$method($event);
        $room || Future->done;
    };
    return $future if $future;
    my $error = $@;
    $error =~ s/\n\z// if !ref $error;
    return Future->fail(ref $error ? $error : "$error at $file line $line.\n");
}

sub log {    ## no critic (ProhibitBuiltinHomonyms) -- a method
    my ($self, $level, $message) = @_;
    my $text = defined $self->{name} ? "$self->{name}: $message" : $message;
    $text =~ s/\s+\z//;
    utf8::encode($text) if $text =~ /[^\x00-\xff]/;
    Oribi::log_message({ level => $level, message => $text });
    return;
}

# Returns code that logs errors, and keeps nothing alive.
sub logger {
    my ($self) = @_;
    my $weak = $self;
    weaken $weak;
    return sub {
        my ($message) = @_;
        $weak->log(error => $message) if $weak;
    };
}

# ---- Checks of the fields of events. Each dies with a message.

sub check_number {
    my ($event, $key, $default) = @_;
    my $value = $event->{$key};
    return $default if !defined $value;
    die "'$event->{type}': $key must be a number that is not negative\n" if ref $value || $value !~ /\A\d+(?:[.]\d+)?\z/;
    return $value;
}

sub check_integer {
    my ($event, $key, $default) = @_;
    my $value = $event->{$key};
    return $default if !defined $value;
    die "'$event->{type}': $key must be an integer that is not negative\n" if ref $value || $value !~ /\A\d{1,18}\z/;
    return $value;
}

sub check_bytes {
    my ($event, $key) = @_;
    my $value = $event->{$key} // q{};
    die "'$event->{type}': $key must be bytes, not a reference\n" if ref $value;
    utf8::downgrade($value, 1) or die "'$event->{type}': wide character in $key: it must be encoded into bytes\n";
    return $value;
}

# A text as UTF-8.
sub check_text {
    my ($event, $key) = @_;
    my $value = $event->{$key};
    die "'$event->{type}': $key must be a text, not a reference\n" if ref $value;
    die "'$event->{type}': $key has characters that are none of Unicode\n" if $value =~ /[\x{D800}-\x{DFFF}]|[^\x{0}-\x{10FFFF}]/;
    utf8::encode($value);
    return $value;
}

# Returns the fields as names and values in turn, as PSGI has them. Those that frame messages are the server's.
sub check_fields {
    my ($event) = @_;
    my $fields = $event->{headers} // [];
    die "'$event->{type}': headers must be an array reference of pairs\n" if ref $fields ne 'ARRAY';
    my @flat;
    for my $field (@{$fields}) {
        die "'$event->{type}': a header must be an array reference of a name and a value\n"
            if ref $field ne 'ARRAY' || @{$field} != 2 || grep { !defined || ref } @{$field};
        my ($name, $value) = @{$field};
        die "'$event->{type}': a header has a name that is no token\n" if $name !~ TOKEN;
        die "'$event->{type}': the header $name has a line end or a NUL in its value\n" if $value =~ /[\r\n\0]/;
        utf8::downgrade($value, 1) or die "'$event->{type}': wide character in the header $name\n";
        push @flat, $name, $value if lc $name ne 'transfer-encoding';
    }
    return @flat;
}

1;

__END__

=head1 NAME

Oribi::PAGI::Exchange - the call of a PAGI app, and its events

=cut
