package Oribi::Options;
use strict;
use warnings;
use Config ();
use Oribi::Loop ();
use POSIX ();

# Options that Perl code handles: the hooks.
my %HOOK = map { $_ => 1 } qw(before_fork after_fork child_exit server_ready);

# Options that plackup and other launchers pass on for their own use or for other servers, and options that always hold here.
my %IGNORED = map { $_ => 1 } qw(
    env app eval loader reload includes modules default_middleware path argv help version server
    preload_app psgi_app_builder
);

# Options are a hash, but listeners must keep the order of the command line, and a shorthand precedes the options that it sets.
my @FIRST = qw(timeout read_timeout);

# No options yet. `origin` names, in messages, the source of the options that follow.
sub bare {
    my ($class, $origin) = @_;
    return bless { origin => $origin, config => Oribi::Config->new, hooks => {}, warned => {} }, $class;
}

# The options of a Plack handler.
sub new {
    my ($class, %options) = @_;
    my $self = $class->bare('plackup');
    $self->{daemonize} = delete $options{daemonize};
    for my $name (sort keys %HOOK) {
        my $hook = delete $options{$name};
        $self->{hooks}{$name} = _code($name, $hook) if defined $hook;
    }
    delete @options{ keys %IGNORED };
    $self->_take_listeners(\%options);
    my %rank = map { $FIRST[$_] => $_ - @FIRST } 0 .. $#FIRST;
    for my $name (sort { ($rank{$a} || 0) <=> ($rank{$b} || 0) || $a cmp $b } keys %options) {
        my $value = $options{$name};
        next if !defined $value;
        $self->set($name, $_) for ref $value eq 'ARRAY' ? @{$value} : ($value);
    }
    return $self;
}

# Starlet accepts a hook as a string of Perl code, the only form for a command line.
sub _code {
    my ($name, $hook) = @_;
    if (!ref $hook) {
        my $text = $hook;
        $hook = eval $text;    ## no critic (ProhibitStringyEval) -- the command line is trusted as a program is
        die "$name: $@" if $@;
    }
    die "$name must be a code reference\n" if ref $hook ne 'CODE';
    return $hook;
}

# plackup passes the same listeners several times: as host and port, as socket, and as listen. Only `listen` has all of them.
sub _take_listeners {
    my ($self, $options) = @_;
    my ($host, $port, $socket, $listen) = delete @{$options}{qw(host port socket listen)};
    my @listen = ref $listen eq 'ARRAY' ? @{$listen} : defined $listen ? ($listen) : ();
    if (!@listen && defined $socket) {
        @listen = ($socket);
    }
    if (@listen) {
        $self->set(listen => $_) for @listen;
    } elsif (defined $host || defined $port || !$ENV{PORT}) {
        # By default plackup listens on all interfaces.
        $self->set(host => defined $host && length $host ? $host : q{*});
        $self->set(port => defined $port ? $port : 5000);
    }
    $self->{first_listener} = @listen ? $listen[0] : undef;
    @{$self}{qw(host port)} = ($host, defined $port ? $port : 5000);
    return;
}

# Sets one setting by any of its names. An unknown name gets a warning, because other servers have options that Oribi does not
# need. An invalid value is an error. So is an option of another server that protects something, if Oribi does not have it.
sub set {
    my ($self, $name, $value) = @_;
    # plackup turns --enable-x and --disable-x into booleans; the oribi command says on and off.
    if ($name =~ /\A(?:keep_?alive|proctitle)\z/ && (!defined $value || $value =~ /\A[01]?\z/)) {
        $value = $value ? 'on' : 'off';
    }
    if ($name eq 'threads' && $value =~ /\A\s*0*(?:[2-9]|1\d)/ && !has_threads()) {
        die "this perl has no threads: --threads $value needs one that is built with them; --workers $value does without\n";
    }
    my $result = $self->{config}->set($name, $value, $self->{origin});
    if ($result == 1) {
        warn "$self->{origin}: " . Oribi::last_error() . "\n" if !$self->{warned}{$name}++;
    } elsif ($result != 0) {
        die "$self->{origin}: " . Oribi::last_error() . "\n";
    }
    $self->{interface} = lc $value if $name eq 'interface' && $result == 0;
    return $result == 0;
}

# The data for plackup's server_ready callback, which prints "$server_software: Accepting connections at ...".
sub _description {
    my ($self) = @_;
    my $first = $self->{first_listener};
    my %description = (server_software => 'Oribi', proto => 'http', host => $self->{host}, port => $self->{port});
    if (defined $first) {
        if ($first =~ /\A(.*):(\d+)\z/s) {
            @description{qw(host port)} = ($1, $2);
        } else {
            @description{qw(proto host port)} = ('unix', $first, q{});
        }
    }
    return \%description;
}

sub serve {
    my ($self, $app) = @_;
    if (ref $app ne 'CODE') {
        die "the app must be a code reference\n" if !ref $app || !defined &overload::Method || !overload::Method($app, '&{}');
        my $object = $app;
        $app = sub { $object->(@_) };
    }
    my %hooks = %{ $self->{hooks} };
    my $is_pagi = $INC{'Oribi/PAGI.pm'} && Oribi::PAGI->is_used;
    # The mold has done this already.
    if (!$is_pagi && ($self->{interface} // q{}) eq 'pagi') {
        die "PAGI apps below plackup need -E deployment: the middleware of development is for PSGI apps\n"
            if ($ENV{PLACK_ENV} // q{}) eq 'development';
        require Oribi::PAGI;
        $app     = Oribi::PAGI->wrap($app);
        $is_pagi = 1;
    }
    Oribi::PAGI->add_hooks(\%hooks) if $is_pagi;
    if (my $ready = $hooks{server_ready}) {
        my $description = $self->_description;
        $hooks{server_ready} = sub { $ready->($description) };
    }
    _daemonize() if $self->{daemonize};
    # Not localised: an app that calls exit unwinds everything, but the hooks of its worker must still run.
    $Oribi::App   = $app;
    %Oribi::Hooks = %hooks;
    my $loop = $self->_loop($is_pagi);
    if (defined $loop && $loop eq 'mojo' && $INC{'Mojo/Server/PSGI.pm'}) {
        require Mojo::Server::Oribi;
        Mojo::Server::Oribi->install;
    }
    my $status = Oribi::serve($self->{config}, defined $loop);
    undef $Oribi::App;
    %Oribi::Hooks = ();
    return $status;
}

# Returns the name of the event loop that runs in the workers, or undef.
sub _loop {
    my ($self, $is_pagi) = @_;
    my ($choice, $can_loop) = $self->{config}->event_loop;
    # Settings that contradict each other are reported later.
    return if !defined $choice;
    if ($is_pagi) {
        $choice = 'ioasync' if $choice eq 'auto';
        die "--loop $choice cannot run PAGI apps: they need ioasync\n" if $choice ne 'ioasync';
    }
    return Oribi::Loop::choose($choice, $can_loop);
}

sub _daemonize {
    my $pid = fork;
    die "cannot fork: $!\n" if !defined $pid;
    POSIX::_exit(0) if $pid;
    POSIX::setsid();
    open STDIN,  '<', '/dev/null' or die "cannot open /dev/null: $!\n";
    open STDOUT, '>', '/dev/null' or die "cannot open /dev/null: $!\n";
    open STDERR, '>', '/dev/null' or die "cannot open /dev/null: $!\n";
    return;
}

sub has_threads {
    return !!$Config::Config{useithreads};
}

1;

__END__

=head1 NAME

Oribi::Options - from the options of plackup to the settings of the server

=head1 DESCRIPTION

The common part of L<Plack::Handler::Oribi> and the C<oribi> command. Options are described in L<Plack::Handler::Oribi>.

=cut
