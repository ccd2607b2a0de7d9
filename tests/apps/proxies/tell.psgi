# Answers with the variables about its client.
use v5.36;

return sub ($env) {
    my @told = map { $env->{$_} // q(-) } qw(REMOTE_ADDR REMOTE_PORT psgi.url_scheme HTTPS HTTP_HOST SERVER_PORT);
    my $fields = join q(,), sort grep { /\AHTTP_(?:X_FORWARDED|X_REAL_IP|FORWARDED)/ } keys %$env;
    return [200, ['Content-Type' => 'text/plain'], [join(q( ), @told, $fields) . "\n"]];
};
