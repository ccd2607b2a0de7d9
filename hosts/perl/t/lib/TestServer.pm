package TestServer;

# Starts a server with an app in a process of its own, speaks HTTP with it byte by byte, and stops it. With ORIBI_TEST_TLS=on,
# requests go over TLS, by IO::Socket::SSL. With ORIBI_TEST_HTTP2=on, tests speak HTTP/1 with a proxy, nghttpx, which speaks
# HTTP/2 with the server, with or without TLS; tests of HTTP/1 itself are then left out (OverHTTP2).

use strict;
use warnings;
use Carp             qw(croak);
use File::Temp       ();
use IO::Socket::INET ();
use IO::Socket::UNIX ();
use Test::FreePort qw(free_port);
use OverHTTP2        ();
use Plack::Loader    ();
use POSIX            ();
use Socket           qw(SHUT_WR);

# No answer takes longer than this; a test that waits longer has failed.
my $PATIENCE = 20;

sub start {
    my ($class, %arguments) = @_;
    my $self = bless {
        directory => File::Temp->newdir,
        handler   => $arguments{handler} || 'Oribi',
        owner     => $$,
    }, $class;
    $self->{log_path} = "$self->{directory}/error.log";
    my %options = (workers => 1, %{ $arguments{options} || {} });
    if ($arguments{unix}) {
        $self->{path} = "$self->{directory}/app.sock";
        $options{listen} = [ $self->{path} ];
    } else {
        $self->{port} = free_port();
        @options{qw(host port)} = ('127.0.0.1', $self->{port});
        if (($ENV{ORIBI_TEST_TLS} || 'off') eq 'on') {
            $self->{certificate} = _certificate($self->{directory});
            @options{qw(ssl_cert ssl_key)} = ($self->{certificate}, "$self->{directory}/key");
        }
    }
    pipe my $ready, my $announce or die "pipe: $!";
    my $pid = fork;
    die "fork: $!" if !defined $pid;
    if (!$pid) {
        close $ready;
        # The server's messages are compared by tests, not read by people.
        open STDERR, '>>', $self->{log_path} or POSIX::_exit(99);
        STDERR->autoflush(1);
        my $user_ready = delete $options{server_ready};
        my $status     = eval {
            my $server = Plack::Loader->load(
                $self->{handler}, %options,
                server_ready => sub { $user_ready->(@_) if $user_ready; print {$announce} "ready\n"; close $announce },
            );
            my $app = $arguments{app};
            $app = $arguments{load}->() if $arguments{load};
            $server->run($app);
            0;
        };
        print {*STDERR} $@ if !defined $status;
        POSIX::_exit(defined $status ? $status : 1);
    }
    close $announce;
    $self->{pid} = $pid;
    if (!defined $arguments{wait} || $arguments{wait}) {
        my $line = within($PATIENCE, sub { scalar readline $ready });
        $self->{started} = defined $line;
    }
    return $self;
}

# The command of a mold, before the app and its settings.
sub mold { return ($^X, '-Mblib', '-MOribi::Mold', '-e', 'exit Oribi::Mold->main(@ARGV)', q{--}) }

# Starts a mold with an app, as the oribi command does: with one worker, and these variables in its environment.
sub start_mold {
    my ($class, $app, $environment, @settings) = @_;
    my $directory = File::Temp->newdir;
    my $self = bless { port => free_port(), owner => $$, directory => $directory, log_path => "$directory/error.log" }, $class;
    $self->{pid} = fork // die "fork: $!";
    if (!$self->{pid}) {
        open STDERR, '>', $self->{log_path} or POSIX::_exit(99);
        @ENV{ keys %{$environment} } = values %{$environment};
        exec(mold(), $app, "listen=127.0.0.1:$self->{port}", 'workers=1', @settings) or POSIX::_exit(98);
    }
    return $self;
}

# Waits until a client can connect; false if that takes too long.
sub listens {
    my ($self) = @_;
    return wait_for(sub { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $self->{port}) });
}

# A certificate for 127.0.0.1.
sub _certificate {
    my ($directory) = @_;
    my @make = qw(openssl req -x509 -nodes -days 30 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -subj /CN=test);
    my $status = system 'sh', '-c', 'exec "$@" 2>/dev/null', 'sh', @make, '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1',
        '-keyout', "$directory/key", '-out', "$directory/certificate";
    die "openssl ended with status $status" if $status;
    return "$directory/certificate";
}

sub started { return shift->{started} }
sub pid     { return shift->{pid} }
sub port    { return shift->{port} }
sub path    { return shift->{path} }

# The port of the proxy, which is started when it is needed.
sub _front {
    my ($self) = @_;
    return $self->{front} if $self->{front};
    my $port    = free_port();
    my $backend = $self->{path} ? "unix:$self->{path}" : "127.0.0.1,$self->{port}";
    $backend .= ';;proto=h2' . ($self->{certificate} ? ';tls;sni=localhost' : q{});
    my @command = ('nghttpx', '--conf=/dev/null', "--frontend=127.0.0.1,$port;no-tls", "--backend=$backend", OverHTTP2::options());
    push @command, "--cacert=$self->{certificate}" if $self->{certificate};
    my $pid = fork;
    die "fork: $!" if !defined $pid;
    if (!$pid) {
        open STDERR, '>>', "$self->{directory}/front.log" or POSIX::_exit(99);
        # The proxy ends when the test ends, however the test ends.
        exec 'setpriv', '--pdeathsig', 'KILL', @command or POSIX::_exit(98);
    }
    $self->{front_pid} = $pid;
    wait_for(sub { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) }) or die 'nghttpx does not listen';
    return $self->{front} = $port;
}

sub within {
    my ($seconds, $code) = @_;
    local $SIG{ALRM} = sub { die "no answer within $seconds seconds\n" };
    alarm $seconds;
    my @result = eval { $code->() };
    my $error  = $@;
    alarm 0;
    die $error if $error;
    return wantarray ? @result : $result[0];
}

# Waits until a condition holds.
# Waits until a condition is true, and returns its last value. Dies instead if nobody looks at that, because the test would only take
# longer then.
sub wait_for {
    my ($condition, $seconds) = @_;
    my $end = time + ($seconds || $PATIENCE);
    while (1) {
        my $result = $condition->();
        return $result if $result;
        if (time > $end) { return defined wantarray ? $result : croak('nothing came of the wait') }
        select undef, undef, undef, 0.02;
    }
}

sub log_text {
    my ($self) = @_;
    open my $handle, '<', $self->{log_path} or return q{};
    local $/ = undef;
    return scalar readline $handle;
}

# The log once it has something that matches; it is written by other processes.
sub log_like {
    my ($self, $pattern) = @_;
    wait_for(sub { $self->log_text =~ $pattern }, 10) or Test::More::diag("the log has nothing like $pattern");
    return $self->log_text;
}

sub connection {
    my ($self) = @_;
    my $port = OverHTTP2::is_on() ? $self->_front : $self->{port};
    my $socket
        = $self->{path} && !OverHTTP2::is_on()
        ? IO::Socket::UNIX->new(Peer => $self->{path})
        : IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Proto => 'tcp');
    die "cannot connect: $!" if !$socket;
    $socket->autoflush(1);
    if ($self->{certificate} && !OverHTTP2::is_on()) {
        require IO::Socket::SSL;
        IO::Socket::SSL->start_SSL($socket, SSL_ca_file => $self->{certificate}, SSL_hostname => q{}, SSL_verifycn_name => '127.0.0.1')
            or die "cannot speak TLS: $IO::Socket::SSL::SSL_ERROR";
    }
    return TestServer::Connection->new($socket);
}

sub request {
    my ($self, @arguments) = @_;
    return $self->connection->request(@arguments);
}

sub get {
    my ($self, $target, @fields) = @_;
    return $self->request(GET => $target, [@fields]);
}

# Stops the server; its exit status.
sub stop {
    my ($self, $signal) = @_;
    return $self->{status} if !$self->{pid};
    kill $signal || 'TERM', $self->{pid};
    within($PATIENCE * 2, sub { waitpid $self->{pid}, 0 });
    $self->{pid} = undef;
    return $self->{status} = $?;
}

# Waits for a server that ends by itself; its status.
sub wait_end {
    my ($self) = @_;
    within($PATIENCE, sub { waitpid $self->{pid}, 0 });
    $self->{pid} = undef;
    return $self->{status} = $?;
}

sub DESTROY {
    my ($self) = @_;
    return if $self->{owner} != $$;
    local ($@, $?);
    if ($self->{front_pid}) {
        kill KILL => $self->{front_pid};
        waitpid $self->{front_pid}, 0;
    }
    return if !$self->{pid};
    eval { $self->stop; 1 } or kill KILL => $self->{pid};
    return;
}

package TestServer::Connection;

use strict;
use warnings;

sub new {
    my ($class, $socket) = @_;
    return bless { socket => $socket, buffer => q{} }, $class;
}

sub socket { return shift->{socket} }

sub send {
    my ($self, $bytes) = @_;
    my $socket = $self->{socket};
    local $SIG{PIPE} = 'IGNORE';
    my $sent = 0;
    while ($sent < length $bytes) {
        my $count = syswrite $socket, $bytes, length($bytes) - $sent, $sent;
        return if !defined $count;
        $sent += $count;
    }
    return 1;
}

sub finish_sending {
    my ($self) = @_;
    my $socket = $self->{socket};
    # Over TLS, close_notify must come before the end of the connection; without it a client counts as broken.
    Net::SSLeay::shutdown($socket->_get_ssl_object) if $socket->isa('IO::Socket::SSL');
    return shutdown $socket, Socket::SHUT_WR();
}

# One more piece into the buffer; false at the end.
sub fill {
    my ($self) = @_;
    my $count = TestServer::within($PATIENCE, sub { sysread $self->{socket}, $self->{buffer}, 65536, length $self->{buffer} });
    return $count;
}

# Everything until the server closes.
sub rest {
    my ($self) = @_;
    1 while $self->fill;
    return delete $self->{buffer};
}

sub request {
    my ($self, $method, $target, $fields, $content) = @_;
    my @fields = @{ $fields || [] };
    my $named  = grep { lc $fields[ 2 * $_ ] eq 'host' } 0 .. @fields / 2 - 1;
    my $text   = "$method $target HTTP/1.1\r\n" . ($named ? q{} : "Host: localhost\r\n");
    while (my ($name, $value) = splice @fields, 0, 2) {
        $text .= "$name: $value\r\n";
    }
    $text .= 'Content-Length: ' . length($content) . "\r\n" if defined $content;
    $text .= "\r\n";
    $text .= $content if defined $content;
    $self->send($text);
    return $self->response($method);
}

# Reads a response: { status, reason, fields => [name, value, ...], body, whole }. Informational ones are returned too.
sub response {
    my ($self, $method) = @_;
    while ($self->{buffer} !~ /\r\n\r\n/) {
        return { status => 0, fields => [], body => $self->{buffer}, whole => 0 } if !$self->fill;
    }
    $self->{buffer} =~ s/\A(.*?)\r\n\r\n//s;
    my ($line, @lines) = split /\r\n/, $1;
    my ($status, $reason) = $line =~ m{\AHTTP/1[.][01] (\d{3})(?: (.*))?\z} or die "not a status line: $line";
    my $response = { status => $status, reason => $reason, fields => [ map { split /: ?/, $_, 2 } @lines ], body => q{}, whole => 1 };
    my $length   = field($response, 'Content-Length');
    my $coding   = field($response, 'Transfer-Encoding');
    return $response if $status < 200 || $status == 204 || $status == 304 || ($method || q{}) eq 'HEAD';
    if (defined $coding && $coding eq 'chunked') {
        while (1) {
            while ($self->{buffer} !~ /\r\n/) {
                return { %{$response}, whole => 0 } if !$self->fill;
            }
            $self->{buffer} =~ s/\A([0-9a-fA-F]+)[^\r\n]*\r\n// or die 'not a chunk';
            my $size = hex $1;
            while (length $self->{buffer} < $size + 2) {
                if (!$self->fill) {
                    return { %{$response}, body => $response->{body} . $self->{buffer}, whole => 0 };
                }
            }
            $response->{body} .= substr $self->{buffer}, 0, $size, q{};
            substr $self->{buffer}, 0, 2, q{};
            return $response if $size == 0;
        }
    }
    if (defined $length) {
        while (length $self->{buffer} < $length) {
            return { %{$response}, body => $self->{buffer}, whole => 0 } if !$self->fill;
        }
        $response->{body} = substr $self->{buffer}, 0, $length, q{};
        return $response;
    }
    $response->{body} = $self->rest;
    return $response;
}

sub field {
    my ($response, $name) = @_;
    my @values = fields($response, $name);
    return @values ? join q{, }, @values : undef;
}

sub fields {
    my ($response, $name) = @_;
    my @fields = @{ $response->{fields} };
    my @values;
    while (my ($key, $value) = splice @fields, 0, 2) {
        push @values, $value if lc $key eq lc $name;
    }
    return @values;
}

1;
