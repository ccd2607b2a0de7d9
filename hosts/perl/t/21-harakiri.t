# A worker that has asked for its end answers no other request, neither on new connections nor on existing ones.

use strict;
use warnings;
use lib 't/lib';
use OverHTTP2  ();
use Test::More;
use TestServer ();

my %return = (
    whole  => sub { [ 200, [], ["pid $$"] ] },
    handle => sub { open my $handle, '<', \"pid $$"; [ 200, [], $handle ] },
    stream => sub {
        sub { my $writer = $_[0]->([ 200, [] ]); $writer->write("pid $$"); $writer->close }
    },
    length => sub {
        sub { my $writer = $_[0]->([ 200, [ 'Content-Length' => length "pid $$" ] ]); $writer->write("pid $$"); $writer->close }
    },
    delayed => sub {
        sub { $_[0]->([ 200, [], ["pid $$"] ]) }
    },
    dies => sub { die "pid $$\n" },
);
my $app = sub {
    my ($env) = @_;
    my ($name) = $env->{PATH_INFO} =~ m{/(\w+)};
    exit 0 if $name eq 'exit';
    $env->{'psgix.harakiri.commit'} = 1 if $env->{QUERY_STRING} eq 'commit';
    return $return{$name}->($env);
};

my $edge = ($ENV{ORIBI_EDGE} || 'off') eq 'on';

for my $io (qw(epoll uring)) {
    my $server = TestServer->start(app => $app, options => { workers => 3, io => $io });
    my %answered;
    for my $name (qw(whole handle stream length delayed)) {
        for my $round (1 .. 8) {
            my $connection = $server->connection;
            my $response   = $connection->request(GET => "/$name?commit");
            is $response->{status}, 200, "$io: $name: answered";
            my ($pid) = $response->{body} =~ /(\d+)/;
            ok !$answered{$pid}++, "$io: $name: by a worker that had not asked for its end";
            next if $edge;
            is TestServer::Connection::field($response, 'Connection'), 'close', "$io: $name: the response is the last on its connection";
            is $connection->rest, q{}, "$io: $name: which ends";
        }
    }
    for my $name (qw(dies exit)) {
        my $response = $server->get("/$name?commit");
        is $response->{status}, 500, "$io: $name: a 500";
        is TestServer::Connection::field($response, 'Connection'), 'close', "$io: $name: the last on its connection" if !$edge;
    }
    my $kept = $server->connection;
    my $pid  = $kept->request(GET => '/whole')->{body};
    is $kept->request(GET => '/whole')->{body}, $pid, "$io: without that a connection goes on" if !$edge;
    is $server->stop, 0, "$io: stopped";
}

done_testing;
