package Test::Chromium;

# A page in Chromium without a window, for a test of how it looks or of what its scripts get.

use v5.36;
use Carp         qw(croak);
use JSON::PP     ();
use MIME::Base64 qw(decode_base64);
use Test::Chromium::DevTools;
use Time::HiRes  qw(sleep time);

# The timeout of every wait, in seconds.
my $PATIENCE = 60;

# Test::Chromium->new(OPTION...): a browser with one empty page.
sub new ($class, @options) {
    my $self  = bless { tools => Test::Chromium::DevTools->new(@options) }, $class;
    my $pages = sub { grep { $_->{type} eq 'page' } $self->{tools}->call(undef, 'Target.getTargets')->{targetInfos}->@* };
    my ($target) = $self->wait_for('a page', $pages);
    return $self->_attach($target->{targetId});
}

# Another empty page of the same browser.
sub another ($self) {
    my $page = bless { tools => $self->{tools} }, ref $self;
    return $page->_attach($self->{tools}->call(undef, 'Target.createTarget', url => 'about:blank')->{targetId});
}

sub _attach ($self, $target) {
    my %parameters = (targetId => $target, flatten => JSON::PP::true);
    $self->{session} = $self->{tools}->call(undef, 'Target.attachToTarget', %parameters)->{sessionId};
    $self->call("$_.enable") for qw(Page Runtime Log Network);
    return $self;
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
sub call ($self, $method, %parameters) { return $self->{tools}->call($self->{session}, $method, %parameters) }

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

# The events of the page so far: the parameters of all with this name.
sub events ($self, $name) {
    $self->value('0');
    return $self->{tools}->events($self->{session}, $name);
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
