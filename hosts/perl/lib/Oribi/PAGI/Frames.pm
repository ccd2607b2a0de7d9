# The frames of RFC 6455: those of a client are parsed, those for it made.
package Oribi::PAGI::Frames;
use strict;
use warnings;

our $VERSION = '0.1.0';

use constant { CONTINUATION => 0, TEXT => 1, BINARY => 2, CLOSE => 8, PING => 9, PONG => 10 };

# The largest message of a client, in bytes.
use constant LIMIT => 16 * 1024 * 1024;

sub new {
    my ($class, $limit) = @_;
    return bless { limit => $limit // LIMIT, buffer => q{}, message => undef, type => undef }, $class;
}

# Returns the messages and control frames that have become complete with these bytes, in order: each a type and its content, in
# turn. A text is decoded; the content of a close is its code, and its reason after a colon. The last one may be `error`, with a
# code for the close and a reason; then nothing more must be read.
sub read {    ## no critic (ProhibitBuiltinHomonyms) -- a method
    my ($self, $bytes) = @_;
    $self->{buffer} .= $bytes;
    my @found;
    while (my @frame = eval { $self->_next_frame }) {
        my @message = eval { $self->_take(@frame) };
        push @found, @message;
        last if length $@;
    }
    if (length $@) {
        my $error = $@;
        die $error if ref $error ne 'ARRAY';
        push @found, error => $error;
    }
    return @found;
}

sub _refuse {
    my ($code, $reason) = @_;
    die [$code, $reason];    ## no critic (RequireCarping) -- caught above
}

# Takes a frame from the buffer: whether it is the last of its message, its type, its content. Nothing if it is not complete.
sub _next_frame {
    my ($self) = @_;
    my $size = length $self->{buffer};
    return if $size < 2;
    my ($first, $second) = unpack 'CC', $self->{buffer};
    my ($type, $length) = ($first & 15, $second & 127);
    _refuse(1002, 'reserved bits are set')      if $first & 0x70;
    _refuse(1002, 'the type of a frame')        if $type > PONG || ($type > BINARY && $type < CLOSE);
    _refuse(1002, 'a frame without a mask')     if !($second & 128);
    _refuse(1002, 'a control frame in pieces')  if $type >= CLOSE && !($first & 128);
    _refuse(1002, 'a long control frame')       if $type >= CLOSE && $length > 125;
    my $front = 2;
    if ($length == 126) {
        return if $size < 4;
        ($length, $front) = (unpack('x2n', $self->{buffer}), 4);
        _refuse(1002, 'the length of a frame') if $length < 126;
    } elsif ($length == 127) {
        return if $size < 10;
        my ($high, $low) = unpack 'x2NN', $self->{buffer};
        _refuse(1009, 'a large message')       if $high > 0 && $high < 0x8000_0000;
        _refuse(1002, 'the length of a frame') if $high || $low < 65_536;
        ($length, $front) = ($low, 10);
    }
    my $before = $type < CLOSE && defined $self->{message} ? length $self->{message} : 0;
    _refuse(1009, 'a large message') if $type < CLOSE && $before + $length > $self->{limit};
    return if $size < $front + 4 + $length;
    my $mask    = substr $self->{buffer}, $front, 4;
    my $content = substr $self->{buffer}, $front + 4, $length;
    substr $self->{buffer}, 0, $front + 4 + $length, q{};
    $content ^= substr $mask x ($length / 4 + 1), 0, $length;
    return ($first & 128, $type, $content);
}

# Returns what is complete with a frame.
sub _take {
    my ($self, $is_last, $type, $content) = @_;
    return (close => _close($content)) if $type == CLOSE;
    return (ping  => $content)         if $type == PING;
    return (pong  => $content)         if $type == PONG;
    if ($type == CONTINUATION) {
        _refuse(1002, 'a continuation of nothing') if !defined $self->{message};
        $self->{message} .= $content;
    } else {
        _refuse(1002, 'a message within another one') if defined $self->{message};
        @{$self}{qw(type message)} = ($type, $content);
    }
    return if !$is_last;
    my $message = $self->{message};
    $self->{message} = undef;
    return (binary => $message) if $self->{type} == BINARY;
    return (text => _text($message));
}

sub _text {
    my ($bytes) = @_;
    # Perl's own decoder also takes surrogates, and more than Unicode has.
    my $is_valid = utf8::decode($bytes) && $bytes !~ /[\x{D800}-\x{DFFF}]|[^\x{0}-\x{10FFFF}]/;
    _refuse(1007, 'a text that is not UTF-8') if !$is_valid;
    return $bytes;
}

sub _close {
    my ($content) = @_;
    return '1005:' if !length $content;
    _refuse(1002, 'a close without a whole code') if length $content < 2;
    my $code = unpack 'n', substr $content, 0, 2, q{};
    _refuse(1002, 'the code of a close') if !is_code($code);
    return "$code:" . _text($content);
}

# Whether a peer may send this code.
sub is_code {
    my ($code) = @_;
    return ($code >= 1000 && $code <= 1003) || ($code >= 1007 && $code <= 1014) || ($code >= 3000 && $code <= 4999);
}

# Returns the frame with this content.
sub frame {
    my ($type, $content) = @_;
    my $length = length $content;
    my $first  = 0x80 | $type;
    return pack('CC', $first, $length) . $content        if $length < 126;
    return pack('CCn', $first, 126, $length) . $content  if $length < 65_536;
    return pack('CCNN', $first, 127, $length >> 32, $length & 0xFFFF_FFFF) . $content;
}

# Returns the frame of a close. 1005 stands for none; a reason is cut to what fits.
sub close_frame {
    my ($code, $reason) = @_;
    return frame(CLOSE, q{}) if $code == 1005;
    utf8::encode($reason);
    $reason = substr $reason, 0, 123;
    chop $reason while length $reason && !utf8::decode(my $copy = $reason);
    return frame(CLOSE, pack('n', $code) . $reason);
}

1;

__END__

=head1 NAME

Oribi::PAGI::Frames - the frames of WebSocket

=cut
