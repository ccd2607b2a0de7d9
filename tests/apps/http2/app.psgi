# Answers for clients of HTTP/2: text about the request, content of any size, whole or in pieces, and an app that takes long.
use v5.36;

my $megabytes = 'x' x 2_000_000;

sub ($env) {
    my $path = $env->{PATH_INFO};
    return [200, ['Content-Type' => 'text/plain'], [$megabytes]] if $path eq '/large';
    if ($path eq '/pieces') {
        return sub ($respond) {
            my $writer = $respond->([200, ['Content-Type' => 'text/plain']]);
            $writer->write('y' x 20_000) for 1 .. 50;
            $writer->close;
        };
    }
    if ($path eq '/slow') {
        sleep 2;
        return [200, [], ["slow\n"]];
    }
    if ($path eq '/socket') {
        my $peer = eval { $env->{'psgix.io'}->peerhost } // 'unknown';
        return [200, ['Content-Type' => 'text/plain'], ["the peer is $peer\n"]];
    }
    my $size = 0;
    while (my $read = $env->{'psgi.input'}->read(my $piece, 65_536)) { $size += $read }
    my @told = map { "$_=" . ($env->{$_} // '') } qw(REQUEST_METHOD REQUEST_URI SERVER_PROTOCOL HTTP_HOST HTTP_COOKIE);
    return [200, ['Content-Type' => 'text/plain'], [join "\n", @told, "size=$size", '']];
};
