package Test::Chromium;

# Chromium without a window, for a test of how a page looks. The test controls it by the DevTools protocol over two pipes:
# messages in JSON, each followed by a zero byte.

use v5.36;
use Carp         qw(croak);
use File::Temp   ();
use IO::Handle   ();
use IO::Select   ();
use JSON::PP     ();
use MIME::Base64 qw(decode_base64);
use POSIX        ();
use Time::HiRes  qw(sleep time);

# The timeout of every wait, in seconds.
my $PATIENCE = 60;
my $json     = JSON::PP->new->utf8->allow_nonref;

# Test::Chromium->new: a browser with one empty page.
sub new ($class) {
    my $self = bless { profile => File::Temp->newdir, number => 0, bytes => q(), events => [] }, $class;
    pipe my $orders, $self->{to}  or croak "pipe: $!";
    pipe $self->{from}, my $words or croak "pipe: $!";
    $self->{process} = fork // croak "fork: $!";
    if (!$self->{process}) {
        # Chromium expects the pipes as descriptors 3 and 4.
        my @copies = map { above_4(fileno $_) } $orders, $words;
        POSIX::dup2($copies[$_], 3 + $_) for 0, 1;
        open STDERR, '>', '/dev/null' or POSIX::_exit(1);
        exec 'chromium', '--headless', '--no-sandbox', '--disable-gpu', '--hide-scrollbars', "--user-data-dir=$self->{profile}",
            '--remote-debugging-pipe', 'about:blank' or POSIX::_exit(1);
    }
    $self->{to}->autoflush;
    my $pages = sub { grep { $_->{type} eq 'page' } $self->call('Target.getTargets')->{targetInfos}->@* };
    my ($target) = $self->wait_for('a page', $pages);
    $self->{session} = $self->call('Target.attachToTarget', targetId => $target->{targetId}, flatten => JSON::PP::true)->{sessionId};
    $self->call("$_.enable") for qw(Page Runtime Log Network);
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

# The result of `$ask` as soon as it is true.
sub wait_for ($self, $what, $ask) {
    my $until = time + $PATIENCE;
    while (time < $until) {
        my @found = $ask->();
        return wantarray ? @found : $found[0] if $found[0];
        sleep 0.05;
    }
    croak "there is no $what";
}

# Calls a method of the protocol, and returns its result.
sub call ($self, $method, %parameters) {
    my $number = ++$self->{number};
    my %message = (id => $number, method => $method, params => \%parameters);
    $message{sessionId} = $self->{session} if $self->{session};
    print { $self->{to} } $json->encode(\%message), "\0";
    # It may keep sending other events without ever answering.
    my $until  = time + $PATIENCE;
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
        IO::Select->new($self->{from})->can_read($PATIENCE) or croak 'Chromium says nothing';
        sysread $self->{from}, $self->{bytes}, 1 << 16, length $self->{bytes} or croak 'Chromium has ended';
    }
    my $end = index $self->{bytes}, "\0";
    my $message = $json->decode(substr $self->{bytes}, 0, $end);
    substr $self->{bytes}, 0, $end + 1, q();
    return $message;
}

# Goes to a place, and waits until it has been loaded.
sub visit ($self, $place) {
    my $failure = $self->call('Page.navigate', url => $place)->{errorText};
    croak "$place: $failure" if $failure;
    return $self->wait_until(q{document.readyState === 'complete'});
}

# The value of an expression in the page.
sub value ($self, $expression) {
    my $result = $self->call('Runtime.evaluate', expression => $expression, returnByValue => JSON::PP::true, awaitPromise => JSON::PP::true);
    croak "$expression: $result->{exceptionDetails}{exception}{description}" if $result->{exceptionDetails};
    return $result->{result}{value};
}

# Waits until an expression is true, and returns its value.
sub wait_until ($self, $expression) {
    return scalar $self->wait_for("page where $expression", sub { $self->value($expression) });
}

# The events since the start of the browser: the parameters of all with this name.
sub events ($self, $name) {
    $self->value('0');
    return map { $_->{params} } grep { $_->{method} eq $name } $self->{events}->@*;
}

# The errors of a page.
sub complaints ($self) {
    my @thrown = map { $_->{exceptionDetails}{exception}{description} // $_->{exceptionDetails}{text} } $self->events('Runtime.exceptionThrown');
    my @said   = map { join q( ), map { $_->{value} // $_->{description} } $_->{args}->@* } $self->events('Runtime.consoleAPICalled');
    return @thrown, @said, map { "$_->{entry}{level}: $_->{entry}{text}" } $self->events('Log.entryAdded');
}

# The addresses of everything that was asked for.
sub requests ($self) {
    return map { $_->{request}{url} } $self->events('Network.requestWillBeSent');
}

# Sets the size of the window in pixels, and the colours that users prefer: light or dark.
sub look ($self, $width, $height, $colours = 'light') {
    $self->call('Emulation.setDeviceMetricsOverride', width => $width, height => $height, deviceScaleFactor => 1, mobile => JSON::PP::false);
    $self->call('Emulation.setEmulatedMedia', features => [{ name => 'prefers-color-scheme', value => $colours }]);
    return;
}

# Writes a picture of the window into a file.
sub picture ($self, $file) {
    open my $handle, '>:raw', $file or croak "$file: $!";
    print {$handle} decode_base64($self->call('Page.captureScreenshot', format => 'png')->{data});
    close $handle or croak "$file: $!";
    return;
}

1;
