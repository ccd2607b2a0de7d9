package Test::Chromium::DevTools;

# A process of Chromium without a window, and the DevTools protocol over two pipes: messages in JSON, each followed by a zero
# byte.

use v5.36;
use Carp        qw(croak);
use File::Temp  ();
use IO::Handle  ();
use IO::Select  ();
use JSON::PP    ();
use POSIX       ();
use Time::HiRes qw(time);

# The timeout of every answer, in seconds.
use constant PATIENCE => 60;

# Nothing is asked for but what a page asks for.
my @quiet = map { "--$_" } qw(no-first-run disable-background-networking disable-component-update disable-sync disable-quic);
my $json  = JSON::PP->new->utf8->allow_nonref;

# Test::Chromium::DevTools->new(OPTION...): starts a browser.
sub new ($class, @options) {
    my $self = bless { profile => File::Temp->newdir, number => 0, bytes => q(), events => [] }, $class;
    pipe my $orders, $self->{to}  or croak "pipe: $!";
    pipe $self->{from}, my $words or croak "pipe: $!";
    $self->{process} = fork // croak "fork: $!";
    if (!$self->{process}) {
        # Chromium expects the pipes as descriptors 3 and 4.
        my @copies = map { above_4(fileno $_) } $orders, $words;
        POSIX::dup2($copies[$_], 3 + $_) for 0, 1;
        open STDERR, '>', '/dev/null' or POSIX::_exit(1);
        exec 'chromium', '--headless', '--no-sandbox', '--disable-gpu', '--hide-scrollbars', @quiet, @options,
            "--user-data-dir=$self->{profile}", '--remote-debugging-pipe', 'about:blank' or POSIX::_exit(1);
    }
    $self->{to}->autoflush;
    return $self;
}

sub DESTROY ($self) {
    return if !$self->{process};
    local $? = 0;
    kill KILL => $self->{process};
    waitpid $self->{process}, 0;
    return;
}

# A copy of a descriptor with a number that is not needed otherwise.
sub above_4 ($descriptor) {
    my $copy = POSIX::dup($descriptor) // POSIX::_exit(1);
    return $copy > 4 ? $copy : above_4($descriptor);
}

# Calls a method of the protocol, for the page of a session or the browser (undef), and returns its result.
sub call ($self, $session, $method, %parameters) {
    my $number = ++$self->{number};
    my %message = (id => $number, method => $method, params => \%parameters);
    $message{sessionId} = $session if defined $session;
    print { $self->{to} } $json->encode(\%message), "\0";
    # It may keep sending other events without ever answering.
    my $until  = time + PATIENCE;
    my $answer = $self->next_message;
    until (($answer->{id} // 0) == $number) {
        croak "$method: no answer" if time > $until;
        push $self->{events}->@*, $answer if $answer->{method};
        $answer = $self->next_message;
    }
    croak "$method: $answer->{error}{message}" if $answer->{error};
    return $answer->{result};
}

sub next_message ($self) {
    while ((my $end = index $self->{bytes}, "\0") < 0) {
        IO::Select->new($self->{from})->can_read(PATIENCE) or croak 'Chromium says nothing';
        sysread $self->{from}, $self->{bytes}, 1 << 16, length $self->{bytes} or croak 'Chromium has ended';
    }
    my $end = index $self->{bytes}, "\0";
    my $message = $json->decode(substr $self->{bytes}, 0, $end);
    substr $self->{bytes}, 0, $end + 1, q();
    return $message;
}

# The events of a session since the start of the browser: the parameters of all with this name.
sub events ($self, $session, $name) {
    return map { $_->{params} } grep { $_->{method} eq $name && ($_->{sessionId} // q()) eq $session } $self->{events}->@*;
}

1;
