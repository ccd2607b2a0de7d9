# Apps that do what no app should: each is answered or refused as it should be, and leaves nothing to the next request.

use strict;
use warnings;
use lib 't/lib';
use FindBin    ();
use Test::More;
use TestServer ();

my $app = do "$FindBin::Bin/lib/odd.psgi" or die $@ || $!;
my @expected = do { no warnings 'once'; @Odd::EXPECTED };

# Loops around the server, which `last` and `next` could leave.
my $server;
OUTER: for my $once (1) {
    for my $inner (1) {
        $server = TestServer->start(app => sub { $app->(@_) });
    }
}

my $connection = $server->connection;
for my $expected (@expected) {
    my ($name, $status, $body) = @{$expected};
    my $response = $connection->request(GET => "/$name");
    $response = $connection->response('GET') if $response->{status} == 103;
    is $response->{status}, $status, "$name: the status";
    if (ref $body) {
        like $response->{body}, $body, "$name: the body";
    } else {
        ok $response->{body} eq $body, "$name: the body" or diag substr $response->{body}, 0, 100;
    }
    unlike join(q{ }, @{ $response->{fields} }), qr/SECRET/, "$name: the fields";
    $connection = $server->connection if !$response->{whole} || (TestServer::Connection::field($response, 'Connection') || q{}) eq 'close';
    my $probe = $connection->request(GET => '/probe');
    is $probe->{body}, 'clean', "$name: what it leaves";
}
like $server->log_text, qr/Can't "last" outside a loop block/, 'a loop control that leaves the app is an error of its own';
unlike $server->log_text, qr/called exit|panic|SIGSEGV|signal 11/, 'and nothing else went wrong';
is $server->stop, 0, 'stopped';

done_testing;
