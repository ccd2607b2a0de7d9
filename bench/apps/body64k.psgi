# Cell body-64k: 65536 bytes in one piece, the alphabet over and over; built once, so that only sending it is measured.
my $body = substr join('', 'a' .. 'z') x 2521, 0, 65536;
sub { [200, ['Content-Type' => 'text/plain', 'Content-Length' => 65536], [$body]] };
