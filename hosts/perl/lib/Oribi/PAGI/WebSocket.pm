package Oribi::PAGI::WebSocket;
use strict;
use warnings;
use parent 'Oribi::PAGI::Response';
use Digest::SHA ();
use Oribi::PAGI::Frames ();
use Oribi::PAGI::Loop ();
use Oribi::PAGI::Scope ();
use Oribi::PAGI::Socket ();
use Scalar::Util qw(refaddr weaken);

our $VERSION = '0.1.0';

# The messages that may wait for the app, in number and in bytes, before no more are read.
use constant { MOST_WAITING => 64, MOST_BYTES => 1024 * 1024 };

# The time in seconds for a client to answer a close.
use constant CLOSE_TIME => 5;

# Fields that are the server's.
my $HANDSHAKE = qr/\A(?:upgrade|connection|content-length|sec-websocket-(?:accept|extensions|protocol))\z/;

my %METHODS = (
    'websocket.accept'              => '_accept',
    'websocket.send'                => '_send_message',
    'websocket.close'               => '_close',
    'websocket.keepalive'           => '_set_keepalive',
    'websocket.http.response.start' => '_start_denial',
    'websocket.http.response.body'  => '_send_denial',
);

# Whether the request is a handshake that this server can answer.
sub is_handshake {
    my ($class, $env) = @_;
    return
           $env->{REQUEST_METHOD} eq 'GET'
        && ($env->{HTTP_UPGRADE} // q{}) =~ /(?:\A|,)\s*websocket\s*(?:,|\z)/i
        && ($env->{HTTP_CONNECTION} // q{}) =~ /(?:\A|,)\s*upgrade\s*(?:,|\z)/i
        && $env->{SERVER_PROTOCOL} eq 'HTTP/1.1'
        && defined $env->{'psgix.io'};
}

sub begin {
    my ($class, $app, $env, $state, $respond) = @_;
    my ($key, $version) = map { $_ // q{} } @{$env}{qw(HTTP_SEC_WEBSOCKET_KEY HTTP_SEC_WEBSOCKET_VERSION)};
    my @type = ('Content-Type' => 'text/plain');
    return $respond->([426, [@type, 'Sec-WebSocket-Version' => 13], ["Upgrade Required\n"]]) if $version ne '13';
    return $respond->([400, [@type], ["Bad Request\n"]]) if $key !~ m{\A[A-Za-z0-9+/]{22}==\z};
    my $self  = $class->SUPER::new($env, $respond);
    my $scope = Oribi::PAGI::Scope::of('websocket', $env, $state);
    @{$self}{qw(state key io)} = ('connecting', $key, $env->{'psgix.io'});
    @{$self}{qw(events bytes)} = ([{ type => 'websocket.connect' }], 0);
    my $protocols = $env->{HTTP_SEC_WEBSOCKET_PROTOCOL} // q{};
    $scope->{subprotocols} = [$protocols =~ /[^,\s]+/g];
    $scope->{scheme}       = $scope->{scheme} eq 'https' ? 'wss' : 'ws';
    $scope->{extensions}{'websocket.http.response'} = {};
    $scope->{'pagi.transport'} = $self->{transport};
    $self->call($app, $scope);
    return;
}

# Those whose apps need not be there when their connections end.
my %closing;

sub closing { return scalar keys %closing }

sub method_for { my ($self, $type) = @_; return $METHODS{$type} }

sub is_deaf { my ($self) = @_; return $self->{last_event} || ($self->{state} eq 'connecting' && $self->{is_gone}) }

sub lasts { my ($self) = @_; return $self->{state} ne 'connecting' }

# ---- Events for the app

sub next_event {
    my ($self) = @_;
    my $event = shift @{ $self->{events} };
    if ($event) {
        $self->{bytes} -= length($event->{text} // $event->{bytes} // q{});
        $self->{socket}->resume if $self->{socket} && @{ $self->{events} } < MOST_WAITING && $self->{bytes} < MOST_BYTES;
        return $event;
    }
    return $self->{last_event} && { %{ $self->{last_event} } };
}

sub has_gone {
    my ($self, $reason) = @_;
    $self->_end(1006, $reason) if $self->{state} eq 'connecting';
    return;
}

# The connection has ended.
sub _end {
    my ($self, $code, $reason) = @_;
    return if $self->{state} eq 'closed';
    $self->{state} = 'closed';
    Oribi::PAGI::Loop::forget(delete $self->{$_}) for qw(ping_timer pong_timer close_timer);
    delete $closing{ refaddr $self };
    $self->_report_end($code, $reason);
    return;
}

# The connection is over for the app.
sub _report_end {
    my ($self, $code, $reason) = @_;
    return if $self->{last_event};
    $self->{last_event} = { type => 'websocket.disconnect', code => $code, reason => $reason };
    $self->{transport}->end;
    $self->deliver;
    return;
}

sub _receive {
    my ($self, $bytes) = @_;
    my @found = $self->{frames}->read($bytes);
    while (my ($type, $content) = splice @found, 0, 2) {
        if ($type eq 'text' || $type eq 'binary') {
            next if $self->{state} ne 'open';
            push @{ $self->{events} }, { type => 'websocket.receive', ($type eq 'text' ? 'text' : 'bytes') => $content };
            $self->{bytes} += length $content;
            # The app may answer it, before the client's next mistake ends the connection.
            $self->deliver;
        } elsif ($type eq 'ping') {
            $self->_pong($content);
        } elsif ($type eq 'pong') {
            Oribi::PAGI::Loop::forget(delete $self->{pong_timer});
        } elsif ($type eq 'close') {
            return $self->_answer_close(split /:/, $content, 2);
        } else {
            my ($code, $reason) = @{$content};
            $self->{socket}->write(Oribi::PAGI::Frames::close_frame($code, $reason)) if $self->{state} eq 'open';
            return $self->_hang_up($code, 'protocol_error');
        }
    }
    # Pings and the end of the connection then wait, too.
    $self->{socket}->pause if $self->{socket} && (@{ $self->{events} } >= MOST_WAITING || $self->{bytes} >= MOST_BYTES);
    return;
}

# A client that takes nothing gets no answers that would pile up.
sub _pong {
    my ($self, $content) = @_;
    return if $self->{state} ne 'open' || $self->{transport}->buffered_amount >= $self->{transport}->high_water_mark;
    $self->{socket}->write(Oribi::PAGI::Frames::frame(Oribi::PAGI::Frames::PONG, $content));
    return;
}

sub _answer_close {
    my ($self, $code, $reason) = @_;
    $self->{socket}->write(Oribi::PAGI::Frames::close_frame($code, q{})) if $self->{state} eq 'open';
    return $self->_hang_up($code + 0, $reason);
}

sub _hang_up {
    my ($self, $code, $reason) = @_;
    my $socket = $self->{socket};
    $socket->pause;
    $socket->finish;
    $self->_end($code, $reason);
    return;
}

# ---- Events of the app

sub _accept {
    my ($self, $event) = @_;
    die "'$event->{type}': the handshake has been answered already\n" if $self->{state} ne 'connecting' || $self->is_begun;
    my @fields   = Oribi::PAGI::Exchange::check_fields($event);
    my $protocol = $event->{subprotocol};
    die "'$event->{type}': the subprotocol is no token\n" if defined $protocol && $protocol !~ Oribi::PAGI::Exchange::TOKEN;
    my $accept = Digest::SHA::sha1_base64($self->{key} . '258EAFA5-E914-47DA-95CA-C5AB0DC85B11') . q{=};
    my $head   = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n";
    $head .= "Sec-WebSocket-Accept: $accept\r\n";
    $head .= "Sec-WebSocket-Protocol: $protocol\r\n" if defined $protocol;
    while (my ($name, $value) = splice @fields, 0, 2) {
        $head .= "$name: $value\r\n" if lc $name !~ $HANDSHAKE;
    }
    my $weak = $self;
    weaken $weak;
    $self->{frames} = Oribi::PAGI::Frames->new;
    $self->{socket} = Oribi::PAGI::Socket->take(
        delete $self->{io},
        read => sub { $weak->_receive($_[0])         if $weak },
        end  => sub { $weak->_end(1006, $_[0])       if $weak },
        note => sub { $weak->{transport}->note($_[0]) if $weak },
    );
    $self->{state} = 'open';
    # The connection is the server's no longer, nor is its end.
    delete $self->{respond};
    $self->{socket}->write("$head\r\n");
    $self->_arm(@{ delete $self->{keepalive} }) if $self->{keepalive};
    $self->note_lasting;
    return;
}

sub _send_message {
    my ($self, $event) = @_;
    die "'$event->{type}': send websocket.accept first\n" if $self->{state} eq 'connecting';
    die "'$event->{type}': exactly one of text and bytes must be given\n" if defined $event->{text} == defined $event->{bytes};
    my $is_text = defined $event->{text};
    my $content
        = $is_text ? Oribi::PAGI::Exchange::check_text($event, 'text') : Oribi::PAGI::Exchange::check_bytes($event, 'bytes');
    return if $self->{state} ne 'open';
    my $type = $is_text ? Oribi::PAGI::Frames::TEXT : Oribi::PAGI::Frames::BINARY;
    $self->{socket}->write(Oribi::PAGI::Frames::frame($type, $content));
    return $self->{transport}->room;
}

sub _close {
    my ($self, $event) = @_;
    my $code   = Oribi::PAGI::Exchange::check_integer($event, 'code', 1000);
    my $reason = $event->{reason} // q{};
    if ($self->{state} eq 'connecting') {
        die "'$event->{type}': the handshake has been answered already\n" if $self->is_begun;
        return $self->_deny;
    }
    die "'$event->{type}': $code is no code for a close\n" if !Oribi::PAGI::Frames::is_code($code);
    $self->_begin_close($code, $reason, $reason);
    return;
}

# A response other than the WebSocket has been sent.
sub has_completed {
    my ($self) = @_;
    $self->_end(1006, q{}) if $self->{state} eq 'connecting';
    return;
}

sub _deny {
    my ($self) = @_;
    $self->start_response({ type => 'websocket.close', status => 403, headers => [['content-type', 'text/plain']] });
    $self->send_content({ type => 'websocket.close', body => "Forbidden\n" });
    $self->_end(1006, q{});
    return;
}

# Sends a close. The app learns of the end when the client has answered, or has not done so for some time.
sub _begin_close {
    my ($self, $code, $reason, $told) = @_;
    return if $self->{state} ne 'open';
    $self->{state} = 'closing';
    $self->{socket}->write(Oribi::PAGI::Frames::close_frame($code, $reason));
    $self->{socket}->resume;
    my $weak = $self;
    weaken $weak;
    $self->{close_timer} = Oribi::PAGI::Loop::after(
        CLOSE_TIME,
        sub {
            return if !$weak || !$weak->{socket};
            $weak->{socket}->end;
            $weak->_end($code, $told);
        }
    );
    return;
}

sub _set_keepalive {
    my ($self, $event) = @_;
    my $interval = Oribi::PAGI::Exchange::check_number($event, 'interval', 0);
    my $timeout  = Oribi::PAGI::Exchange::check_number($event, 'timeout',  undef);
    Oribi::PAGI::Loop::forget(delete $self->{$_}) for qw(ping_timer pong_timer);
    $self->{keepalive} = $interval > 0 ? [$interval, $timeout] : undef;
    # An app may ask for it before it accepts.
    $self->_arm(@{ delete $self->{keepalive} }) if $self->{state} eq 'open' && $self->{keepalive};
    return;
}

sub _arm {
    my ($self, $interval, $timeout) = @_;
    my $weak = $self;
    weaken $weak;
    $self->{ping_timer} = Oribi::PAGI::Loop::after($interval, sub { $weak->_ping($interval, $timeout) if $weak });
    return;
}

sub _ping {
    my ($self, $interval, $timeout) = @_;
    return if $self->{state} ne 'open';
    $self->{socket}->write(Oribi::PAGI::Frames::frame(Oribi::PAGI::Frames::PING, q{}));
    if (defined $timeout && !$self->{pong_timer}) {
        my $weak = $self;
        weaken $weak;
        $self->{pong_timer} = Oribi::PAGI::Loop::after(
            $timeout,
            sub {
                return if !$weak || !$weak->{socket};
                $weak->{socket}->end;
                $weak->_end(1006, 'keepalive_timeout');
            }
        );
    }
    $self->_arm($interval, $timeout);
    return;
}

# Once the connection is accepted, these have no effect.
sub _start_denial {
    my ($self, $event) = @_;
    $self->start_response($event) if $self->{state} eq 'connecting';
    return;
}

sub _send_denial {
    my ($self, $event) = @_;
    return if $self->{state} ne 'connecting';
    die "'$event->{type}': a file cannot deny a handshake\n" if grep { defined $event->{$_} } qw(file fh);
    return $self->send_content($event);
}

# ---- The end

# The worker ends. The client may answer the close, and the app need not wait for that.
sub server_stops {
    my ($self) = @_;
    return if $self->{state} ne 'open';
    $closing{ refaddr $self } = $self;
    $self->_begin_close(1001, 'the server stops', 'server_shutdown');
    $self->_report_end(1006, 'server_shutdown');
    return;
}

sub app_ended {
    my ($self, $error) = @_;
    if ($self->{state} eq 'connecting') {
        return if $self->{is_gone} || $self->{is_complete};
        $self->log(error => 'the app has ended without an answer to the handshake') if !defined $error;
        return $self->fail;
    }
    $self->_begin_close(defined $error ? 1011 : 1000, q{}, q{});
    $closing{ refaddr $self } = $self if $self->{state} eq 'closing';
    return;
}

1;

__END__

=head1 NAME

Oribi::PAGI::WebSocket - the scope websocket

=cut
