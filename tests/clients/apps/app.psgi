# Answers for real clients. app.ru and app.lua are the same in their languages.
#
#   /            text about the request
#   /sum         the SHA-256 of the request's content, and its size
#   /numbered?N  N blocks of 1 MiB, each of which ends with its number, in pieces
#   /filled?N    N bytes
#   /endless     pieces until the client has gone; then there is a line in the file that ORIBI_TEST_ENDED names
#   /nap?S       an answer after S seconds
#   /held        an answer when there is a file of that name and `.go`
#   /collect     collects garbage, where the language does so
use v5.36;
use Digest::SHA ();
use Time::HiRes ();

my $block = substr join(q(), map { chr(33 + $_ % 89) } 1 .. 89) x 12_000, 0, 2**20 - 8;

sub text ($text) { return [200, ['Content-Type' => 'text/plain'], [$text]] }

sub pieces ($next) {
    return sub ($respond) {
        my $writer = $respond->([200, ['Content-Type' => 'text/plain']]);
        # It is false when the client has gone.
        while (defined(my $piece = $next->())) { $writer->write($piece) or last }
        $writer->close;
    };
}

# The end of a request is the end of what its app holds.
package Ending {
    sub DESTROY ($self) {
        open my $out, '>>', $ENV{ORIBI_TEST_ENDED} or die "$ENV{ORIBI_TEST_ENDED}: $!";
        syswrite $out, "ended\n";
        close $out or die "$ENV{ORIBI_TEST_ENDED}: $!";
        return;
    }
}

sub ($env) {
    my ($path, $query) = @$env{qw(PATH_INFO QUERY_STRING)};
    if ($path eq '/sum') {
        my ($sum, $size) = (Digest::SHA->new(256), 0);
        while (my $read = $env->{'psgi.input'}->read(my $piece, 2**20)) {
            $sum->add($piece);
            $size += $read;
        }
        return text($sum->hexdigest . " $size\n");
    }
    if ($path eq '/numbered') {
        my $number = 0;
        return pieces(sub { $number++ < $query ? $block . sprintf('%08d', $number) : undef });
    }
    if ($path eq '/endless') {
        my $ending = bless {}, 'Ending';
        return pieces(sub { $ending && substr $block, 0, 65_536 });
    }
    return text(substr $block, 0, $query) if $path eq '/filled';
    Time::HiRes::sleep($query) if $path eq '/nap';
    if ($path eq '/held') {
        Time::HiRes::sleep(0.01) until -e "$ENV{ORIBI_TEST_ENDED}.go";
    }
    return text(join "\n", map({ "$_=" . ($env->{$_} // q()) } qw(REQUEST_METHOD PATH_INFO SERVER_PROTOCOL SSL_PROTOCOL)), q());
};
