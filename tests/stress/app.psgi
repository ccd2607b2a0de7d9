# Answers with the request's target, and the size of its content.

use v5.36;

sub ($env) {
    my ($length, $buffer) = (0, '');
    while (my $count = $env->{'psgi.input'}->read($buffer, 65_536)) {
        $length += $count;
    }
    return [200, ['Content-Type' => 'text/plain'], ["$env->{REQUEST_METHOD} $env->{PATH_INFO} $length\n"]];
};
