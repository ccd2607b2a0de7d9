# A response over the responder and the writer of PSGI: its head, its content, and the room for it.
package Oribi::PAGI::Response;
use strict;
use warnings;
use parent 'Oribi::PAGI::Exchange';
use Future ();
use Oribi::PAGI::Loop ();
use Oribi::PAGI::Transport ();
use Scalar::Util qw(blessed openhandle weaken);

our $VERSION = '0.1.0';

# The bytes of a file, or of the content of a request, that are handled at a time.
use constant PIECE => 65_536;

sub new {
    my ($class, $env, $respond) = @_;
    my ($path) = $env->{REQUEST_URI} =~ /\A([^?]*)/;
    my $self = bless { respond => $respond, name => "$env->{REQUEST_METHOD} $path", input => $env->{'psgi.input'} }, $class;
    $self->{transport} = Oribi::PAGI::Transport->new($self->logger);
    my $weak = $self;
    weaken $weak;
    $env->{'oribi.on_gone'}->(sub { $weak->note_gone('client_closed') if $weak });
    $env->{'oribi.on_room'}->(sub { $weak->{transport}->note(0)       if $weak });
    $self->{piece} = $self->_read_piece;
    return $self;
}

# ---- The content of the request

sub _read_piece {
    my ($self) = @_;
    my $input = $self->{input} or return q{};
    my $count = $input->read(my $piece, PIECE);
    delete $self->{input} if !$count;
    return $count ? $piece : q{};
}

# Returns the next event with content; undef after the last one.
sub next_content {
    my ($self, $type) = @_;
    return if !defined $self->{piece};
    my $piece = $self->{piece};
    my $next  = $self->_read_piece;
    $self->{piece} = length $next ? $next : undef;
    return { type => $type, body => $piece, more => length $next ? 1 : 0 };
}

# ---- The state of the response

# Whether events have no effect any longer.
sub is_deaf { return shift->{is_gone} }

sub is_begun { my ($self) = @_; return $self->{head} || $self->{writer} || $self->{is_complete} }

sub note_gone {
    my ($self, $reason) = @_;
    return if $self->{is_gone} || $self->{is_complete};
    @{$self}{qw(is_gone reason)} = (1, $reason);
    $self->release;
    $self->has_gone($reason);
    $self->deliver;
    return;
}

sub has_gone      { return }
sub has_completed { return }
sub has_started   { return }

# Without a response the client gets an error; one that has begun is cut.
sub release {
    my ($self) = @_;
    delete @{$self}{qw(respond writer head input)};
    $self->{transport}->end;
    return;
}

sub _complete {
    my ($self) = @_;
    $self->{is_complete} = 1;
    $self->release;
    $self->has_completed;
    $self->deliver;
    return;
}

# ---- Events

sub start_response {
    my ($self, $event) = @_;
    die "'$event->{type}': the response has started already\n" if $self->is_begun;
    my $status = $event->{status} // q{};
    die "'$event->{type}': status must be a number from 200 to 599\n" if ref $status || $status !~ /\A[2-5]\d\d\z/;
    $self->{head} = [$status, [Oribi::PAGI::Exchange::check_fields($event)]];
    $self->{wants_trailers} = $event->{trailers} ? 1 : 0;
    $self->has_started;
    return;
}

sub send_content {
    my ($self, $event) = @_;
    die "'$event->{type}': no response has started\n" if !$self->is_begun;
    die "'$event->{type}': the response is complete\n" if $self->{is_complete} || $self->{awaits_trailers};
    my @sources = grep { defined $event->{$_} } qw(body file fh);
    die "'$event->{type}': only one of body, file and fh may be given\n" if @sources > 1;
    return $self->_send_file($event) if @sources && $sources[0] ne 'body';
    my $body = Oribi::PAGI::Exchange::check_bytes($event, 'body');
    return $self->write($body) if $event->{more};
    if (!$self->{writer} && !$self->{wants_trailers}) {
        $self->_respond($body);
        return $self->_complete;
    }
    my $room = $self->write($body);
    $self->_end_content;
    return $room;
}

sub send_trailers {
    my ($self, $event) = @_;
    die "'$event->{type}': the response has not been started with trailers\n" if !$self->{wants_trailers};
    die "'$event->{type}': the response is complete\n" if $self->{is_complete};
    my @fields = Oribi::PAGI::Exchange::check_fields($event);
    $self->write(q{});
    $self->{writer}->close(\@fields);
    $self->_complete;
    return;
}

sub _end_content {
    my ($self) = @_;
    if ($self->{wants_trailers}) {
        $self->{awaits_trailers} = 1;
    } else {
        $self->close_response;
    }
    return;
}

sub close_response {
    my ($self) = @_;
    $self->write(q{}) if !$self->{writer};
    $self->{writer}->close;
    $self->_complete;
    return;
}

# Gives the whole response, or begins it and returns a writer. If the head is refused, the server has answered with an error.
sub _respond {
    my ($self, @content) = @_;
    my $head    = delete $self->{head};
    my $respond = delete $self->{respond};
    my $writer  = eval { $respond->([@{$head}, @content ? (ref $content[0] ? $content[0] : [@content]) : ()]) };
    if (length $@) {
        my $error = $@;
        $self->note_gone('server_error');
        die $error;
    }
    return $writer;
}

# Writes content, after the head. Returns a future if it waits for the client, else undef.
sub write {    ## no critic (ProhibitBuiltinHomonyms) -- a method
    my ($self, $bytes) = @_;
    if (!$self->{writer}) {
        $self->{writer} = $self->_respond;
        $self->flush if !length $bytes;
    }
    return if !length $bytes;
    my $transport = $self->{transport};
    # It is false once no content can follow: the client has gone, which is reported separately, or the request is a HEAD.
    if ($self->{writer}->write($bytes)) {
        $transport->note($transport->buffered_amount + length $bytes);
    }
    return $transport->room;
}

# The client gets the head now, even if content comes later. Other writers of PSGI send it in their own time.
sub flush {
    my ($self) = @_;
    $self->{writer} ||= $self->_respond;
    my $writer = $self->{writer};
    $writer->flush if blessed $writer && $writer->can('flush');
    return;
}

# ---- Files

sub _send_file {
    my ($self, $event) = @_;
    my $offset = Oribi::PAGI::Exchange::check_integer($event, 'offset', 0);
    my $left   = Oribi::PAGI::Exchange::check_integer($event, 'length', undef);
    my $file   = $event->{fh};
    if (defined $event->{file}) {
        open $file, '<:raw', $event->{file} or die "'$event->{type}': cannot open $event->{file}: $!\n";
        die "'$event->{type}': cannot send $event->{file}: it is no file\n" if !-f $file;
        if (!$self->{writer} && !$self->{wants_trailers} && !$offset && !defined $left) {
            $self->_respond($file);
            return $self->_complete;
        }
    } elsif (!openhandle($file)) {
        die "'$event->{type}': fh is no open handle\n";
    }
    if ($offset) {
        seek $file, $offset, 0 or die "'$event->{type}': cannot seek to $offset: $!\n";
    }
    my $sent = Oribi::PAGI::Loop::future();
    $self->_send_pieces($file, $left, $sent);
    return $sent;
}

# A piece at a time, as the client takes them.
sub _send_pieces {
    my ($self, $file, $left, $sent) = @_;
    while (!$self->{is_gone}) {
        my $size  = defined $left && $left < PIECE ? $left : PIECE;
        my $count = $size ? read $file, my $piece, $size : 0;
        if (!defined $count) {
            my $error = "cannot read a file: $!\n";
            $self->note_gone('server_error');
            return $sent->is_ready || $sent->fail($error);
        }
        $left -= $count if defined $left;
        my $room = $self->write($count ? $piece : q{});
        if (!$count) {
            $self->_end_content;
            last;
        }
        if ($room) {
            $room->on_ready(sub { $self->_send_pieces($file, $left, $sent) });
            return;
        }
    }
    $sent->done if !$sent->is_ready;
    return;
}

# ---- The end of the app

# The app has ended before its response: the client gets an error, or what it has got is cut.
sub fail {
    my ($self) = @_;
    return if $self->{is_gone} || $self->{is_complete};
    if ($self->{respond}) {
        $self->{head} = [500, ['Content-Type' => 'text/plain']];
        $self->has_started;
        $self->_respond("Internal Server Error\n");
    }
    $self->note_gone('server_error');
    return;
}

1;

__END__

=head1 NAME

Oribi::PAGI::Response - a response to a request, over a responder of PSGI

=cut
