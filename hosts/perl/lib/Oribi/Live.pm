package Oribi::Live;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Carp qw(croak);
use Oribi::Live::Connection ();

# The most bytes of the data of a connection, which every event carries.
use constant LARGEST_DATA => 64 << 10;

use constant LARGEST_COMMAND => (16 << 20) + (2 << 10);

my %kinds  = (text    => 1, binary   => 2, event => 3);
my %wanted = (drained => 1, shutdown => 2);

# ---- Commands --------------------------------------------------------------------------------------------------------------

# Gives a command to the edge.
sub _give {
    my ($tag, @parts) = @_;
    my $body = join q{}, @parts;
    croak "a message has at most 16 MiB" if length $body > LARGEST_COMMAND;
    return command(pack 'CN/a*', $tag, $body);
}

sub accept_websocket { my ($lines, $data) = @_; return _give(1, pack 'N/a* a*', $lines, $data) }
sub hold             { my ($data)         = @_; return _give(8, $data) }
sub set_data         { my ($data)         = @_; return _give(7, $data) }
sub subscribe        { my ($channel)      = @_; return _give(4, channel($channel)) }
sub unsubscribe      { my ($channel)      = @_; return _give(5, channel($channel)) }

# The events that a handler has besides those of every connection.
sub want {
    my ($handler) = @_;
    my $events = 0;
    for my $event (keys %wanted) { $events += $wanted{$event} if $handler->can("on_$event") }
    return $events && _give(13, pack 'C', $events);
}

# An ID is 16 hexadecimal digits; undef means the connection of the request or event.
sub send_message {
    my ($id, $kind, $payload) = @_;
    return _give(2, _name($id), pack('C', $kinds{$kind}), $payload);
}

sub close_connection {
    my ($id, $code, $reason) = @_;
    $code   = 1000 if !defined $code;
    croak "the code of a close is 1000 to 1003, 1007 to 1014 or 3000 to 4999, not $code"
        if $code !~ /\A(?:100[0-37-9]|101[0-4]|[34][0-9]{3})\z/;
    $reason = characters_as_bytes(defined $reason ? $reason : q{});
    croak 'the reason for a close has at most 123 bytes' if length $reason > 123;
    return _give(3, _name($id), pack('n', $code), $reason);
}

sub publish {
    my ($kind, $channel, $payload) = @_;
    return _give(6, pack('C n/a*', $kinds{$kind}, channel($channel)), $payload);
}

sub _name {
    my ($id) = @_;
    return pack 'H16', defined $id ? $id : '0' x 16;
}

# The name of a channel as bytes.
sub channel {
    my ($channel) = @_;
    croak 'a channel has a name' if !defined $channel;
    $channel = characters_as_bytes($channel);
    croak 'the name of a channel has at most 1024 bytes' if length $channel > 1024;
    return $channel;
}

sub characters_as_bytes {
    my ($text) = @_;
    croak 'a message is undefined' if !defined $text;
    $text = "$text";
    utf8::encode($text);
    return $text;
}

sub bytes_of {
    my ($bytes) = @_;
    croak 'a message is undefined' if !defined $bytes;
    $bytes = "$bytes";
    utf8::downgrade($bytes, 1) or croak 'wide character in a message of bytes: it must be encoded';
    return $bytes;
}

# ---- Handlers --------------------------------------------------------------------------------------------------------------

# A handler and the data of a connection, as the edge keeps them. A handler is the name of a package, or [NAME, ARGUMENT, ...].
sub keep {
    my ($handler, $data) = @_;
    my @words = ref $handler eq 'ARRAY' ? @{$handler} : ($handler);
    croak 'the arguments of a handler are strings' if grep { !defined || ref } @words;
    my $package = $words[0];
    croak "the package $package has none of the methods on_open, on_message and on_close: is it loaded?"
        if !grep { $package->can($_) } qw(on_open on_message on_close);
    my $kept = pack 'N/a* a*', pack('(N/a*)*', map { characters_as_bytes($_) } @words), bytes_of($data);
    croak 'a handler with the data of its connection has at most ' . LARGEST_DATA . ' bytes' if length $kept > LARGEST_DATA;
    return $kept;
}

# The package of a handler, or an object of it if there are arguments.
sub _revive {
    my ($words) = @_;
    my ($package, @arguments) = map { utf8::decode($_); $_ } unpack '(N/a*)*', $words;
    return @arguments ? $package->new(@arguments) : $package;
}

# Opens a connection: `$order` gives the command, with the data to be kept.
sub open_connection {
    my ($order, %options) = @_;
    my $data = defined $options{data} ? $options{data} : q{};
    my $kept = keep($options{handler}, $data);
    $order->($kept);
    my $handler = _revive(unpack 'N/a*', $kept);
    want($handler);
    my $connection = Oribi::Live::Connection->new(undef, $options{handler}, $data, environment());
    $connection->count_pending(0) if $handler->can('on_drained');
    if ($handler->can('on_open') && !eval { $handler->on_open($connection); 1 }) {
        my $error = $@;
        close_connection(undef, 1011, q{});
        die $error; ## no critic (RequireCarping) -- as it was
    }
    $connection->settle;
    return;
}

# Handles the event that a request is: the host calls this instead of the app.
sub event {
    my ($env) = @_;
    my $kind  = delete $env->{'HTTP_ORIBI/EVENT'};
    my $id    = delete $env->{'HTTP_ORIBI/CONNECTION'};
    my $pending = delete $env->{'HTTP_ORIBI/PENDING'};
    delete $env->{CONTENT_LENGTH};
    my $content = do { local $/ = undef; readline $env->{'psgi.input'} };
    my ($kept, $payload) = unpack 'N/a* a*', $content;
    my ($words, $data)   = unpack 'N/a* a*', $kept;
    my $handler    = _revive($words);
    my $connection = Oribi::Live::Connection->new($id, [map { utf8::decode($_); $_ } unpack '(N/a*)*', $words], $data, $env);
    if ($kind eq 'close') {
        my ($code, $reason) = unpack 'n a*', $payload;
        utf8::decode($reason);
        $connection->end;
        $handler->on_close($connection, $code, $reason) if $handler->can('on_close');
        return [200, [], []];
    }
    $connection->count_pending($pending || 0) if $handler->can('on_drained');
    if ($wanted{$kind}) {
        my $method = $handler->can("on_$kind");
        $handler->$method($connection) if $method;
    }
    else {
        $connection->{binary} = $kind eq 'binary';
        utf8::decode($payload) if $kind eq 'text';
        $handler->on_message($connection, $payload) if $handler->can('on_message');
    }
    $connection->settle;
    return [200, [], []];
}

# The fields of a response as lines.
sub lines {
    my (@fields) = @_;
    my $lines = q{};
    while (my ($name, $value) = splice @fields, 0, 2) {
        my $line = bytes_of("$name: $value");
        croak "the field $name has a control character" if $line =~ /[\x00-\x08\x0a-\x1f\x7f]/;
        $lines .= "$line\r\n";
    }
    return $lines;
}

1;

__END__

=head1 NAME

Oribi::Live - connections that stay open while no worker has anything to do with them

=head1 DESCRIPTION

The functions behind L<Oribi::WebSocket> and L<Oribi::EventStream>: they write commands for the process that owns the
connections, and call the handlers of events. Apps need none of them.

=cut
