# Cells keep-alive, short and pipelined: the smallest complete answer. 11 bytes, the same as `oribi --native 'Hello World'`.
sub { [200, ['Content-Type' => 'text/plain', 'Content-Length' => 11], ['Hello World']] };
