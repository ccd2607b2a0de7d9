#!/usr/bin/perl
# Property: pages in a browser reach each other through apps of each language, over WebSockets and streams of events, by whichever
# protocol the browser chooses, and go on when workers or edges are replaced.

use v5.36;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../lib";
use File::Temp ();
use Test::Certificate;
use Test::Chromium;
use Test::Command qw(run);
use Test::Curl;
use Test::Files    qw(append_file write_file);
use Test::FreePort qw(free_port);
use Test::More;
use Test::Oribi;
use Test::RailsApp;

my $folder      = File::Temp->newdir;
my $certificate = certificate('browser', "$folder/certificate");
my $fingerprint = q{openssl x509 -in "$0" -pubkey -noout | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64};
chomp(my $key = run('sh', '-c', $fingerprint, $certificate));

# It trusts this certificate and no other.
my $ann = Test::Chromium->new("--ignore-certificate-errors-spki-list=$key");
my $bob = $ann->another;

# A server for clients in clear text and for encrypted ones, and its two addresses.
sub start (@command) {
    my ($plain, $encrypted) = (free_port(), 0);
    do { $encrypted = free_port() } while $encrypted == $plain;
    my $oribi = Test::Oribi->run_on_port(
        $plain, @command, '--static', "/pages=$FindBin::Bin/pages", '--listen', "http://127.0.0.1:$plain",
        '--listen', "https://127.0.0.1:$encrypted?cert=$certificate",
    );
    return ($oribi, "http://127.0.0.1:$plain", "https://127.0.0.1:$encrypted");
}

# Whether a list of the page has this text, sooner or later.
sub shows ($page, $list, $text, $name) {
    my $has = qq{shown('$list').includes('$text')};
    return ok($page->wait_until($has), $name);
}

# Opens the page of the chat for a guest.
sub chat ($page, $site, $guest) {
    $page->visit("$site/pages/chat.html?/socket%3F$guest#/events");
    $page->wait_until('events.readyState === 1');
    return shows($page, 'messages', "welcome $guest", "$guest has a WebSocket");
}

sub say_in ($page, $text) {
    return $page->value(qq{document.getElementById('text').value = '$text'; document.querySelector('button').click()});
}

# The status of the response that has opened the last WebSocket: HTTP/1.1 has an upgrade (101), HTTP/2 a stream.
sub handshake ($page) {
    return ($page->events('Network.webSocketHandshakeResponseReceived'))[-1]{response}{status};
}

# Waits until none of these processes is left.
sub gone ($oribi, @processes) {
    return ok($oribi->wait_until(sub { !kill 0, @processes }), 'the former processes have ended');
}

# Messages of all kinds and sizes, from Ann's page to Bob's and back.
sub talk ($round) {
    for my $speaker ([ann => $ann], [bob => $bob]) {
        my ($name, $page) = @$speaker;
        say_in($page, "grüße $round 🎉");
        shows($_, 'messages', "$name: grüße $round 🎉", "a message of $name is shown") for $ann, $bob;
    }
    return;
}

sub large_messages () {
    # Chromium would report each message, as slowly as Perl reads JSON.
    $_->call('Network.disable') for $ann, $bob;
    for my $page ($ann, $bob) {
        $page->value(q{window.long = Array.from({ length: 20000 }, (_, at) => `${at} é🎉`).join()});
        $page->value(q{socket.send(long)});
        ok($page->wait_until(q{shown('messages').some(text => text.endsWith(long))}), 'a long text comes back');
        $page->value(q{window.sent = new Uint8Array(200000).map((_, at) => at * at % 251); socket.send(sent)});
        $page->wait_until(q{bytes && bytes.length === sent.length});
        ok($page->value(q{bytes.every((byte, at) => byte === sent[sent.length - 1 - at])}), 'so do bytes');
    }
    $_->call('Network.enable') for $ann, $bob;
    return;
}

# The errors of a page. That a server goes is none, nor that Action Cable's script gives a slow connection up.
sub complaints ($page) {
    return grep { !/ERR_(?:CONNECTION|INCOMPLETE_CHUNKED|EMPTY_RESPONSE)|closed before the connection is established/ } $page->complaints;
}

my $rails = Test::RailsApp->new;
my ($cable, @cable_sites) = start(
    $rails->command('CABLE_AT_EDGE=1'), '--workers', 2, '--threads', 1, '--edges', 2, '--websocket-http2',
    '--static', '/scripts=' . $rails->scripts,
);

subtest 'Action Cable of Rails' => sub {
    $ann->visit("$cable_sites[0]/pages/cable.html");
    $bob->visit("$cable_sites[1]/pages/cable.html");
    shows($_, 'states', 'connected', 'a page has subscribed') for $ann, $bob;
    is_deeply([handshake($ann), handshake($bob)], [101, 200], 'over HTTP/1.1, and a stream of HTTP/2');
    for my $count (1, 2) {
        say_in($ann, 'grüße 🎉');
        shows($_, 'messages', "grüße 🎉 $count", 'a message is shown, and a count of the channel') for $ann, $bob;
    }
    $bob->value(q{fetch('/rooms/7', { method: 'POST', body: new URLSearchParams({ text: 'of a request' }) })});
    shows($_, 'messages', 'of a request undefined', 'a broadcast is shown') for $ann, $bob;
    my @workers = $cable->workers;
    $cable->signal('HUP');
    gone($cable, @workers);
    say_in($ann, 'still here');
    shows($_, 'messages', 'still here 3', 'after a reload, the same connection goes on') for $ann, $bob;
    is($_->value('shown("states").join()'), 'connected', 'and has never ended') for $ann, $bob;
};

# The script waits for some seconds before it connects again; the other tests go on meanwhile, in two more pages.
my @cable_pages = ($ann, $bob);
kill KILL => grep { Test::Oribi::is_edge($_) } Test::Oribi::leaves($cable->pid);
($ann, $bob) = map { $_->another } @cable_pages;

$ENV{TEST_NEWS} = "$folder/news"; ## no critic (RequireLocalizedPunctuationVars)
for my $app (qw(chat.ru chat.psgi chat.lua)) {
    subtest "$app: connections of edges" => sub {
        write_file($ENV{TEST_NEWS}, q());
        my ($oribi, $plain, $encrypted) = start(Test::Oribi::command(), "$FindBin::Bin/apps/$app", '--workers', 2, '--edges', 2,
            '--websocket-http2');
        chat($ann, $plain,     'ann');
        chat($bob, $encrypted, 'bob');
        is_deeply([handshake($ann), handshake($bob)], [101, 200], 'over HTTP/1.1, and a stream of HTTP/2');
        like($_->value('socket.extensions'), qr/^permessage-deflate/, 'messages are compressed') for $ann, $bob;
        talk('first');
        large_messages();
        $bob->value(q{fetch('/news', { method: 'POST', body: 'one é' })});
        shows($_, 'news', '1 one é', 'news are shown') for $ann, $bob;

        my @workers = $oribi->workers;
        $oribi->signal('HUP');
        gone($oribi, @workers);
        talk('after a reload');
        $ann->value(q{fetch('/news', { method: 'POST', body: 'two' })});
        shows($_, 'news', '2 two', 'news are shown') for $ann, $bob;
        is_deeply($_->value('ends'), [], 'no WebSocket has ended') for $ann, $bob;

        # Nobody but who comes again and says what was last gets this.
        append_file($ENV{TEST_NEWS}, "missed\n");
        my @edges = grep { Test::Oribi::is_edge($_) } Test::Oribi::leaves($oribi->pid);
        kill KILL => @edges;
        gone($oribi, @edges);
        shows($_, 'news', '3 missed', 'a stream comes again after the death of its edge, and gets what was missed') for $ann, $bob;
        is_deeply($_->value('shown("news")'), ['1 one é', '2 two', '3 missed'], 'all once, in order') for $ann, $bob;
        is_deeply($_->value('ends'), ['1006 false'], 'a WebSocket has ended') for $ann, $bob;
        $_->value('connect()') for $ann, $bob;
        $_->wait_until('socket.readyState === 1') for $ann, $bob;
        talk('with new edges');
        is($oribi->stop, 0, 'the server ends');
        ok($_->wait_until('ends.length === 2'), 'and the WebSockets') for $ann, $bob;
        is($_->value('ends[1]'), '1001 true', 'with a message that says why') for $ann, $bob;
        is_deeply([complaints($_)], [], 'nothing is complained of') for $ann, $bob;
    };
}

# Their connections belong to a worker.
for my $app (qw(chat.pl chat.pagi)) {
    subtest "$app: connections of a worker" => sub {
        my ($oribi, $plain, $encrypted) = start(Test::Oribi::command(), "$FindBin::Bin/apps/$app", '--workers', 1);
        chat($ann, $plain,     'ann');
        chat($bob, $encrypted, 'bob');
        is_deeply([handshake($ann), handshake($bob)], [101, 101], 'over HTTP/1.1, with TLS or not');
        is($bob->value('performance.getEntriesByType("navigation")[0].nextHopProtocol'), 'h2', 'beside HTTP/2');
        talk('first');
        large_messages();
        $bob->value(q{fetch('/news', { method: 'POST', body: 'one é' })});
        shows($_, 'news', '1 one é', 'news are shown') for $ann, $bob;
        # A worker waits for the end of a stream, as for any response, and the next event shows that its client has gone.
        $_->value('events.close()') for $ann, $bob;
        ok($oribi->wait_until(sub { curl('--data', 'none', "$plain/news") && body_of("$plain/readers") eq '0' }), 'streams end');
        my @workers = $oribi->workers;
        $oribi->signal('HUP');
        gone($oribi, @workers);
        ok($_->wait_until('ends.length === 1'), 'WebSockets end with their worker') for $ann, $bob;
        is($_->value('ends[0]'), '1001 true', 'with a message that says why') for $app eq 'chat.pagi' ? ($ann, $bob) : ();
        $_->value('connect()') for $ann, $bob;
        $_->wait_until('socket.readyState === 1') for $ann, $bob;
        talk('after a reload');
        is($oribi->stop, 0, 'the server ends');
        is_deeply([complaints($_)], [], 'nothing is complained of') for $ann, $bob;
    };
}

subtest 'Action Cable of Rails, with new edges' => sub {
    ($ann, $bob) = @cable_pages;
    # On a busy machine, a page may have missed pings meanwhile, and subscribed once more.
    my $again = q{/^connected(,disconnected,connected)+$/.test(shown('states').join())};
    ok($_->wait_until($again), 'a page has subscribed again') for $ann, $bob;
    say_in($bob, 'back');
    shows($_, 'messages', 'back 1', 'a message is shown') for $ann, $bob;
    is($cable->stop, 0, 'the server ends');
    is_deeply([complaints($_)], [], 'nothing is complained of') for $ann, $bob;
};

done_testing;
