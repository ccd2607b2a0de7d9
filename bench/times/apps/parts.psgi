# Answers whose time is known: `/slow` sleeps for 20 ms and answers at once, anything else is a response of five pieces with 2 ms before
# each. bench/times/compare asks for them.

use v5.36;
use Time::HiRes qw(sleep);

my @plain = ('Content-Type' => 'text/plain');

my $app = sub ($env) {
    if ($env->{PATH_INFO} eq '/slow') {
        sleep 0.02;
        return [200, [@plain], ["slow\n"]];
    }
    return sub ($respond) {
        my $writer = $respond->([200, [@plain]]);
        for (1 .. 5) {
            sleep 0.002;
            $writer->write('x' x 10_000);
        }
        $writer->close;
    };
};
