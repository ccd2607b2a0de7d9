#!/usr/bin/perl
# Property: metrics at a path of the app are there for clients in the networks that are named, in each language, with edges and
# without, by HTTP/1.1, HTTP/2 and FastCGI, also after a reload; others get the app's answer at that path.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use File::Temp ();
use Test::FreePort qw(free_port);
use Test::Certificate;
use Test::Curl;
use Test::More;
use Test::Oribi;
use Test::WebServer::Nginx;

my $folder   = File::Temp->newdir;
my $root     = Test::Oribi::root();
my $here     = '/stats?allow=127.0.0.1,10.0.0.0/8';
my %app_of   = (Perl => 'hello.psgi', Ruby => 'hello.ru', Lua => 'hello.lua');
my $told     = qr/^oribi_workers_wanted 2$/m;
my $greeting = qr/Hello/;

# A value of the metrics.
sub value_of ($series, $text) { return $text =~ /^\Q$series\E (\S+)$/m ? $1 : undef }

for my $language (sort keys %app_of) {
    for my $edge (qw(on off)) {
        my $what = "$language, edge $edge";
        my ($port, $encrypted) = (free_port(), free_port());
        my @listen = ('--listen', "127.0.0.1:$port", '--listen', "https://127.0.0.1:$encrypted?cert=" . certificate('first', "$folder/certificate"));
        my $oribi  = Test::Oribi->run_on_port($port, Test::Oribi::command(), "$root/examples/$app_of{$language}", '--workers' => 2,
            '--edge' => $edge, '--metrics-path' => $here, '--trusted-proxies' => '127.0.0.3', @listen);
        my $stats = "http://127.0.0.1:$port/stats";
        like body_of($stats), $told, "$what: metrics";
        like body_of('--http2-prior-knowledge', $stats), $told, "$what: by HTTP/2";
        like body_of('--insecure', "https://127.0.0.1:$encrypted/stats"), $told, "$what: over TLS";
        like body_of('--interface', '127.0.0.2', $stats), $greeting, "$what: another client gets what the app has";
        my $through = sub ($client) { body_of('--interface', '127.0.0.3', '--header', "X-Forwarded-For: $client", $stats) };
        like $through->('10.1.2.3'), $told,     "$what: the client of a trusted proxy";
        like $through->('11.1.2.3'), $greeting, "$what: another client of it";
        my $generations = value_of('oribi_generations_loaded_total', body_of($stats));
        $oribi->signal('HUP');
        my $more = sub { (value_of('oribi_generations_loaded_total', body_of($stats)) // 0) > $generations };
        ok $oribi->wait_until($more), "$what: after a reload" or diag $oribi->log_text;
        is $oribi->stop, 0, "$what: the stop";
    }
}

# The client of a web server counts, not the web server.
for my $edge (qw(on off)) {
    my $oribi = Test::Oribi->start_fastcgi("$root/examples/hello.psgi", '--workers' => 2, '--edge' => $edge, '--metrics-path' => $here);
    my $nginx = Test::WebServer::Nginx->before($oribi);
    like body_of($nginx->url . '/stats'), $told, "behind nginx, edge $edge";
    like body_of('--interface', '127.0.0.2', $nginx->url . '/stats'), $greeting, 'and another client';
}

done_testing;
