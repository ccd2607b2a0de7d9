#!/usr/bin/perl
# Property: a server that stops or is upgraded leaves clients over TLS in good order: all requests that have begun, over
# HTTP/1 and HTTP/2, are answered completely, and each connection ends with the announcement of its protocol.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use IPC::Open2 qw(open2);
use Test::Clients;
use Test::More;

for (['app.psgi', 'USR2'], ['app.ru', 'TERM'], ['app.lua', 'USR2']) {
    my ($app, $signal) = @$_;
    subtest "$app, $signal" => sub {
        my $site  = start_for_clients($app, '--workers', 3);
        my $oribi = $site->{oribi};
        my $pid   = open2(my $out, my $in, '/usr/bin/python3', "$FindBin::Bin/programs/leaving.py", $site->{https} =~ /(\d+)\z/);
        is(scalar readline $out, "ready\n", 'the clients have begun');
        $oribi->signal($signal);
        print {$in} "told\n" or die "leaving.py: $!";
        close $in or die "leaving.py: $!";
        my $said = join q(), readline $out;
        waitpid $pid, 0;
        is($said, <<~'SAID', 'and all of them have what they have asked for');
            idle: GOAWAY, end
            deaf: GOAWAY, end
            late: 200 GOAWAY, end
            slow: 200 200 GOAWAY, end
            upload: 200 20000 GOAWAY, end
            download: 200 2097152 GOAWAY, end
            http1_idle: , end
            http1_half: HTTP/1.1 200 OK close, end
            handshake: HTTP/1.1 200 OK close, end
            SAID
        # A server that is already stopping gets no second order.
        is($oribi->stop($signal eq 'TERM' ? 0 : 'TERM'), 0, 'the server ends with status 0');
        is_deeply([$oribi->complaints], [], 'and complains of nothing');
    };
}

done_testing;
