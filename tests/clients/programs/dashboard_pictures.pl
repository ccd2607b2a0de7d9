#!/usr/bin/perl
# Renews the pictures of the dashboard in docs/observe/, by `make pictures`: for five minutes, examples/sick.psgi gets the
# requests of a site, more and fewer of them, and has a few bad moments.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../../lib";
use File::Path qw(make_path);
use HTTP::Tiny;
use Image::Magick;
use Test::FreePort qw(free_port);
use POSIX ();
use Test::Chromium;
use Test::Oribi;
use Time::HiRes qw(sleep time);

# The length of the history that a page shows at first, in seconds.
my $HISTORY = 300;
my $folder  = Test::Oribi::root() . '/docs/observe';
make_path($folder);

my $metrics = free_port();
my $oribi   = Test::Oribi->start(
    Test::Oribi::root() . '/examples/sick.psgi',
    '--workers' => 4, '--metrics' => $metrics, '--dashboard' => 'requests', '--request-kill' => 10
);

# One client, which asks for more and for less, in waves.
sub visitor ($number) {
    my $client = HTTP::Tiny->new(timeout => 20);
    my $began  = time;
    while ((my $now = time - $began) < $HISTORY + 60) {
        my $crowded = $now > 120 && $now < 140;
        my $failing = $now > 200 && $now < 215 && $number == 1;
        my @paths = $crowded ? '/busy?0.12' : $failing ? '/fail' : (('/') x 6, ('/slow?0.02') x 3, ('/busy?0.01') x 3, '/missing');
        $client->get($oribi->url . $paths[rand @paths]);
        sleep 0.04 + 0.08 * (1 + sin($now / 16)) if !$crowded;
    }
    return;
}

my @load;
for my $number (1 .. 12) {
    my $process = fork // die "fork: $!";
    if (!$process) {
        visitor($number);
        POSIX::_exit(0);
    }
    push @load, $process;
}
sleep $HISTORY - 40;
HTTP::Tiny->new->get($oribi->url . '/die');
HTTP::Tiny->new->get($oribi->url . '/leak?20');
sleep 40;
my $slow = fork // die "fork: $!";
if (!$slow) {
    HTTP::Tiny->new->get($oribi->url . '/slow?6');
    POSIX::_exit(0);
}

my $browser = Test::Chromium->new;
$browser->look(1240, 900);
$browser->visit("http://127.0.0.1:$metrics/");
$browser->wait_until(q{document.getElementById('news').textContent === 'live'});
$browser->wait_until('before');
$browser->wait_until(q{/slow/.test(document.getElementById('requests').innerText)});

# The address in the pictures is a well-known one.
my $address = sub { $browser->value(q{document.getElementById('host').textContent = '127.0.0.1:9090'}) };
for my $picture (['light', 1240, 'light'], ['dark', 1240, 'dark'], ['telephone', 360, 'light']) {
    my ($name, $width, $colours) = @$picture;
    $browser->look($width, 900, $colours);
    $address->();
    my $height = $browser->value('document.documentElement.scrollHeight');
    $browser->look($width, $name eq 'telephone' && $height > 1300 ? 1300 : $height, $colours);
    my $file = "$folder/$name.png";
    $browser->picture($file);

    # A palette is enough for such pictures, and takes a third of the place.
    my $image = Image::Magick->new;
    $image->Read($file);
    $image->Quantize(colors => 128, dither => 'False');
    $image->Strip;
    $image->Write("png8:$file");
    say "$file: ", -s $file, ' bytes';
}
kill TERM => @load, $slow;
waitpid $_, 0 for @load, $slow;
