# The stream in the IOLoop keeps an exchange alive.
package Mojo::Server::Oribi::Exchange;
use Mojo::Base -base;

use IO::Socket ();
use Mojo::IOLoop;
use Mojo::IOLoop::Stream;
use Mojo::Server::Oribi::Stream;
use Mojo::Transaction::WebSocket;
use Mojo::WebSocket ();
use Oribi           ();
use Scalar::Util qw(weaken);

our $VERSION = '0.1.0';

sub begin {
    my ($class, $server, $tx, $socket, $env, $respond) = @_;
    my $self = $class->new(tx => $tx, socket => $socket, respond => $respond, log => $server->app->log, offset => 0);
    my $stream = $self->{stream} = Mojo::Server::Oribi::Stream->new;
    $stream->{timeout} = $ENV{MOJO_INACTIVITY_TIMEOUT} // 30;
    $tx->connection(Mojo::IOLoop->stream($stream));
    $stream->on(timeout => sub { $self->_time_out });
    $stream->on(close   => sub { $self->_end });
    my $exchange = $self;
    weaken $exchange;
    # By the environment, because middleware may have put its own responder and writer in place of Oribi's.
    $env->{'oribi.on_gone'}->(sub { $exchange->_end if $exchange });
    $env->{'oribi.on_room'}->(sub { $exchange->_go_on if $exchange });
    $tx->on(resume => sub { $exchange->_resume if $exchange });
    my $ws = $self->{ws} = $socket ? Mojo::Transaction::WebSocket->new(handshake => $tx) : undef;
    $self->{dispatches} = 1;
    $server->emit(request => $ws ? Mojo::WebSocket::server_handshake($ws) : $tx);
    $self->{dispatches} = 0;
    $self->_write;
    return;
}

sub _resume {
    my $self = shift;
    $self->{resumed} = 1;
    $self->_write;
    return;
}

# The response is complete, or never will be.
sub _end {
    my $self = shift;
    my $tx = delete $self->{tx} or return;
    # A writer cuts an unfinished response off when it is freed.
    delete @{$self}{qw(respond writer socket)};
    $tx->closed;
    my $ws = delete $self->{ws};
    $ws->closed if $ws;
    $self->{stream}->close;
    $self->{stream}->unsubscribe('timeout')->unsubscribe('close');
    return;
}

# The app has sent nothing for a long time.
sub _time_out {
    my $self = shift;
    $self->{log}->trace('Inactivity timeout');
    my $respond = delete $self->{respond};
    $respond->([504, ['Content-Type' => 'text/plain'], ["Gateway Timeout\n"]]) if $respond && !$self->{writer};
    return;
}

# The client has taken what was written.
sub _go_on {
    my $self = shift;
    $self->{full} = 0;
    $self->_write;
    return;
}

# Sends as much as there is room for.
sub _write {
    my $self = shift;
    my $tx   = $self->{tx};
    return if !$tx || !$self->{resumed} || grep { $self->{$_} } qw(dispatches writes full);
    $self->{writes} = 1;
    if (!eval { $self->_send($tx); 1 }) {
        $self->{log}->error("Cannot respond: $@");
        $self->_end;
    }
    $self->{writes} = 0;
    return;
}

sub _send {
    my ($self, $tx) = @_;
    my $res = $tx->res;
    return $self->_upgrade($tx) if $self->{ws} && ($res->code // 0) == 101;
    if (!$self->{writer}) {
        my $hash = $res->fix_headers->headers->to_hash(1);
        my @head = ($res->code // 404, [map { my $name = $_; map { ($name => $_) } @{ $hash->{$name} } } keys %{$hash}]);
        my $respond = delete $self->{respond} or return;
        if ($tx->is_empty) {
            $respond->([@head, []]);
            return $self->_end;
        }
        my $content = $res->content;
        if (!$content->is_dynamic && !$content->is_multipart && !$content->asset->is_file) {
            $respond->([@head, [$self->_whole($res)]]);
            return $self->_end;
        }
        $self->{writer} = $respond->([@head]);
    }
    my $chunk = $res->get_body_chunk($self->{offset});
    # The callbacks of the app may have ended the response, and without a chunk it goes on later.
    my $writer = $self->{writer};
    return if !$writer || !defined $chunk;
    $self->{stream}->note_activity;
    if (length $chunk) {
        $self->{offset} += length $chunk;
        $self->{full} = 1;
        my $is_there = $writer->write($chunk);
        return if $is_there;
    } else {
        $writer->close;
    }
    return $self->_end;
}

# The whole content of a response.
sub _whole {
    my ($self, $res) = @_;
    my ($content, $chunk) = (q{});
    $content .= $chunk while defined($chunk = $res->get_body_chunk(length $content)) && length $chunk;
    return $content;
}

# Passes the connection to the IOLoop, as a WebSocket.
sub _upgrade {
    my ($self, $tx) = @_;
    my $ws     = delete $self->{ws};
    my $file   = fileno $self->{socket};
    my $handle = defined $file ? IO::Socket->new : undef;
    if (!$handle || !open $handle, '+<&', $file) {
        $self->{log}->error('Cannot take the connection for a WebSocket');
        $ws->closed;
        return $self->_end;
    }
    $handle->blocking(0);
    # The environment keeps this descriptor, without which the connection ends with the stream.
    close $self->{socket};
    my $head = q{};
    until ($tx->is_finished) {
        my $chunk = $tx->server_write;
        last if !length $chunk;
        $head .= $chunk;
    }
    my $timeout = $self->{stream}{timeout};
    $self->_end;
    my $stream = Mojo::IOLoop::Stream->new($handle);
    $tx->connection(Mojo::IOLoop->stream($stream));
    $stream->timeout($timeout);
    $stream->on(read  => sub { $ws->server_read($_[1]) });
    $stream->on(close => sub { $ws->closed });
    $stream->on(error => sub { $_[0]->close });
    $stream->write($head);
    my $connection = $stream;
    weaken $connection;
    $ws->established(1)->on(resume => sub { _send_frames($_[0], $connection) });
    _send_frames($ws, $connection);
    return;
}

sub _send_frames {
    my ($ws, $stream) = @_;
    return if !$stream || $ws->{oribi_writes};
    local $ws->{oribi_writes} = 1;
    my $frames = $ws->server_write;
    if ($ws->is_finished) {
        $stream->write($frames => sub { $_[0]->close });
    } elsif (length $frames) {
        $stream->write($frames => sub { _send_frames($ws, $_[0]) });
    }
    return;
}

1;

__END__

=encoding utf8

=head1 NAME

Mojo::Server::Oribi::Exchange - a request of a Mojolicious app, and its response

=head1 DESCRIPTION

L<Mojo::Server::Oribi> makes one for each request, from a responder of PSGI. It sends the response when the app resumes its transaction,
a piece at a time when there is room for more.

=cut
