# Cell upload-1m: reads the whole content, as an app that stores it would, and answers how many bytes it was.
sub {
    my $input = $_[0]{'psgi.input'};
    my $total = 0;
    while (my $got = $input->read(my $buffer, 65536)) { $total += $got }
    [200, ['Content-Type' => 'text/plain', 'Content-Length' => length $total], ["$total"]];
};
