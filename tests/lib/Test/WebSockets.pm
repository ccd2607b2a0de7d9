package Test::WebSockets;

# WebSockets of a real client, which tests/live/client.py holds: Python's websockets.

use v5.36;
use Carp       qw(croak);
use FindBin    ();
use IO::Handle ();
use IO::Select ();
use IPC::Open2 qw(open2);
use Test::Oribi;

# The time that a message may take before the test gives up.
use constant PATIENCE => 60;

sub new ($class) {
    my $pid = open2(my $out, my $in, '/usr/bin/python3', Test::Oribi::root() . '/tests/live/client.py');
    $in->autoflush(1);
    return bless { pid => $pid, in => $in, out => $out, buffer => q(), lines => {} }, $class;
}

# Opens a WebSocket with this name, and returns the answer: `open SUBPROTOCOL` or `refused STATUS`.
sub open ($self, $name, $url, @subprotocols) { ## no critic (ProhibitBuiltinHomonyms)
    $self->_order('open', $name, $url =~ s/\Ahttp/ws/r, @subprotocols);
    return $self->next($name);
}

# The same from a page of another site.
sub foreign ($self, $name, $url) {
    $self->_order('foreign', $name, $url =~ s/\Ahttp/ws/r);
    return $self->next($name);
}

sub text  ($self, $name, $text)  { return $self->_order('text',  $name, $text) }
sub bytes ($self, $name, $bytes) { return $self->_order('bytes', $name, unpack 'H*', $bytes) }
sub close ($self, $name, $code)  { return $self->_order('close', $name, $code) } ## no critic (ProhibitBuiltinHomonyms)

sub _order ($self, @words) { return $self->{in}->say(join q( ), @words) }

# The next line about a WebSocket: `text MESSAGE`, `bytes HEX` or `closed CODE REASON`.
sub next ($self, $name) { ## no critic (ProhibitBuiltinHomonyms)
    until (@{ $self->{lines}{$name} //= [] }) {
        IO::Select->new($self->{out})->can_read(PATIENCE) or croak "nothing comes for $name";
        sysread $self->{out}, $self->{buffer}, 65_536, length $self->{buffer} or croak 'the client has ended';
        while ($self->{buffer} =~ s/\A(\S+) ([^\n]*)\n//) { push @{ $self->{lines}{$1} }, $2 }
    }
    return shift @{ $self->{lines}{$name} };
}

# Sends a text and returns the next line.
sub ask ($self, $name, $text) {
    $self->text($name, $text);
    return $self->next($name);
}

sub DESTROY ($self) {
    local ($?, $!, $@);
    kill 'KILL', $self->{pid};
    waitpid $self->{pid}, 0;
    return;
}

1;
