# Answers with the client's address and scheme, the size of the content, and the number of places other than /tmp where it can
# write.
use v5.36;

sub ($env) {
    my $size = 0;
    while (my $count = $env->{'psgi.input'}->read(my $part, 65_536)) { $size += $count }
    my $writable = grep { open my $out, '>', "$_/oribi-test" } qw(/ /etc /var/tmp .);
    return [200, ['Content-Type' => 'text/plain'], ["$env->{REMOTE_ADDR} $env->{'psgi.url_scheme'} $size $writable\n"]];
};
