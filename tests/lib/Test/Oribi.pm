package Test::Oribi;

# Starts the built `oribi` for a test, and ends the remaining processes when the test ends.
#
# With ORIBI_TEST_TLS=on, servers that are started on a TCP port have an encrypted address as well, and that is what `url`
# gives: then curl, which chooses HTTP/2 there, and browsers talk to them over TLS. Their environment makes them trust the
# certificate.

use v5.36;
use Carp           qw(croak);
use Cwd            ();
use File::Basename qw(dirname);
use File::Spec     ();
use File::Temp     ();
use IO::Socket::IP ();
use IO::Socket::UNIX ();
use Test::FreePort qw(free_port);
use POSIX          qw(WNOHANG);
use Test::Certificate;
use Time::HiRes    qw(sleep time);

# The time that a server may take to start or to stop before the test gives up: far longer than it needs on a busy machine.
use constant PATIENCE => 120;

# The top folder of the repository.
sub root { return Cwd::abs_path(dirname(__FILE__) . '/../../..') }

# The command, given by ORIBI for another build than the one in target/bin.
sub command { return $ENV{ORIBI} // root() . '/target/bin/oribi' }

# The kind of that build: `release` or `debug`. A make that must not build needs BUILT to be the same.
sub built () {
    open my $in, '<', root() . '/target/bin/built' or croak "target/bin/built: $!";
    chomp(my $built = <$in>);
    return $built;
}

# Whether clients come over TLS where they can.
sub over_tls () { return ($ENV{ORIBI_TEST_TLS} // 'off') eq 'on' }

# The file of a certificate and its key, which the clients of this process trust.
sub believed () {
    state $folder = File::Temp->newdir;
    state $file   = certificate('oribi', "$folder/certificate");
    # Of curl, git and libwww-perl.
    @ENV{qw(CURL_CA_BUNDLE GIT_SSL_CAINFO PERL_LWP_SSL_CA_FILE)} = ($file) x 3; ## no critic (RequireLocalizedPunctuationVars)
    return $file;
}

# Test::Oribi->start(ARGUMENT...): runs `oribi ARGUMENT...` on a free TCP port of 127.0.0.1.
sub start ($class, @arguments) {
    my $port = free_port();
    if (over_tls()) {
        my $encrypted = $port;
        $encrypted = free_port() while $encrypted == $port;
        my @listen = ('--listen', "https://127.0.0.1:$encrypted?cert=" . believed(), '--listen', "127.0.0.1:$port");
        return $class->_spawn({ port => $port, encrypted => $encrypted }, command(), @arguments, @listen);
    }
    return $class->_spawn({ port => $port }, command(), @arguments, '--host', '127.0.0.1', '--port', $port);
}

# Test::Oribi->start_at(PORT, COMMAND...): runs a command that takes our options, for an app that knows its address.
sub start_at ($class, $port, @command) {
    return $class->run_on_port($port, @command, '--host', '127.0.0.1', '--port', $port) if !over_tls();
    my @listen = ('--listen', "https://127.0.0.1:$port?cert=" . believed());
    return $class->_spawn({ port => $port, encrypted => $port }, @command, @listen);
}

# Test::Oribi->start_on_socket(ARGUMENT...): the same on a Unix socket.
sub start_on_socket ($class, @arguments) {
    my $folder = File::Temp->newdir;
    my $socket = "$folder/oribi.sock";
    return $class->_spawn({ socket => $socket, folder => $folder }, command(), @arguments, '--listen', "$socket?mode=666");
}

# Test::Oribi->start_fastcgi(ARGUMENT...): runs `oribi ARGUMENT...` for web servers, on a free TCP port of 127.0.0.1.
sub start_fastcgi ($class, @arguments) {
    my $port = free_port();
    return $class->_spawn({ port => $port }, command(), @arguments, '--listen', "fcgi://127.0.0.1:$port");
}

# Test::Oribi->start_fastcgi_on_socket(ARGUMENT...): the same on a Unix socket, which every user may connect to.
sub start_fastcgi_on_socket ($class, @arguments) {
    my $folder = File::Temp->newdir;
    chmod 0711, "$folder" or croak "$folder: $!";
    my $socket = "$folder/oribi.sock";
    my @listen = ('--listen', "fcgi+unix:$socket?mode=666");
    return $class->_spawn({ socket => $socket, folder => $folder }, command(), @arguments, @listen);
}

# Test::Oribi->run_on_port(PORT, COMMAND...): runs a command that is expected to listen there.
sub run_on_port ($class, $port, @command) {
    return $class->_spawn({ port => $port }, @command);
}

# Test::Oribi->run_on_socket(PATH, COMMAND...): runs a command that is expected to listen on that Unix socket.
sub run_on_socket ($class, $path, @command) {
    return $class->_spawn({ socket => $path }, @command);
}

sub _spawn ($class, $self, @command) {
    bless $self, $class;
    $self->{log} = File::Temp->new(DIR => $ENV{ORIBI_TEST_LOGS} // File::Spec->tmpdir);
    $self->{owner} = $$;
    my $pid = fork // croak "fork: $!";
    if ($pid == 0) {
        # A process group of its own, as a terminal gives it, so that a test can press Ctrl-C.
        POSIX::setpgid(0, 0);
        open STDIN,  '<',  '/dev/null'             or POSIX::_exit(126);
        open STDOUT, '>>', $self->{log}->filename or POSIX::_exit(126);
        open STDERR, '>&', \*STDOUT                or POSIX::_exit(126);
        exec { $command[0] } @command or POSIX::_exit(127);
    }
    $self->{pid} = $pid;
    # It listens for clients before it does for `oribi ctl`.
    my ($control) = "@command" =~ m{ --control (/\S+)};
    my $listens   = sub { return $self->connection && (!$control || -S $control) };
    my $ready     = $self->wait_until(sub { $listens->() || defined $self->exit_status });
    if (!$ready || defined $self->{status}) {
        my $what = $ready ? "ended with status $self->{status}" : 'does not listen';
        croak "@command $what:\n" . $self->log_text;
    }
    return $self;
}

sub pid  ($self) { return $self->{pid} }
sub port ($self) { return $self->{port} }
sub url  ($self) { return scheme($self->{encrypted}) . "://127.0.0.1:" . $self->url_port }

# The scheme of an address that is encrypted, as all are by ORIBI_TEST_TLS=on, or not.
sub scheme ($encrypted = over_tls()) { return $encrypted ? 'https' : 'http' }

# The port in this address.
sub url_port ($self) { return $self->{encrypted} // $self->{port} }

# The address in the form that nginx wants after `server`.
sub upstream ($self) { return $self->{socket} ? "unix:$self->{socket}" : "127.0.0.1:$self->{port}" }

# A new connection, or undef if the server takes none.
sub connection ($self) {
    return IO::Socket::UNIX->new(Peer => $self->{socket}) if $self->{socket};
    return IO::Socket::IP->new(PeerHost => '127.0.0.1', PeerPort => $self->{port});
}

# The number of connections to the server's TCP port that the kernel knows: open ones, and those that were closed within the
# last minute.
sub connections ($self) {
    my $port = sprintf '%04X', $self->{port};
    my %other;
    open my $in, '<', '/proc/net/tcp' or croak "/proc/net/tcp: $!";
    while (my $line = readline $in) {
        my (undef, $local, $remote) = split q( ), $line;
        # Open connections have both ends here.
        $other{$remote} = 1 if $local  =~ /:$port\z/ && $remote !~ /:0000\z/;
        $other{$local}  = 1 if $remote =~ /:$port\z/;
    }
    return scalar keys %other;
}

# Everything written to standard output and standard error so far.
sub log_text ($self) {
    open my $in, '<', $self->{log}->filename or croak "log: $!";
    local $/ = undef;
    return scalar readline $in;
}

# The lines of the log that are warnings or errors, or name a line of code as messages of Perl and Ruby do.
sub complaints ($self) {
    my $complaint = qr/\[(?:warn|warning|error|critical|alert|emergency)\]|[ ]at[ ]\S+[ ]line[ ]\d+|[.]rb:\d+:/;
    # Large apps are slow on a busy machine.
    my $slow = qr/\[warn\][ ]\[\d+\][ ]\d+[ ]requests?[ ](?:waits?|has[ ]waited)[ ]for[ ]a[ ]worker\b/;
    return grep { /$complaint/ && !/$slow/ } split /\n/, $self->log_text;
}

# The processes whose parent is process PID.
sub children ($pid) {
    my @children;
    for my $file (glob '/proc/[0-9]*/stat') {
        open my $in, '<', $file or next;
        # The name in parentheses may hold anything; state and parent follow the last one.
        push @children, $1 if (readline($in) // '') =~ /\A(\d+) .*\) (?!Z)\S $pid /s;
    }
    return @children;
}

# The processes that have no children below PID: the workers, wherever in the tree they are.
sub leaves ($pid) {
    my @children = children($pid);
    return @children ? map { leaves($_) } @children : ($pid);
}

# An edge has no children, either.
sub is_edge ($pid) {
    open my $in, '<', "/proc/$pid/cmdline" or return 0;
    return (readline($in) // '') =~ /\Aoribi: edge\b/;
}

sub workers ($self) { return grep { !is_edge($_) } leaves($self->{pid}) }

# ctl(CONTROL, ORDER...): the exit status and the output of `oribi ctl ORDER...`, for the server with this control socket.
sub ctl ($control, @order) {
    my $pid = open my $from, '-|' or exec { 'sh' } 'sh', '-c', 'exec "$@" 2>&1', 'sh', command(), 'ctl', @order,
        '--control', $control;
    defined $pid or croak "fork: $!";
    local $/ = undef;
    my $said = readline $from;
    close $from or $! == 0 or croak "close: $!";
    return ($? >> 8, $said);
}

# Sends SIGNAL to the first process, or with a minus ("-INT") to its group as a terminal does.
sub signal ($self, $signal) { return kill $signal, $self->{pid} }

# The status that wait(2) gave, or undef while the process runs.
sub exit_status ($self) {
    $self->{status} = $? if !defined $self->{status} && waitpid($self->{pid}, WNOHANG) == $self->{pid};
    return $self->{status};
}

# Waits until CONDITION is true; false if it does not become so. Dies instead if nobody looks at the result, because the test would
# only take longer then.
sub wait_until ($self, $condition) {
    my $end = time + PATIENCE;
    until ($condition->()) {
        if (time > $end) { return defined wantarray ? 0 : croak "nothing came of the wait:\n" . $self->log_text }
        sleep 0.02;
    }
    return 1;
}

# Sends SIGNAL and waits for the end; returns the status of wait(2), or undef if the process had to be killed.
sub stop ($self, $signal = 'TERM') {
    $self->signal($signal);
    return $self->{status} if $self->wait_until(sub { defined $self->exit_status });
    $self->_end;
    return;
}

sub _end ($self) {
    return if $self->{owner} != $$ || defined $self->{status};
    local ($?, $!, $@);
    kill '-KILL', $self->{pid};
    waitpid $self->{pid}, 0;
    $self->{status} = $?;
    return;
}

sub DESTROY ($self) { return $self->{pid} ? $self->_end : undef }

1;
