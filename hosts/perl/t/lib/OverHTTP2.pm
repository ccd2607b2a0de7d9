package OverHTTP2;

# The effect of ORIBI_TEST_HTTP2=on: a proxy forwards the requests of the tests by HTTP/2. Tests whose subject is HTTP/1 itself
# are left out.

use strict;
use warnings;
use FindBin    ();
use Test::More ();

# The reasons why subtests are left out with HTTP/2, by script and by pattern of the subtest's name.
my %ABOUT_HTTP1 = (
    '02-environment.t' => { 'HTTP/1.0' => 'the version is that of the connection' },
    '07-extensions.t'  => { '.*: io' => 'a connection of HTTP/2 belongs to other requests, too: tests/apps/http2.t' },
    '08-processes.t'   => { 'titles' => 'a head comes in two parts' },
);

# The reasons why Plack's own tests for servers are left out, by the names of the tests.
my %OF_PLACK = (
    'SERVER_PROTOCOL is required' => 'it must begin with HTTP/1',
    'REQUEST_URI is set'          => 'the proxy decodes %73, which is a letter: tests/apps/http2.t',
    'repeated slashes'            => 'the proxy makes one of them: tests/apps/http2.t',
);

sub is_on { return ($ENV{ORIBI_TEST_HTTP2} || 'off') eq 'on' }

# Options of nghttpx besides its address and its backend, so that it changes nothing in requests.
sub options {
    return (
        qw(--workers=1 --no-via --no-server-rewrite --no-location-rewrite --no-add-x-forwarded-proto --log-level=ERROR),
        qw(--max-request-header-fields=1000 --max-response-header-fields=1000),
    );
}

# Whether one of Plack's tests applies to the current protocol.
sub has_test {
    my ($name) = @_;
    return !is_on() || !$OF_PLACK{$name};
}

# A test of the first bytes of a response that is cut. With HTTP/2 an unknown number of them arrives before the reset.
sub is_cut {
    my ($got, $expected, $name) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    $got = q{} if !defined $got;
    return Test::More::is($got, is_on() ? substr $expected, 0, length $got : $expected, $name);
}

sub _is_about_http1 {
    my ($name) = @_;
    my $of_script = $ABOUT_HTTP1{$FindBin::Script} || {};
    return grep { $name =~ /\A(?:$_)\z/ } keys %{$of_script};
}

if (is_on()) {
    my $subtest = \&Test::More::subtest;
    no warnings qw(once redefine);
    # For packages that import it later, and for the script that has imported it.
    *Test::More::subtest = *main::subtest = sub {
        my ($name) = @_;
        return _is_about_http1($name) ? 1 : $subtest->(@_);
    };
}

1;
