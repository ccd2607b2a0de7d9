# The smallest PSGI app: a code reference that is given the request's environment and returns status, headers and body.
#
#     oribi examples/hello.psgi

use strict;
use warnings;

my $app = sub {
    my ($env) = @_;
    return [200, ['Content-Type' => 'text/plain; charset=utf-8'], ["Hello from Oribi, $env->{REMOTE_ADDR}\n"]];
};
