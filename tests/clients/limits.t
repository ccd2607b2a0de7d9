#!/usr/bin/perl
# Property: a client that exceeds a limit of size or time gets the right error, over HTTP/1 and HTTP/2, with TLS and without;
# over HTTP/2 that costs a request and not the others of its connection.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::Clients;
use Test::More;

my @limits = (
    qw(--max-uri-size 1k --max-header-size 8k --max-headers 50 --max-body-size 10k),
    qw(--header-timeout 1s --body-timeout 1s --keepalive-timeout 1s --linger-timeout 1s),
);

my %told = (
    'http/1.1' => <<~'SAID',
        long target: 414, ends
        long field: 431, ends
        many fields: 431, ends
        long content: 413, ends
        content of unknown length: 413, ends
        content that stops: 408, ends
        half a head: 408, the end
        idle: 200 the end
        SAID
    h2 => <<~'SAID',
        long target: 414, goes on
        long field: 431, goes on
        many fields: 431, goes on
        long content: 413, goes on
        content of unknown length: 413, goes on
        content that stops: 408, goes on
        half a head: GOAWAY 0, the end
        idle: 200 GOAWAY 0, the end
        SAID
);

# All of them wait for a while, so they do so at the same time.
my (%site, %client);
for my $edge (qw(on off)) {
    $site{$edge} = start_for_clients('app.lua', '--workers', 1, '--edge', $edge, @limits);
    for my $protocol ('http/1.1', 'h2') {
        for my $scheme (qw(http https)) {
            my ($port) = $site{$edge}{$scheme} =~ /(\d+)\z/;
            my @command = ('/usr/bin/python3', "$FindBin::Bin/programs/limits.py", $port, $protocol, $scheme);
            open $client{"$protocol $scheme edge $edge"}, '-|', @command or die "limits.py: $!";
        }
    }
}
for my $name (sort keys %client) {
    my ($protocol, $scheme) = split / /, $name;
    my $said = join q(), readline $client{$name};
    my $last = $scheme eq 'https' ? "no handshake: the end\n" : q();
    is($said, $told{$protocol} . $last, $name);
    ok(close $client{$name}, 'and the client ends well');
}
for my $site (values %site) {
    is($site->{oribi}->stop, 0, 'the server ends with status 0');
    is_deeply([$site->{oribi}->complaints], [], 'and complains of nothing');
}

done_testing;
