# Answers with the name of its machine, the client's address and scheme, and the method. It notes each POST in a file first.
use v5.36;
use Time::HiRes qw(sleep);

my $machine = $ENV{MACHINE};
my $orders  = $ENV{ORDERS};

sub ($env) {
    if ($env->{REQUEST_METHOD} eq 'POST') {
        read $env->{'psgi.input'}, my $order, $env->{CONTENT_LENGTH};
        open my $out, '>>', $orders or die "$orders: $!";
        syswrite $out, "$order $machine\n";
        close $out or die "$orders: $!";
    }
    sleep 0.02;
    my $fields = join q(,), sort grep {/\AHTTP_(?:X_FORWARDED|FORWARDED)/} keys %$env;
    my $answer = join q( ), $machine, @$env{qw(REMOTE_ADDR psgi.url_scheme)}, $fields, $env->{REQUEST_METHOD};
    return [200, ['Content-Type' => 'text/plain'], ["$answer\n"]];
}
