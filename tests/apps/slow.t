#!/usr/bin/perl
# Property: the error log reports a slow request over each protocol, with an edge and without, and no other.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use File::Temp     ();
use Test::FreePort qw(free_port);
use Test::Certificate;
use Test::Command qw(write_file);
use Test::Curl;
use Test::FastCGI;
use Test::More;
use Test::Oribi;

my $folder = File::Temp->newdir;

# Each names its process; unless it is asked for `/fast`, after a while.
write_file("$folder/app.psgi", <<'APP');
use Time::HiRes qw(sleep);
sub {
    my ($env) = @_;
    sleep 0.2 if $env->{PATH_INFO} ne '/fast';
    return [200, [], [$$]];
};
APP
write_file("$folder/app.ru", <<'APP');
run(lambda do |env|
  sleep 0.2 unless env["PATH_INFO"] == "/fast"
  [200, {}, [Process.pid.to_s]]
end)
APP
write_file("$folder/app.lua", <<'APP');
return function(request)
    if request.path ~= "/fast" then os.execute("sleep 0.2") end
    return 200, {}, io.open("/proc/self/stat"):read("*l"):match("^%d+")
end
APP
my $app         = "$folder/app.lua";
my $certificate = certificate('oribi', "$folder/certificate");

# The log's lines about slow requests, when there are so many.
sub slow_lines ($oribi, $count) {
    my @lines;
    ok($oribi->wait_until(sub { (@lines = map { /\[warn\].* slow request: (.*)/ } split /\n/, $oribi->log_text) >= $count }), "$count lines");
    return @lines;
}

# The line about a request to WORKER from CLIENT, up to the bytes of its response.
sub said ($target, $client, $worker) {
    my ($any, $slow, $bytes) = (qr/\d+[.]\d{3} s/, qr/(?:0[.][2-9]|[1-9]\d*[.]\d)\d\d s/, length $worker);
    return qr{\AGET \Q$target\E took $slow: status 200, client \Q$client\E, worker $worker, queue $any, app $slow, first byte $slow, send $any, $bytes bytes};
}

my %versions_of = (psgi => ['--http1.1'], ru => ['--http1.1'], lua => ['--http1.1', '--http2-prior-knowledge', '--http2']);

for my $edge (qw(on off)) {
    for my $language (qw(psgi ru lua)) {
        subtest "$language, edge $edge" => sub {
            my ($port, $tls) = (free_port(), free_port());
            my @listen = ('--listen', "127.0.0.1:$port", '--listen', "https://127.0.0.1:$tls?cert=$certificate");
            my @flags  = ('--edge', $edge, '--workers', 1, '--slow', '150ms', '--request-id', 'on', '--traces');
            my $oribi  = Test::Oribi->run_on_port($port, Test::Oribi::command(), "$folder/app.$language", @flags, @listen);
            my $number = 0;
            for my $version ($versions_of{$language}->@*) {
                for my $place ("http://127.0.0.1:$port", "https://127.0.0.1:$tls") {
                    next if $version =~ /http2/ && ($version eq '--http2') != ($place =~ /https/);
                    my $target = '/slow?' . ++$number;
                    my $worker = body_of($version, '--cacert', $certificate, '--header', "X-Request-Id: of-$number", $place . $target);
                    my $line   = (slow_lines($oribi, $number))[-1];
                    my $ids    = qr/, id of-$number, trace [\da-f]{32}, span [\da-f]{16}\z/;
                    my $said   = said($target, '127.0.0.1', $worker);
                    like($line, qr/$said$ids/, "$place $version");
                }
            }
            is($oribi->stop, 0, 'the server ends');
        };
    }
    subtest "FastCGI, edge $edge" => sub {
        my $oribi  = Test::Oribi->start_fastcgi($app, '--edge', $edge, '--workers', 1, '--slow', '150ms');
        my $answer = Test::FastCGI->new($oribi)->ask('/slow?f');
        my ($line) = slow_lines($oribi, 1);
        my $said   = said('/slow?f', '192.0.2.1', $answer->{body});
        like($line, qr/$said\z/, 'with the client of the web server');
        is($oribi->stop, 0, 'the server ends');
    };
}

subtest 'what is fast, and what is not asked for' => sub {
    for my $slow ([], ['--slow', '1h'], ['--slow', 'off']) {
        my $oribi = Test::Oribi->start($app, '--workers', 1, @$slow);
        curl('http://127.0.0.1:' . $oribi->port . $_) for '/fast', '/slow';
        is($oribi->stop, 0, 'the server ends');
        unlike($oribi->log_text, qr/slow request/, "@$slow");
    }
};

subtest 'more than a log should have' => sub {
    my $oribi = Test::Oribi->start($app, '--workers', 1, '--threads', 16, '--slow', '1ms');
    my @clients = map { $oribi->connection } 1 .. 16;
    for my $client (@clients) {
        print {$client} "GET /slow HTTP/1.0\r\n\r\n" or die "print: $!";
        $client->flush;
    }
    readline $_ for @clients;
    # All of them are answered within a moment, but a slow machine may let them fall into two seconds.
    my $told = sub () {
        my $lines = () = $oribi->log_text =~ /slow request: /g;
        my $more  = 0;
        my $text = $oribi->log_text;
        $more += $1 while $text =~ /slow requests: (\d+) more requests? took 0[.]001 s or longer within that second/g;
        return $lines + $more;
    };
    ok($oribi->wait_until(sub { $told->() == 16 }), 'each of sixteen is told of, or counted');
    is($oribi->stop, 0, 'the server ends');
};

done_testing;
