# An app that shows a client the environment of its request, and answers in every way that PSGI knows.

use v5.36;
use Digest::SHA qw(sha256_hex);
use File::Temp  ();
use Time::HiRes qw(sleep);

sub content_of ($env) {
    my $content = '';
    1 while $env->{'psgi.input'}->read($content, 65_536, length $content);
    return $content;
}

# BYTES bytes that repeat only every 251: a lost or doubled block shows.
sub pattern ($bytes) {
    state $period = join '', map { chr } 0 .. 250;
    return substr $period x (1 + int $bytes / 251), 0, $bytes;
}

my %answer = (
    '/' => sub ($env, $number) { return [200, ['Content-Type' => 'text/plain'], ["probe\n"]] },

    # The received request.
    '/echo'   => sub ($env, $number) { return [200, ['Content-Type' => 'application/octet-stream'], [content_of($env)]] },
    '/digest' => sub ($env, $number) {
        my $content = content_of($env);
        return [200, ['Content-Type' => 'text/plain'], [length($content) . ' ' . sha256_hex($content) . "\n"]];
    },
    '/environment' => sub ($env, $number) {
        my @lines = map { "$_=" . ($env->{$_} // 'undef') . "\n" } grep { !ref $env->{$_} } sort keys %{$env};
        return [200, ['Content-Type' => 'text/plain'], \@lines];
    },
    '/process' => sub ($env, $number) { return [200, ['Content-Type' => 'text/plain'], [$$]] },

    # NUMBER bytes, as an array, as a file and in pieces.
    '/array' => sub ($env, $number) { return [200, ['Content-Type' => 'application/octet-stream'], [pattern($number)]] },
    '/file'  => sub ($env, $number) {
        my $file = File::Temp->new;
        print {$file} pattern($number);
        $file->flush;
        open my $handle, '<:raw', $file->filename or die "temporary file: $!";
        return [200, ['Content-Type' => 'application/octet-stream'], $handle];
    },
    '/pieces' => sub ($env, $number) {
        return sub ($respond) {
            my $writer = $respond->([200, ['Content-Type' => 'application/octet-stream']]);
            my $bytes  = pattern($number);
            for (my $at = 0; $at < $number; $at += 10_000) {
                $writer->write(substr $bytes, $at, 10_000);
            }
            $writer->close;
        };
    },

    # Things that go wrong, or take their time.
    '/die'   => sub ($env, $number) { die "as asked\n" },
    '/sleep' => sub ($env, $number) {
        $env->{'psgi.errors'}->print("asleep\n");
        sleep $number;
        return [200, ['Content-Type' => 'text/plain'], ["slept\n"]];
    },
    '/cut'   => sub ($env, $number) {
        return sub ($respond) {
            my $writer = $respond->([200, ['Content-Type' => 'application/octet-stream']]);
            $writer->write('begun');
            die "in the middle\n";
        };
    },
);

sub ($env) {
    my $answer = $answer{ $env->{PATH_INFO} } or return [404, ['Content-Type' => 'text/plain'], ["no such probe\n"]];
    return $answer->($env, $env->{QUERY_STRING} || 0);
};
