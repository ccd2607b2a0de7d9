#!/usr/bin/perl
# Property: HUP brings new code without a lost request, code that does not load changes nothing, and an app that is stuck costs
# the others nothing.

use v5.36;
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::FreePort qw(free_port);
use Test::Curl;
use Test::Load;
use Test::More;
use Test::Oribi;

my $folder = File::Temp->newdir;
my $app    = "$folder/app.psgi";

sub write_app ($code) {
    open my $out, '>', "$app.new" or die "$app.new: $!";
    print {$out} $code;
    close $out             or die "$app.new: $!";
    rename "$app.new", $app or die "$app: $!";
    return;
}

sub version_is ($server, $version) {
    return $server->wait_until(sub { body_of($server->url . '/') eq $version });
}

subtest 'oribi: HUP loads the app anew' => sub {
    write_app(q{my $version = 1; sub { [200, ['Content-Type' => 'text/plain'], [$version]] }});
    my $server = Test::Oribi->start($app, '--workers', 2);
    my $load   = Test::Load->new($server, '/', 16);
    $load->run(500);

    write_app('this is { no perl');
    $server->signal('HUP');
    ok $server->wait_until(sub { $server->log_text =~ /the app could not be reloaded: .*; generation 1 keeps serving/ }),
        'code that does not load is reported';
    $load->run(500);
    is body_of($server->url . '/'), 1, 'and the old code serves on';

    write_app(q{my $version = 2; sub { [200, ['Content-Type' => 'text/plain'], [$version]] }});
    $server->signal('HUP');
    ok $server->wait_until(sub { $load->run(100); $server->log_text =~ /generation 3 has taken over/ }), 'new code takes over';
    $load->run(500);
    is body_of($server->url . '/'), 2, 'and answers';
    is scalar $load->lost, 0, 'no request was lost';
    is $load->refused, 0, 'and no answer was anything but 200';
    is $server->stop, 0, 'TERM ends oribi with status 0';
};

subtest 'plackup: HUP replaces the workers' => sub {
    my $port   = free_port();
    my $blib   = Test::Oribi::root() . '/hosts/perl/blib';
    my $server = Test::Oribi->run_on_port($port, $^X, "-Mblib=$blib", '-S', 'plackup', '-s', 'Oribi', '-E', 'deployment',
        '--host', '127.0.0.1', '--port', $port, '--workers', 2, "$FindBin::Bin/probe.psgi");
    my @before = $server->workers;
    my $load   = Test::Load->new($server, '/process', 16);
    $load->run(500);
    $server->signal('HUP');
    ok $server->wait_until(sub { $load->run(100); $server->log_text =~ /all workers have been replaced/ }), 'all of them';
    my %before = map { $_ => 1 } @before;
    ok $server->wait_until(sub { $load->run(100); !grep { $before{$_} } $server->workers }), 'and the old ones end';
    is scalar $load->lost, 0, 'no request was lost';
    is $load->refused, 0, 'and no answer was anything but 200';
    is $server->stop, 0, 'TERM ends it with status 0';
};

subtest 'a request that takes too long' => sub {
    for my $threads (1, 2) {
        # Behind an edge, the client gets a 502 and keeps its connection.
        my @options = (qw(--edge off --workers 2 --request-kill 1 --threads), $threads);
        my $server = Test::Oribi->start("$FindBin::Bin/probe.psgi", @options);
        my $stuck = Test::Load->new($server, '/sleep?600', 1);
        ok $server->wait_until(sub { $server->log_text =~ /^asleep$/m }), "threads: $threads: an app sleeps";
        $stuck->run_out;
        is scalar $stuck->lost, 1, 'its client loses its request';
        like $server->log_text, qr{is stopped: its app has done nothing for 1 s: GET /sleep\?600}, 'which the log names';
        is body_of($server->url . '/'), "probe\n", 'others are served';
        ok $server->wait_until(sub { $server->workers == 2 }), 'and its worker is replaced';
        is $server->stop, 0, 'TERM ends oribi with status 0';
    }
};

done_testing;
