#!/usr/bin/perl
# Property: the dashboard is readable in a browser: its numbers change, it asks for nothing elsewhere, has no errors, fits on a
# telephone, and shows when the server does not answer.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use File::Path qw(make_path);
use HTTP::Tiny;
use IO::Socket::IP;
use Net::EmptyPort qw(wait_port);
use Test::FreePort qw(free_port);
use POSIX ();
use Test::Chromium;
use Test::More;
use Test::Oribi;
use Time::HiRes qw(sleep);

# The folder of the pictures: docs/ has two of them.
my $pictures = Test::Oribi::root() . '/target/dashboard';
make_path($pictures);

# A server with a dashboard that shows this, and the address of the dashboard.
sub start ($shows) {
    my $port  = free_port();
    my $oribi = Test::Oribi->start('--native', 'hello', '--edge', 'on', '--workers', 2, '--metrics', $port, '--dashboard', $shows);
    # It listens here after it does for the app.
    wait_port($port) or die "no dashboard at port $port\n";
    return $oribi, "http://127.0.0.1:$port/";
}

# A request that is not answered as long as the workers are stopped.
sub ask ($oribi, $target) {
    my $client = IO::Socket::IP->new(PeerHost => '127.0.0.1', PeerPort => $oribi->port) or die "connect: $!";
    print {$client} "GET $target HTTP/1.1\r\nHost: test\r\n\r\n";
    $client->flush;
    return $client;
}

# Presses a key, as a keyboard does.
sub press ($browser, $key, $code) {
    my %pressed = (key => $key, code => $key, windowsVirtualKeyCode => $code);
    $browser->call('Input.dispatchKeyEvent', type => $_, %pressed) for qw(rawKeyDown keyUp);
    return;
}

# The text of a tile.
sub tile ($label) {
    return qq{[...document.querySelectorAll('#tiles > div')].find((tile) => tile.firstChild.textContent === '$label').innerText};
}

my ($oribi, $place) = start('on');
my $load = fork // die "fork: $!";
if (!$load) {
    my $client = HTTP::Tiny->new;
    my $server = $oribi->pid;
    while (kill 0 => $server) {
        $client->get($oribi->url . '/secret');
        sleep 0.01;
    }
    POSIX::_exit(0);
}

my $browser = Test::Chromium->new;
$browser->look(1240, 900);
$browser->visit($place);
my $well = '+' . tile('Responses') . q{.match(/([\d,]+) well/)[1].replace(',', '')};
my $first = $browser->wait_until("document.getElementById('news').textContent === 'live' && $well");
ok($browser->wait_until("$well > $first"), 'what is counted grows while one looks');
ok($browser->wait_until(tile('Responses') . q{.match(/\n[\d.]+\s*\/ s/)} . q{ && parseFloat(} . tile('Responses') . q{.split('\n')[1]) > 1}), 'a rate is told');
is($browser->value(q{[...document.querySelectorAll('#workers tbody tr')].map((row) => row.cells[0].innerText).join()}), 'edge 1,worker 1,worker 2', 'all processes are told');
ok($browser->wait_until('document.querySelectorAll("#charts path").length > 8'), 'there are charts');
unlike($browser->value('document.body.innerText'), qr/secret/, 'nothing is told of what is asked for');

# The charts also show their numbers without a mouse: from the beginning of the page, the tab key leads to the first of them.
my $focused = 'document.activeElement === document.querySelector("#charts svg")';
my $tabs    = 0;
press($browser, 'Tab', 9) while !$browser->value($focused) && $tabs++ < 10;
ok($browser->value($focused), 'a chart is reached by keys');
$browser->wait_until('past.fine.length > 3');
press($browser, 'ArrowLeft', 37) for 1 .. 3;
my $earlier = $browser->value('charts[0].pointed');
press($browser, 'ArrowRight', 39);
is($browser->value('charts[0].pointed'), $earlier + 1, 'keys walk through its moments');
like($browser->value('document.querySelector("#charts thead").innerText'), qr/\d\d:\d\d:\d\d/, 'a moment is told');
like($browser->value('document.querySelector("#charts svg").getAttribute("aria-label")'), qr/\AResponses per second: \d\d:\d\d:\d\d 5xx 0, /, 'and it is said');
$browser->value('document.activeElement.blur()');

# Beside a chart of any height there is room for its marks.
is($browser->value(<<~'SCRIPT'), q(), 'every mark of a chart is whole');
    (() => {
      const text = document.querySelector('#charts svg').appendChild(drawing('text'));
      const wide = new Set();
      for (const { mark, whole, base } of charts) {
        for (let highest = 0.0001; highest < 1e11; highest *= 1.07) {
          for (const value of ticks(highest, whole, base)) {
            text.textContent = mark(value);
            if (text.getBBox().width > EDGE.left - 6) wide.add(text.textContent);
          }
        }
      }
      text.remove();
      return [...wide].join();
    })()
    SCRIPT
$browser->value(q{document.querySelector('input[value=coarse]').click()});
is($browser->value(q{shown}), 'coarse', 'the last hour can be chosen');
$browser->value(q{document.querySelector('input[value=fine]').click()});

# All workers are stuck, and a request waits.
my @workers = $oribi->workers;
kill STOP => @workers;
my $waiting = ask($oribi, '/');
ok($browser->wait_until(tile('Queue') . q{.match(/[1-9]\d*\s*waiting/)}), 'the queue is told while every worker is stuck');
ok($browser->wait_until(q{/queued/.test(document.getElementById('requests').innerText)}), 'with the requests in it');
kill CONT => @workers;

# One of them is killed, and another follows.
kill KILL => $workers[0];
ok($browser->wait_until(q{/ended by themselves: crashed, killed or exited\s+1\s+1/.test(document.getElementById('ends').innerText)}), 'a killed worker is told');
my $told = q{[...document.querySelectorAll('#workers tbody tr')].map((row) => row.cells[1].innerText)};
ok($browser->wait_until(qq{$told.length === 3 && !$told.includes('$workers[0]')}), 'and the one in its place');

for my $picture (['light', 1240, 'light'], ['dark', 1240, 'dark'], ['telephone', 360, 'light'], ['telephone-dark', 360, 'dark']) {
    my ($name, $width, $colours) = @$picture;
    $browser->look($width, 800, $colours);
    my $height = $browser->value('document.documentElement.scrollHeight');
    is($browser->value('document.documentElement.scrollWidth'), $width, "at $width pixels ($colours) nothing is beside the window");
    $browser->look($width, $height, $colours);
    $browser->picture("$pictures/$name.png");
}

# The server keeps silent for a while.
kill STOP => $oribi->pid;
ok($browser->wait_until(q{/^no news since \d\d:\d\d:\d\d$/.test(document.getElementById('news').textContent)}), 'it is said when the server is silent');
kill CONT => $oribi->pid;
ok($browser->wait_until(q{document.getElementById('news').textContent === 'live'}), 'and when it speaks again');

is_deeply([$browser->complaints], [], 'nothing is complained of');
is_deeply([grep { !/\A\Q$place\E(?:events)?\z|\Adata:/ } $browser->requests], [], 'nothing is asked for elsewhere');

# Another program takes over.
$oribi->signal('USR2');
ok($browser->wait_until(q{/upgrades of the program/.test(document.getElementById('ends').innerText)}), 'the page goes on with the next program');
ok($browser->wait_until(q{document.getElementById('news').textContent === 'live'}), 'by itself');
kill TERM => $load;
waitpid $load, 0;

# The server ends.
$browser->value(q{window.heardLast = heard});
$oribi->stop;
ok($browser->wait_until(q{document.getElementById('news').textContent === `no news since ${clock(heard)}`}), 'it is said since when there is no server');
ok($browser->value(q{heard >= heardLast}), 'which is when it was heard last');

# Text from clients is shown as it is, and does nothing.
($oribi, $place) = start('requests');
$browser->visit($place);

# Before it has workers, a server that takes connections already is its only process.
my $processes = q{[...document.querySelectorAll('#workers tbody tr')].map((row) => row.cells[0].innerText).join()};
$browser->wait_until("$processes === 'edge 1,worker 1,worker 2'");
@workers = $oribi->workers;
kill STOP => @workers;
$waiting = ask($oribi, '/<img/src=x/onerror=alert(1)>');
ok($browser->wait_until(q{/onerror=alert/.test(document.getElementById('requests').innerText)}), 'requests are named if that is wanted');
is($browser->value('document.images.length'), 0, 'as text');
kill CONT => @workers;
is_deeply([grep { !/ERR_INCOMPLETE_CHUNKED|ERR_CONNECTION/ } $browser->complaints], [], 'nothing is complained of');

done_testing;
