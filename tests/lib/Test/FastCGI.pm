package Test::FastCGI;

# A FastCGI client for tests, written only from the specification (FastCGI 1.0). It may have many requests open on its
# connection, and may do what no web server does.

use v5.36;
use Exporter   qw(import);
use IO::Select ();
use Socket     qw(SHUT_WR);

our @EXPORT_OK = qw(record begin_record parameters pairs_of stream);

# The time for which a server that owes a response may send nothing.
use constant PATIENCE => 60;

# Types of records, roles and statuses (section 8). The streams have other names there, which are Perl's own.
use constant {
    BEGIN_REQUEST => 1, ABORT_REQUEST => 2, END_REQUEST => 3, PARAMS => 4, INPUT => 5, OUTPUT => 6, ERRORS => 7, DATA => 8,
    GET_VALUES => 9, GET_VALUES_RESULT => 10, UNKNOWN_TYPE => 11,
    RESPONDER => 1, AUTHORIZER => 2, FILTER => 3,
    KEEP_CONN => 1,
    REQUEST_COMPLETE => 0, CANT_MPX_CONN => 1, OVERLOADED => 2, UNKNOWN_ROLE => 3,
};

# A record with as many bytes of padding.
sub record ($type, $id, $content = '', $padding = 0) {
    return pack('C C n n C x', 1, $type, $id, length $content, $padding) . $content . "\0" x $padding;
}

sub begin_record ($id, $role = RESPONDER, $flags = KEEP_CONN) {
    return record(BEGIN_REQUEST, $id, pack 'n C x5', $role, $flags);
}

# Name-value pairs (section 3.4).
sub pairs_of (%value_of) {
    my $length = sub ($text) { length $text < 128 ? pack 'C', length $text : pack 'N', length($text) | 0x8000_0000 };
    return join '', map { $length->($_) . $length->($value_of{$_}) . $_ . $value_of{$_} } sort keys %value_of;
}

# The other way round.
sub _pairs_in ($bytes) {
    my @lengths;
    my %value_of;
    while (length $bytes) {
        @lengths = map {
            my $length = unpack 'C', $bytes;
            $length = unpack('N', $bytes) & 0x7fff_ffff if $length > 127;
            substr $bytes, 0, $length > 127 || unpack('C', $bytes) > 127 ? 4 : 1, '';
            $length;
        } 1 .. 2;
        my $name = substr $bytes, 0, $lengths[0], '';
        $value_of{$name} = substr $bytes, 0, $lengths[1], '';
    }
    return \%value_of;
}

# The records of a stream, with its end.
sub stream ($type, $id, $bytes) {
    my @parts = unpack '(a65528)*', $bytes;
    return join('', map { record($type, $id, $_) } @parts) . record($type, $id);
}

# The variables of a request for URI, as a web server gives them that has no path info.
sub parameters ($uri, %more) {
    my ($path, $query) = split /[?]/, $uri, 2;
    return (
        REQUEST_METHOD => 'GET', REQUEST_URI => $uri, SCRIPT_NAME => $path, QUERY_STRING => $query // '',
        SERVER_PROTOCOL => 'HTTP/1.1', SERVER_NAME => 'front.example', SERVER_PORT => 80, REMOTE_ADDR => '192.0.2.1',
        REMOTE_PORT => 4711, GATEWAY_INTERFACE => 'CGI/1.1', HTTP_HOST => 'front.example', %more,
    );
}

# Test::FastCGI->new(SERVER): a connection to SERVER.
sub new ($class, $server) {
    my $socket = $server->connection or die "no connection: $!\n";
    $socket->blocking(0);
    return bless { socket => $socket, select => IO::Select->new($socket), out => '', in => '', answers => {} }, $class;
}

# Sends bytes as they are; what comes meanwhile is kept.
sub send_bytes ($self, $bytes) {
    $self->{out} .= $bytes;
    while (length $self->{out}) {
        $self->_turn or return;
    }
    return 1;
}

# Opens a request for URI; `content`, `role` and `flags` are options, the rest are variables.
sub open_request ($self, $id, $uri, %option) {
    my $content = delete $option{content} // '';
    my @begin   = (delete $option{role} // RESPONDER, delete $option{flags} // KEEP_CONN);
    $option{CONTENT_LENGTH} //= length $content if length $content;
    my $pairs = pairs_of(parameters($uri, %option));
    return $self->send_bytes(begin_record($id, @begin) . stream(PARAMS, $id, $pairs) . stream(INPUT, $id, $content));
}

# The data received for a request: a hash with
#   stdout, stderr   all bytes of these streams
#   head, body       the parts of stdout
#   status           of the head; 200 if it says none
#   ended            how often it was said that the request has ended
#   application, protocol   its statuses at the end
sub answer ($self, $id) { return $self->{answers}{$id} //= { stdout => '', stderr => '', ended => 0 } }

# Waits for the end of a request and returns its answer, or undef if the connection ends before.
sub finish ($self, $id) {
    until ($self->answer($id)->{ended}) {
        $self->_turn or return;
    }
    my $answer = delete $self->{answers}{$id};
    @{$answer}{qw(head body)} = split /\r\n\r\n/, $answer->{stdout}, 2;
    ($answer->{status}) = ($answer->{head} // '') =~ /^Status: (\d+)/m;
    $answer->{status} //= 200;
    return $answer;
}

# One request, and its answer.
sub ask ($self, $uri, %option) {
    $self->open_request(1, $uri, %option) or return;
    return $self->finish(1);
}

# Waits until stdout of a request matches PATTERN; false if the connection ends before.
sub wait_for ($self, $id, $pattern) {
    until ($self->answer($id)->{stdout} =~ $pattern) {
        $self->_turn or return 0;
    }
    return 1;
}

# Waits for a management record, and returns its type and its content.
sub management ($self) {
    until ($self->{management} && @{ $self->{management} }) {
        $self->_turn or return;
    }
    my ($type, $content) = @{ shift @{ $self->{management} } };
    return ($type, $type == GET_VALUES_RESULT ? _pairs_in($content) : $content);
}

# Waits until the server closes the connection; false if it does not.
sub closed ($self) {
    1 while $self->_turn;
    return $self->{ended};
}

# Closes the connection, also with open requests.
sub close ($self) { return close $self->{socket} }    ## no critic (ProhibitBuiltinHomonyms)

# Sends and receives what can be sent and received; false when the connection has ended or nothing more happens.
sub _turn ($self) {
    return 0 if $self->{ended};
    my $writing = length $self->{out} ? $self->{select} : undef;
    my ($readable, $writable) = IO::Select->select($self->{select}, $writing, undef, PATIENCE) or return 0;
    if (@{$writable}) {
        # If the server has closed, its earlier output can still be read.
        local $SIG{PIPE} = 'IGNORE';
        my $sent = syswrite $self->{socket}, $self->{out};
        if   (defined $sent)          { substr $self->{out}, 0, $sent, '' }
        elsif (!$!{EAGAIN})           { $self->{out} = '' }
    }
    if (@{$readable}) {
        my $count = sysread $self->{socket}, $self->{in}, 1 << 17, length $self->{in};
        return 1 if !defined $count && $!{EAGAIN};
        $self->{ended} = 1 if !$count;
        $self->_take_records;
    }
    return !$self->{ended};
}

sub _take_records ($self) {
    while (length $self->{in} >= 8) {
        my ($version, $type, $id, $length, $padding) = unpack 'C C n n C', $self->{in};
        die "a record of version $version\n" if $version != 1;
        last if length $self->{in} < 8 + $length + $padding;
        die "records are not padded to eight bytes\n" if ($length + $padding) % 8;
        my $content = substr substr($self->{in}, 0, 8 + $length + $padding, ''), 8, $length;
        if ($id == 0) {
            push @{ $self->{management} }, [$type, $content];
            next;
        }
        my $answer = $self->answer($id);
        if    ($type == OUTPUT) { $answer->{stdout} .= $content }
        elsif ($type == ERRORS) { $answer->{stderr} .= $content }
        elsif ($type == END_REQUEST) {
            $answer->{ended}++;
            @{$answer}{qw(application protocol)} = unpack 'N C', $content;
        }
        else { die "a record of type $type\n" }
    }
    return;
}

1;
