#!/usr/bin/perl
# Property: connections of web servers are kept, lost and ended at no other request's expense.

use v5.36;
use Fcntl      qw(O_NONBLOCK O_WRONLY);
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/../lib";
use IO::Socket::IP ();
use POSIX          ();
use Test::Curl;
use Test::FastCGI;
use Test::Load;
use Test::More;
use Test::Oribi;
use Test::WebServer::Nginx;

my $perl = "$FindBin::Bin/apps/mojolicious.psgi";
my $lua  = "$FindBin::Bin/apps/probe.lua";

# A pipe on which an app waits.
sub gate ($folder) {
    my $gate = "$folder/gate";
    POSIX::mkfifo($gate, 0644) or die "$gate: $!";
    return $gate;
}

# Waits until the app waits at GATE; returns its other end.
sub other_end ($server, $gate) {
    my $out;
    ok $server->wait_until(sub { sysopen $out, $gate, O_WRONLY | O_NONBLOCK }), 'the app waits';
    return $out;
}

# Lets the app that waits at GATE continue, as soon as it waits.
sub open_gate ($server, $gate) {
    my $out = other_end($server, $gate) or return;
    print {$out} "please\n";
    return close $out;
}

subtest 'an idle kept connection stops nobody' => sub {
    for my $app ($perl, $lua) {
        my $server = Test::Oribi->start_fastcgi($app, '--workers', 1, '--threads', 1);
        my @idle = map { Test::FastCGI->new($server) } 1 .. 4;
        is $_->ask('/')->{body}, "probe\n", 'a connection is used' for @idle;
        # One has never sent anything, and one has sent a part.
        my $silent = Test::FastCGI->new($server);
        my $slow   = Test::FastCGI->new($server);
        $slow->send_bytes("\1\1\0");
        is(Test::FastCGI->new($server)->ask('/')->{body}, "probe\n", 'another one is answered');
        is $_->ask('/')->{body}, "probe\n", 'and so are they, later' for @idle;
        is $server->stop, 0, 'TERM ends oribi with status 0';
        ok $_->closed, 'and with it the connection' for @idle, $silent;
    }
};

subtest 'TERM waits for no idle connection, however long a request may take' => sub {
    my $server = Test::Oribi->start_fastcgi($lua, '--workers', 2, '--graceful-timeout', 'off');
    my @idle = map { Test::FastCGI->new($server) } 1 .. 8;
    is $_->ask('/')->{body}, "probe\n", 'a connection is used' for @idle;
    is $server->stop, 0, 'TERM ends oribi with status 0';
};

subtest 'TERM lets a request end that is being answered' => sub {
    my $folder = File::Temp->newdir;
    my $gate   = gate($folder);
    my $server = Test::Oribi->start_fastcgi($perl, '--workers', 1);
    my $client = Test::FastCGI->new($server);
    $client->open_request(1, "/pieces?gate=$gate");
    ok $client->wait_for(1, qr/first/), 'an answer has begun';
    # And one that waits for its turn.
    $client->open_request(2, '/download/100000');
    $server->signal('TERM');
    ok $server->wait_until(sub { $server->log_text =~ /stopping: / }), 'the server is stopping';
    open_gate($server, $gate);
    is $client->finish(1)->{body}, "first\nsecond, please\n", 'it comes whole';
    is length $client->finish(2)->{body}, 100_000, 'and so does the next';
    ok $client->closed, 'then the connection is closed';
    ok $server->wait_until(sub { defined $server->exit_status }), 'oribi ends';
    is $server->exit_status, 0, 'with status 0';
};

subtest 'traffic behind nginx does not notice that the app is loaded anew' => sub {
    my $server = Test::Oribi->start_fastcgi($perl, '--workers', 2);
    my $front  = Test::WebServer::Nginx->before($server);
    my $load   = Test::Load->new($front, '/', 16);
    $load->run(500);
    $server->signal('HUP');
    my $taken_over = sub { $load->run(100); $server->log_text =~ /generation 2 has taken over/ };
    ok $server->wait_until($taken_over), 'new workers take over';
    $load->run(500);
    is scalar $load->lost, 0, 'no request was lost';
    is $load->refused // 0, 0, 'and no answer was anything but 200';
    $front->stop('TERM');
    is $server->stop, 0, 'TERM ends oribi with status 0';
};

subtest 'TERM under traffic: every request is answered whole or not begun' => sub {
    my $server  = Test::Oribi->start_fastcgi($perl, '--workers', 2);
    my @clients = map { Test::FastCGI->new($server) } 1 .. 16;
    my ($stopped, $answers, $broken) = (0, 0, 0);
    for my $round (1 .. 1000) {
        # Those that the server has closed are as idle connections were.
        @clients = grep { $_->open_request(1, '/download/20000') } @clients;
        @clients = grep {
            my $answer = $_->finish(1);
            $answers++ if $answer;
            $broken++ if $answer ? length $answer->{body} != 20_000 : $_->answer(1)->{stdout} ne '';
            $answer;
        } @clients;
        last if !@clients;
        if ($round == 20) { $stopped = $server->signal('TERM') }
    }
    ok $stopped, 'the server was told to end';
    is scalar @clients, 0, 'it has closed all connections';
    cmp_ok $answers, '>=', 320, 'after it had answered what was asked';
    is $broken, 0, 'and no answer was cut';
    ok $server->wait_until(sub { defined $server->exit_status }), 'oribi ends';
    is $server->exit_status, 0, 'with status 0';
};

subtest 'a connection that is lost takes its requests with it' => sub {
    my $folder = File::Temp->newdir;
    my $gate   = gate($folder);
    my $server = Test::Oribi->start_fastcgi($perl, '--workers', 1);
    my $busy   = Test::FastCGI->new($server);
    $busy->open_request(1, "/pieces?gate=$gate");
    ok $busy->wait_for(1, qr/first/), 'the only worker is busy';

    my $lost = Test::FastCGI->new($server);
    $lost->open_request($_, "/touch?file=$folder/lost") for 1 .. 3;
    my $aborting = Test::FastCGI->new($server);
    $aborting->open_request(1, "/touch?file=$folder/aborted");
    $aborting->open_request(2, "/touch?file=$folder/kept");
    $aborting->send_bytes(Test::FastCGI::record(Test::FastCGI::ABORT_REQUEST, 1));
    $lost->close;

    # In the middle of a request's records.
    my $torn = Test::FastCGI->new($server);
    $torn->send_bytes(Test::FastCGI::begin_record(1) . "\1\4\0\1\x10");
    $torn->close;

    # The server answers this itself, after it has noticed the end of the other connection.
    my $last = Test::FastCGI->new($server);
    $last->send_bytes(Test::FastCGI::record(Test::FastCGI::GET_VALUES, 0, Test::FastCGI::pairs_of(FCGI_MAX_CONNS => q{})));
    is +($last->management)[0], Test::FastCGI::GET_VALUES_RESULT, 'the server has seen all that was sent';

    open_gate($server, $gate);
    is $busy->finish(1)->{body}, "first\nsecond, please\n", 'what was begun is finished';
    my $answer = $aborting->finish(1);
    is $answer->{stdout}, '', 'a request that was aborted gets no answer';
    is $answer->{protocol}, Test::FastCGI::REQUEST_COMPLETE, 'but its end';
    is $aborting->finish(2)->{body}, "touched\n", 'another one on its connection is answered';
    ok -e "$folder/kept", 'the app has seen it';
    ok !-e "$folder/lost", 'the app has never seen those of the lost connection';
    ok !-e "$folder/aborted", 'nor the aborted one';
    is $server->stop, 0, 'TERM ends oribi with status 0';
};

subtest 'a stream whose web server has gone' => sub {
    for my $app ($perl, $lua) {
        my $folder = File::Temp->newdir;
        my $gate   = gate($folder);
        my $server = Test::Oribi->start_fastcgi($app, '--workers', 1);
        my $client = Test::FastCGI->new($server);
        $client->open_request(1, "/pieces?gate=$gate");
        ok $client->wait_for(1, qr/first/), 'a stream has begun';
        my $out = other_end($server, $gate);
        $client->close;
        print {$out} "please\n";
        close $out;
        is(Test::FastCGI->new($server)->ask('/')->{body}, "probe\n", 'the next request is answered');
        is $server->stop, 0, 'TERM ends oribi with status 0';
    }
};

subtest 'only the web servers that may' => sub {
    for my $addresses ('192.0.2.7', '192.0.2.7,127.0.0.1') {
        local $ENV{FCGI_WEB_SERVER_ADDRS} = $addresses;
        my $server = Test::Oribi->start_fastcgi($lua);
        my $client = Test::FastCGI->new($server);
        my $answer = $client->ask('/');
        if   ($addresses =~ /127/) { is $answer->{body}, "probe\n", 'one of those in FCGI_WEB_SERVER_ADDRS is served' }
        else                       { is $answer, undef, 'another one is not' }
        is $server->stop, 0, 'TERM ends oribi with status 0';
    }
    my $server = Test::Oribi->start_fastcgi($lua, '--fastcgi-clients', '192.0.2.7');
    is(Test::FastCGI->new($server)->ask('/'), undef, 'nor is it with --fastcgi-clients');
    is $server->stop, 0, 'TERM ends oribi with status 0';
    $server = Test::Oribi->start_fastcgi_on_socket($lua, '--fastcgi-clients', '192.0.2.7');
    is(Test::FastCGI->new($server)->ask('/')->{body}, "probe\n", 'a Unix socket has permissions instead');
    is $server->stop, 0, 'TERM ends oribi with status 0';
};

subtest 'a slow client keeps neither the app nor others' => sub {
    my $server = Test::Oribi->start_fastcgi($lua, '--workers', 1, '--threads', 1);
    my $front  = Test::WebServer::Nginx->before($server, pieces => 1);
    my $slow   = $front->connection;
    my $size   = 30_000_000;
    print {$slow} "GET /download/$size HTTP/1.1\r\nHost: slow\r\nConnection: close\r\n\r\n";
    ok sysread($slow, my $received, 1000), 'a large answer has begun to come';
    is curl($front->url . '/')->{body}, "probe\n", 'another client is answered' for 1 .. 5;
    1 while sysread $slow, $received, 1 << 20, length $received;
    my (undef, $body) = split /\r\n\r\n/, $received, 2;
    is length $body, $size, 'the slow one has its answer whole';
    $front->stop('TERM');
    is $server->stop, 0, 'TERM ends oribi with status 0';
};

subtest 'web servers are not trusted to speak FastCGI' => sub {
    my $server = Test::Oribi->start_fastcgi($lua, '--workers', 1);
    for my $bytes ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\2" . "\0" x 100, "\1\5\0\0" . "\0" x 100) {
        my $client = Test::FastCGI->new($server);
        $client->send_bytes($bytes);
        ok $client->closed || 1, 'what is no FastCGI does no harm';
    }
    is(Test::FastCGI->new($server)->ask('/')->{body}, "probe\n", 'the next request is answered');
    is $server->stop, 0, 'TERM ends oribi with status 0';
};

done_testing;
