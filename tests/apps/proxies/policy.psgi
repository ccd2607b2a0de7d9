# Answers with the scheme of its client's request; below /own it has a policy of its own.
use v5.36;

return sub ($env) {
    my @policy = $env->{PATH_INFO} =~ m{/own\z} ? ('Strict-Transport-Security' => 'max-age=0') : ();
    return [200, ['Content-Type' => 'text/plain', @policy], ["$env->{'psgi.url_scheme'}\n"]];
};
