#!/usr/bin/perl
# Property: a program that launches FastCGI applications, with a listening socket as standard input, can launch and end oribi.

use v5.36;
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::FreePort qw(free_port);
use POSIX          ();
use Test::Curl;
use Test::FastCGI;
use Test::More;
use Test::Oribi;
use Test::WebServer::Apache;
use Test::WebServer::Lighttpd;

my $oribi  = Test::Oribi::command();
my %app_of = map { $_->[0] => "$FindBin::Bin/apps/$_->[1]" }
    ['Lua', 'probe.lua'], ['Mojolicious', 'mojolicious.psgi'], ['Sinatra', 'sinatra.ru'];

# The processes that have this in their command line, other than this one.
sub processes_with ($text) {
    my @processes;
    for my $file (glob '/proc/[0-9]*/cmdline') {
        open my $in, '<', $file or next;
        my ($pid) = $file =~ /(\d+)/;
        push @processes, $pid if index(readline($in) // '', $text) >= 0 && $pid != $$;
    }
    return @processes;
}

subtest 'spawn-fcgi' => sub {
    for my $name (sort keys %app_of) {
        my $port   = free_port();
        my @launch = ('spawn-fcgi', '-n', '-a', '127.0.0.1', '-p', $port, '--', $oribi, $app_of{$name}, '--workers', 1);
        my $server = Test::Oribi->run_on_port($port, @launch);
        my $client = Test::FastCGI->new($server);
        is $client->ask('/')->{body}, "probe\n", "$name answers";
        is $client->ask('/')->{body}, "probe\n", 'again on the same connection';
        is $server->stop, 0, 'TERM ends it with status 0';
    }
};

subtest 'cgi-fcgi -start' => sub {
    my $folder = File::Temp->newdir;
    my $socket = "$folder/socket";
    my $script = "$folder/launch";
    # cgi-fcgi gives the program no arguments.
    open my $out, '>', $script or die "$script: $!";
    print {$out} "#!/bin/sh\nexec '$oribi' '$app_of{Lua}' --workers 1 --pid-file '$folder/pid'\n";
    close $out            or die "$script: $!";
    chmod 0755, $script or die "$script: $!";
    is system('cgi-fcgi', '-start', '-connect', $socket, $script), 0, 'cgi-fcgi starts oribi';
    my $server = bless { socket => $socket }, 'Test::Oribi';
    is(Test::FastCGI->new($server)->ask('/')->{body}, "probe\n", 'which answers');
    my ($pid) = content_of("$folder/pid") =~ /(\d+)/;
    kill 'TERM', $pid;
    ok $server->wait_until(sub { !kill 0, $pid }), 'and ends on TERM';
};

subtest 'Apache with mod_fcgid' => sub {
    for my $name (sort keys %app_of) {
        my $folder = File::Temp->newdir;
        # Apache's user is not ours; it must be able to read this checkout.
        chmod 0777, "$folder" or die "$folder: $!";
        my $front = Test::WebServer::Apache->configured(Test::WebServer::Apache->wrapped(<<~"APACHE"));
            FcgidWrapper "$oribi $app_of{$name} --workers 1 --pid-file $folder/pid" .html
            FcgidInitialEnv HOME $folder
            FcgidInitialEnv PATH /usr/bin:/bin
            FcgidMaxRequestLen 67108864
            DocumentRoot $folder
            <Directory $folder>
                Require all granted
                Options +ExecCGI
                AddHandler fcgid-script .html
            </Directory>
            APACHE
        open my $out, '>', "$folder/page.html" or die "page.html: $!";
        close $out or die "page.html: $!";
        my $url = $front->url . '/page.html';
        is body_of("$url/"), "probe\n", "$name answers" or diag $front->log_text;
        is curl(map { "$url/" } 1 .. 20)->{body}, "probe\n" x 20, 'again and again';
        like body_of("$url/environment/a%20b?x=1"), qr{^PATH_INFO=/environment/a b$}m, 'and is told the path behind the page'
            if $name ne 'Sinatra';
        is length body_of("$url/download/1000000"), 1_000_000, 'a large answer comes whole';
        is $front->stop('TERM'), 0, 'Apache ends';
        ok $front->wait_until(sub { !processes_with("$folder/pid") }), 'and with it oribi';
    }
};

subtest 'lighttpd' => sub {
    for my $name (sort keys %app_of) {
        my $folder = File::Temp->newdir;
        my $front = Test::WebServer::Lighttpd->configured(Test::WebServer::Lighttpd->wrapped(<<~"LIGHTTPD"));
            fastcgi.server = ( "/" => ((
                "bin-path" => "$oribi $app_of{$name} --workers 2 --pid-file $folder/pid",
                "socket" => "%folder%/oribi",
                "max-procs" => 1,
                "check-local" => "disable",
                "fix-root-scriptname" => "enable",
            )))
            LIGHTTPD
        is body_of($front->url . '/'), "probe\n", "$name answers" or diag $front->log_text;
        is curl(map { $front->url . '/' } 1 .. 20)->{body}, "probe\n" x 20, 'again and again';
        # With which status is its own affair: on a busy machine it was 1 once.
        my $status = $front->stop('TERM');
        my $alone = defined $status && !($status & 127);
        ok $alone, 'lighttpd ends by itself' or diag $front->log_text;
        ok $front->wait_until(sub { !processes_with("$folder/pid") }), 'and with it oribi';
    }
};

done_testing;
