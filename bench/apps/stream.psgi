# Cell stream: 16 pieces of 1 KiB (a letter each, 'a' to 'p'), one write each, no Content-Length: a server must frame them.
my @pieces = map { $_ x 1024 } 'a' .. 'p';
sub {
    sub {
        my $writer = $_[0]->([200, ['Content-Type' => 'text/plain']]);
        $writer->write($_) for @pieces;
        $writer->close;
    };
};
