#!/usr/bin/perl
# Property: a browser speaks HTTP/2 with an app of each language: it asks for much at once, sends and gets content, and cancels.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use File::Temp ();
use Test::Clients;
use Test::Curl;
use Test::More;
use Test::Oribi;

for my $app (qw(app.psgi app.ru app.lua)) {
    my $site    = start_for_clients($app, '--workers', 2, '--static', "/pages=$FindBin::Bin/pages");
    my $profile = File::Temp->newdir;
    my @browser = ('timeout', 60, 'chromium', '--headless', '--no-sandbox', '--disable-gpu', '--ignore-certificate-errors');
    my $page    = output_of(@browser, "--user-data-dir=$profile", '--virtual-time-budget=30000', '--dump-dom', "$site->{https}/pages/index.html");
    my ($told)  = $page =~ m{<pre id="told">(.*?)</pre>}s;
    is($told, <<~"TOLD", "$app for Chromium") or diag($page);
        right 200
        upload true
        download @{[numbered_sum(5)]}
        behind 200
        protocols h2
        done
        TOLD
    # Several at once, so that each worker gets one.
    my @collect = ('curl', '-sZ', map {"$site->{http}/collect?$_"} 1 .. 8);
    my $ended   = sub { output_of(@collect); return -e $site->{ended} };
    ok($site->{oribi}->wait_until($ended), 'the app is told that a fetch was aborted');
    is_deeply([$site->{oribi}->complaints], [], 'nothing is complained of');
}

done_testing;
