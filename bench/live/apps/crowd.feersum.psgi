# For Feersum: event streams that listen, and /say, which sends its query to all. Their writers are kept.

use v5.36;

my %writers;

sub ($env) {
    if ($env->{PATH_INFO} eq '/say') {
        $_->write("data: $env->{QUERY_STRING}\n\n") for values %writers;
        return [204, [], []];
    }
    return sub ($respond) {
        my $writer = $respond->([200, ['Content-Type' => 'text/event-stream']]);
        $writer->write(": welcome\n\n");
        $writers{"$writer"} = $writer;
    };
};
