#!/usr/bin/perl
# Property: `oribi top` in a terminal reads as described in docs/top.md, while an app of Perl is busy, slow and killed. Its
# screen is drawn into target/top.svg; with ORIBI_WRITE_DOCS=1 the picture of docs/top.md is drawn again.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use File::Copy qw(copy);
use File::Temp ();
use HTTP::Tiny;
use POSIX ();
use Test::More;
use Test::Oribi;
use Test::Terminal;
use Time::HiRes qw(sleep);

my $root    = Test::Oribi::root();
chdir $root or die "$root: $!";
my $folder  = File::Temp->newdir;
my $control = "$folder/control.sock";
my $oribi   = Test::Oribi->start('examples/sick.psgi', '--workers' => 4, '--control' => $control, '--request-kill' => '60s');

# Clients that ask for these, one after the other, as long as there is a server.
my @clients;

sub ask_for (@paths) {
    my $process = fork // die "fork: $!";
    if (!$process) {
        my $client = HTTP::Tiny->new;
        while (kill 0 => $oribi->pid) {
            for my $path (@paths) {
                $client->get($oribi->url . $path);
                sleep 0.005;
            }
        }
        POSIX::_exit(0);
    }
    push @clients, $process;
    return;
}
ask_for('/', '/missing', '/', '/busy?0.01', '/', '/fail') for 1 .. 2;
ask_for('/slow?30');

my $picture = { columns => 100, lines => 22 };
my $top     = Test::Terminal->run($picture, Test::Oribi::command(), 'top', '--control', $control, '--interval', '0.5');
ok($top->wait_until(qr{^oribi[ ]0[.]\S+[ ]serving[ ][ ]examples/sick[.]psgi[ ][ ]pid[ ]\d+}), 'the head says what is served');
ok($top->wait_until(qr/\b4[ ]workers[ ]x[ ]1[ ]thread\b/), 'by how many');
# A terminal of 100 columns has no room for 1XX and 3XX.
ok($top->wait_until(qr/^[ ]LAST[ ]REQ\/S[ ]+2XX[ ]+4XX[ ]+5XX[ ].*\n[ ]+\S+(?:[ ]+[1-9][\d.]*k?){4}[ ]/m), 'responses are told by their classes');
ok($top->wait_until(qr{^worker[ ]\d.*\d(?:ms|s)[ ]127[.]0[.]0[.]1:\d+[ ]+GET[ ]/slow[?]}m), 'and what a worker runs');

# The heads of the columns are above their numbers.
my ($heads, @rows) = grep {/^(?:PROCESS|worker)/} split /\n/, $top->text;
is(scalar @rows, 4, 'each worker has a row');
is_deeply([grep { substr($_, 0, index($heads, 'PID') + 3) !~ /\d\z/ } @rows], [], 'the pids stand below their head');

# One is killed.
my ($pid) = $rows[2] =~ /\Aworker[ ]3[ ]+(\d+)/;
kill KILL => $pid;
ok($top->wait_until(qr/^worker[ ]3[ ]+(?!$pid\b)\d+[ ]ready/m), 'another follows the one that is killed');
ok($top->wait_until(qr/^[ ]LAST[ ].*[ ]RESTARTS\n(?:.*\n){0,2}[ ]+\d+s[ ].*[ ]1$/m), 'which is told') or diag($top->text);

# Two seconds and more, so that the figures are those of a server that has been busy for a while.
ok($top->wait_until(qr{^running[ ]+[2-9][.]\ds.*GET[ ]/slow[?]}m), 'the requests have their ages');
my $file = "$folder/top.svg";
$top->draw($file, 'oribi top: a server with four workers');
open my $in, '<', $file or die "$file: $!";
my $svg = do { local $/ = undef; readline $in };
like($svg, qr{\A<svg .*<text [^>]*>oribi</text>.*>ready</text>.*</svg>\n\z}s, 'it is drawn');
for my $place ('target', $ENV{ORIBI_WRITE_DOCS} ? 'docs/top' : ()) {
    copy($file, "$root/$place/top.svg") or die "$place/top.svg: $!";
}

# The position of the app of a worker that computes.
ask_for('/busy?300');
ok($top->wait_until(qr{^worker[ ]\d.*[ ][1-9](?:[.]\d)?s[ ]127[.]0[.]0[.]1:\d+[ ]+GET[ ]/busy[?]}m), 'a worker computes');
my ($busy) = $top->text =~ m{^worker[ ]\d[ ]+(\d+).*GET[ ]/busy[?]}m;
$top->press("/$busy\r");
ok($top->wait_until(qr{\bq[ ]quit.*every}), 'its row is alone');
$top->press("\e[B");
ok($top->wait_until(qr{[ ]b[ ]backtrace[ ]}), 'and selected');
$top->press('b');
ok($top->wait_until(qr{^worker[ ]\d,[ ]pid[ ]$busy,}m), 'its backtrace is shown');
ok($top->wait_until(qr{^[ ]{4}\Q$root\E/examples/sick[.]psgi:\d+[ ]in[ ]main::__ANON__$}m), 'with file, line and sub') or diag($top->text);
unlike($top->text, qr/^PROCESS/m, 'instead of the tables');
kill KILL => $busy;
ok($top->wait_until(qr/^No[ ]backtrace:[ ]there[ ]is[ ]no[ ]worker[ ]$busy;[ ]the[ ]last[ ]one[ ]follows/m), 'until the worker has ended');
$top->press("\e");
ok($top->wait_until(qr/^PROCESS/m), 'Esc leads back');

$top->press('q');
is($top->end, 0, 'it ends well');
kill TERM => @clients;
waitpid $_, 0 for @clients;
done_testing;
