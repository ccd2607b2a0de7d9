#!/usr/bin/perl
# Property: real clients of HTTP/2, over TLS with ALPN and in clear text, send and get large content unchanged, have a thousand
# requests on one connection, send trailers, PING and GOAWAY, and cancel requests that they have begun; the app of each
# language learns of it, and nothing remains.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use File::Temp ();
use Test::Clients;
use Test::Curl;
use Test::More;
use Test::Oribi;

# Mebibytes of uploads and downloads: large ones by all clients to one app, and by curl to all.
use constant { LARGE => 100, SMALL => 10 };

my $folder = File::Temp->newdir;
my $client = go_program('client');

my $sum    = numbered_sum(LARGE);
my $random = random_file(LARGE << 20);
my $upload = Digest::SHA->new(256)->addfile($random->filename)->hexdigest . q( ) . (LARGE << 20);

for my $app (qw(app.psgi app.ru app.lua)) {
    for my $edge (qw(on off)) {
        subtest "$app, edge $edge" => sub {
            my $site  = start_for_clients($app, '--edge', $edge, '--workers', $edge eq 'on' ? 2 : 1);
            my $https = $site->{https};
            # The way with an edge is that of most servers.
            my $mebibytes = $edge eq 'off' ? 3 : $app eq 'app.lua' ? LARGE : SMALL;
            my ($part, $length) = (numbered_sum($mebibytes), $mebibytes << 20);

            is(conversation($site, 'https', 'upload',   $mebibytes), 'same',          'h2 uploads over TLS');
            is(conversation($site, 'https', 'download', $mebibytes), "$part $length", 'h2 downloads over TLS');
            is(conversation($site, 'http',  'upload',   3), 'same', 'h2 uploads in clear text');
            is(conversation($site, 'http',  'download', 3), numbered_sum(3) . ' ' . (3 << 20), 'h2 downloads in clear text');
            if ($edge eq 'on') {
                my @curl = ('curl', '-sS', '--http2', '--cacert', $site->{certificate}, '-w', '%{http_version}');
                is(output_of(@curl, '-X', 'POST', '-T', $random->filename, "$https/sum"), "$upload\n2", 'curl uploads');
                my $version = output_of(@curl, '-o', "$folder/download", "$https/numbered?" . LARGE);
                is("$version " . Digest::SHA->new(256)->addfile("$folder/download")->hexdigest, "2 $sum", 'curl downloads');
            }
            my $file = $edge eq 'on' && $app eq 'app.lua' ? $random : random_file(SMALL << 20);
            my $told = Digest::SHA->new(256)->addfile($file->filename)->hexdigest . q( ) . -s $file->filename;
            is(output_of('nghttp', '--no-verify-peer', '-d', $file->filename, "$https/sum"), "$told\n", 'nghttp uploads');

            for my $scheme (qw(https http)) {
                is(conversation($site, $scheme, 'streams', 1000), '1000 right, 100 of 100 at once', "a thousand streams, $scheme");
                if ($edge eq 'on') {
                    is(conversation($site, $scheme, 'beside', "$site->{ended}.go"), '99 before it, status 200', "none waits for a slow one, $scheme");
                }
                is(conversation($site, $scheme, 'trailers'), <<~'SAID' =~ s/\n\z//r, "trailers, $scheme");
                    ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73 7
                    PATH_INFO=/behind
                    SAID
                is(conversation($site, $scheme, 'ping'), 'answered PATH_INFO=/behind', "PING, $scheme");
                is(conversation($site, $scheme, 'goaway'), '200 ended', "GOAWAY, $scheme");
            }
            cancel($site);
            is_deeply([$site->{oribi}->complaints], [], 'nothing is complained of');

            # The client in Go is the last one: while it asks, the server stops, says GOAWAY and answers.
            open my $go, '-|', $client, $https, $site->{certificate}, $mebibytes or die "$client: $!";
            my $said = q();
            while (my $line = readline $go) {
                $said .= $line;
                is($site->{oribi}->stop('TERM'), 0, 'the server stops') if $line eq "asked\n";
            }
            close $go or fail("the client in Go ended with status $?");
            is($said, <<~"SAID", 'the client in Go');
                upload true
                download $part $length
                trailers HTTP/2.0 ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73 7
                at once 300
                cancelled HTTP/2.0
                asked
                HTTP/2.0
                SAID
        };
    }
}

# The number of endless responses whose end the app has seen.
sub ended ($site) {
    # Lua notices the end of a response only at the second garbage collection. These six requests are sent at once, and each
    # takes a moment, so every worker gets at least one.
    for my $time (1, 2) {
        output_of('curl', '-sSZ', '--fail', '-o', '/dev/null', "$site->{http}/collect?[1-6]");
    }
    return -e $site->{ended} ? scalar(() = content_of($site->{ended}) =~ /^ended$/mg) : 0;
}

sub cancel ($site) {
    my $oribi = $site->{oribi};
    my $begun = 0;
    my @before;
    my $least = 'inf';
    # Processes may keep the memory of the first rounds; a leak grows in each round.
    for my $round (1 .. 3) {
        for my $scheme (qw(https http)) {
            is(conversation($site, $scheme, 'cancel-downloads', 10), 'cancelled', "downloads cancelled, $scheme");
            is(conversation($site, $scheme, 'cancel-uploads',   10), 'cancelled', "uploads cancelled, $scheme");
            is(conversation($site, $scheme, 'leave'), 'left', "the client leaves, $scheme");
            $begun += 11;
        }
        ok($oribi->wait_until(sub { ended($site) == $begun }), 'the app is told of each end') or diag(ended($site));
        my @after = resources($oribi);
        if (@before) {
            $least = $after[1] - $before[1] if $after[1] - $before[1] < $least;
            $oribi->wait_until(sub { (@after = resources($oribi))[0] <= $before[0] });
            cmp_ok($after[0], '<=', $before[0], 'no descriptor stays open');
        }
        @before = @after;
    }
    # Of each of the 44 uploads and downloads 300 KB had been on their way. The memory of Ruby itself is never the same.
    cmp_ok($least, '<', 4096, 'no memory is kept');
    return;
}

done_testing;
