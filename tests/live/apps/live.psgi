package Guest;
use v5.36;
use utf8;
use POSIX ();

sub new ($class, $name) { return bless { name => $name }, $class }

sub on_open ($self, $connection) {
    $connection->subscribe('room');
    $connection->send("welcome $self->{name}") if $connection->env->{'psgix.event_stream'};
    return;
}

my %orders = (
    echo  => sub ($connection, $text) { $connection->send($text) },
    count => sub ($connection, $text) { $connection->send($connection->data . " in $$") },
    say   => sub ($connection, $text) { $connection->publish('room', $text) },
    leave => sub ($connection, $text) { $connection->unsubscribe('room') },
    path  => sub ($connection, $text) { $connection->send($connection->env->{PATH_INFO}) },
    bye   => sub ($connection, $text) { $connection->close },
    code  => sub ($connection, $text) { $connection->close($text) },
    fail  => sub ($connection, $text) { die "the handler has failed\n" },
);

sub on_message ($self, $connection, $message) {
    $connection->data($connection->data + 1);
    return $connection->send_binary(scalar reverse $message) if $connection->is_binary;
    my ($order, $text) = split q( ), $message, 2;
    $text //= q();
    return $connection->send(length $text == 5 ? $text : 'bytes') if $text eq 'grüße';
    return $orders{$order}->($connection, $text);
}

sub on_close ($self, $connection, $code, $reason) {
    return Oribi::publish('room', "$self->{name} left");
}

package Plain; ## no critic (ProhibitMultiplePackages)

sub on_message ($class, $connection, $message) { return $connection->send("plain $message") }

# Sends parts, one after the other, and a last word before the server ends.
package Sender; ## no critic (ProhibitMultiplePackages)

sub on_open ($class, $connection) {
    $connection->send('welcome') if $connection->env->{'psgix.event_stream'};
    return;
}

sub on_message ($class, $connection, $order) {
    $connection->data($order);
    return $class->on_drained($connection);
}

sub on_drained ($class, $connection) {
    my ($left, $size) = $connection->data =~ /\A(\d+) (\d+)\z/ or return;
    $connection->send($left ? 'x' x $size : 'done');
    $connection->data($left ? $left - 1 . " $size" : q());
    return;
}

sub on_shutdown ($class, $connection) { return $connection->send('bye') }

package main; ## no critic (ProhibitMultiplePackages)

sub ($env) {
    my $path = $env->{PATH_INFO};
    if (my ($name) = $path =~ m{\A/(?:ws|events)/(.*)}) {
        my %options = (handler => [Guest => $name], data => 0);
        return $env->{'psgix.event_stream'}->hold(%options) if $path =~ m{\A/events};
        my $offers = $env->{HTTP_SEC_WEBSOCKET_PROTOCOL} // q();
        return $env->{'psgix.websocket'}->accept(%options, $offers =~ /chat/ ? (protocol => 'chat') : ());
    }
    if ($path eq '/offer') {
        return [200, [], [$env->{'psgix.websocket'} ? ':websocket' : $env->{'psgix.event_stream'} ? ':sse' : 'nil']];
    }
    # An app may return nothing.
    if ($path eq '/plain') {
        $env->{'psgix.websocket'}->accept(handler => 'Plain');
        return;
    }
    if ($path eq '/sender') {
        my $stream = $env->{'psgix.event_stream'};
        return $stream ? $stream->hold(handler => 'Sender') : $env->{'psgix.websocket'}->accept(handler => 'Sender');
    }
    return $env->{'psgix.websocket'}->accept(handler => 'Missing') if $path eq '/missing';
    if ($path eq '/after') {
        return sub ($respond) {
            my $writer = $respond->([200, []]);
            $writer->write('late');
            $writer->close;
            return Oribi::publish('room', 'after the end');
        };
    }
    if ($path eq '/fork') {
        my $pid = fork // die "fork: $!\n";
        POSIX::_exit(Oribi::publish('room', 'of a child') ? 7 : 1) if !$pid;
        waitpid $pid, 0;
        return [200, [], [$? >> 8]];
    }
    return $env->{'psgix.event_stream'}->subscribe('room')        if $path eq '/bare';
    return $env->{'psgix.event_stream'}->hold(headers => ['content-type' => 'a/b', 'cache-control' => 'private'])
        if $path eq '/fields';
    return [403, [], ['no']] if $path eq '/refused';
    if ($path eq '/publish') {
        my $text = do { local $/ = undef; readline $env->{'psgi.input'} };
        utf8::decode($text);
        Oribi::publish('room', $text);
        return [204, [], []];
    }
    return [404, [], ['none']];
};
