#!/usr/bin/perl
# Property: an app's output to its error stream goes to the web server's log, or, where there is none, to Oribi's own.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::FreePort qw(free_port);
use Test::Curl;
use Test::FastCGI;
use Test::More;
use Test::Oribi;
use Test::WebServer::Nginx;

my %app_of = (
    PSGI => ["$FindBin::Bin/apps/errors.psgi", '--workers', 1],
    Rack => ["$FindBin::Bin/apps/errors.ru",   '--workers', 1],
);

for my $name (sort keys %app_of) {
    subtest "$name through a web server" => sub {
        my $server = Test::Oribi->start_fastcgi(@{ $app_of{$name} });
        my $client = Test::FastCGI->new($server);
        my $said   = sub ($path) {
            my $answer = $client->ask($path);
            is $answer->{body}, 'done', "$path is answered";
            return $answer->{stderr};
        };
        for my $time (1, 2) {
            is $said->('/'), "a complaint of several parts\nanother\n", 'a complaint goes to the web server';
        }
        is length $said->('/large'), 200_001, 'a large one, too';
        is $said->('/text'), "caf\xc3\xa9\n", 'text is encoded as the app wants it';
        is $said->('/wait'), "told at last\n", 'it may come in pieces';
        is $said->('/'), "a complaint of several parts\nanother\n", 'the stream of the next request is a new one';
        like $said->('/log'), qr/WARN .* by a logger$/, 'a logger may write to it' if $name eq 'Rack';
        unlike $server->log_text, qr/complaint|another|told|logger/, 'none of it is in the log of Oribi';

        is $said->('/keep'), '', 'a stream that was kept';
        is $said->('/late'), '', 'is no other request\'s';
        ok $server->wait_until(sub { $server->log_text =~ /too late/ }), 'but leads to the log of Oribi';
        is $said->('/child'), '', 'so does that of a child';
        ok $server->wait_until(sub { $server->log_text =~ /of a child/ }), 'which has not received the request';
        is $said->('/'), "a complaint of several parts\nanother\n", 'the connection goes on';
        is $server->stop, 0, 'oribi ends with status 0';
    };

    subtest "$name behind nginx" => sub {
        my $server = Test::Oribi->start_fastcgi(@{ $app_of{$name} });
        my $front  = Test::WebServer::Nginx->before($server);
        is body_of($front->url . '/'), 'done', 'nginx answers';
        ok $front->wait_until(sub { $front->log_text =~ /a complaint of several parts/ }), 'and logs the complaint';
        is $server->stop, 0, 'oribi ends with status 0';
    };

    subtest "$name by HTTP" => sub {
        my $server = Test::Oribi->start(@{ $app_of{$name} });
        is body_of($server->url . '/'), 'done', 'a request is answered';
        # Other processes of the server write to the same log: their lines may be between those of the app, not inside one.
        my $complaint = qr/^a complaint of several parts\n(?:.*\n)*?another\n/m;
        ok $server->wait_until(sub { $server->log_text =~ $complaint }), 'the log has the complaint';
        is $server->stop, 0, 'oribi ends with status 0';
    };
}

subtest 'an app that is asked by both ways' => sub {
    my $port    = free_port();
    my $fastcgi = Test::Oribi->start_fastcgi(@{ $app_of{PSGI} }, '--listen', "127.0.0.1:$port");
    my $client = Test::FastCGI->new($fastcgi);
    for my $time (1 .. 3) {
        like $client->ask('/')->{stderr}, qr/a complaint/, 'the web server gets its complaints';
        is body_of("http://127.0.0.1:$port/text"), 'done', 'others are answered';
    }
    unlike $fastcgi->log_text, qr/a complaint/, 'and its own alone';
    is $fastcgi->stop, 0, 'oribi ends with status 0';
};

done_testing;
