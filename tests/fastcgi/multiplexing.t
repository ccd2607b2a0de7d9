#!/usr/bin/perl
# Property: a connection carries a thousand requests at once, whose records arrive in any order and in any pieces. Each gets
# its own answer; cancelled ones disturb no other.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use List::Util qw(min shuffle);
use Test::FastCGI qw(begin_record pairs_of parameters record);
use Test::More;
use Test::Oribi;

my $seed = srand($ENV{SEED} // time);
note "SEED=$seed";

my %app_of = (
    Lua         => ["$FindBin::Bin/apps/probe.lua",        '--workers', 1, '--threads', 2],
    Mojolicious => ["$FindBin::Bin/apps/mojolicious.psgi", '--workers', 1],
    Sinatra     => ["$FindBin::Bin/apps/sinatra.ru",       '--workers', 1, '--threads', 2],
);

# A stream in records of random lengths with random padding.
sub torn ($type, $id, $bytes) {
    my @records;
    while (length $bytes) {
        my $length = min(length $bytes, 1 + int rand(rand() < 0.2 ? 9 : 4000));
        push @records, record($type, $id, substr($bytes, 0, $length, ''), int rand 256);
    }
    return @records, record($type, $id, '', int rand 9);
}

sub content_of_request ($id) {
    my $length = int rand 6000;
    return "request $id: " . join '', map { chr 32 + ($id * 7 + $_) % 90 } 1 .. $length;
}

# A thousand requests; one in ten is cancelled when a random number of its records has been sent.
sub thousand ($server) {
    my $client = Test::FastCGI->new($server);
    my (%content, %cancelled, @requests);
    for my $id (shuffle 1 .. 1000) {
        $content{$id} = content_of_request($id);
        my %variables = parameters('/echo',
            REQUEST_METHOD => 'POST', CONTENT_LENGTH => length $content{$id}, CONTENT_TYPE => 'application/octet-stream');
        my @records = (
            begin_record($id),
            torn(Test::FastCGI::PARAMS, $id, pairs_of(%variables)),
            torn(Test::FastCGI::INPUT,  $id, $content{$id}),
        );
        if (@requests < 100) {
            splice @records, 1 + int rand @records;
            push @records, record(Test::FastCGI::ABORT_REQUEST, $id);
            $cancelled{$id} = 1;
        }
        push @requests, \@records;
    }
    my $bytes = '';
    while (@requests) {
        my $number  = int rand @requests;
        my $records = $requests[$number];
        $bytes .= shift @{$records};
        splice @requests, $number, 1 if !@{$records};
        $client->send_bytes(substr $bytes, 0, int rand length $bytes, '') if rand() < 0.1;
    }
    $client->send_bytes($bytes);

    my ($right, $ended) = (0, 0);
    my @wrong;
    for my $id (1 .. 1000) {
        my $answer = $client->finish($id) or last;
        $ended++;
        my $whole = $answer->{status} == 200 && ($answer->{body} // '') eq $content{$id};
        # A cancelled request that was complete may have been answered before.
        my $none = $answer->{stdout} eq '';
        if   ($cancelled{$id} ? $none || $whole : $whole && $answer->{application} == 0) { $right++ }
        else                                                                             { push @wrong, $id }
    }
    is $ended, 1000, 'all requests are said to have ended';
    is $right, 1000, 'and answered with their own content' or diag "SEED=$seed, wrong: @wrong";

    my $answer = $client->ask('/');
    is $answer->{body}, "probe\n", 'the connection goes on';
    return;
}

for my $name (sort keys %app_of) {
    my $server = Test::Oribi->start_fastcgi(@{ $app_of{$name} });
    subtest $name => sub { thousand($server) };
    is $server->stop, 0, 'oribi ends with status 0';
}

subtest 'no more than may be' => sub {
    my $server = Test::Oribi->start_fastcgi(@{ $app_of{Lua} }, '--max-fastcgi-requests', 4);
    my $client = Test::FastCGI->new($server);
    $client->send_bytes(begin_record($_)) for 1 .. 5;
    my $answer = $client->finish(5);
    is $answer->{protocol}, Test::FastCGI::OVERLOADED, 'one request too many is told so';
    my %variables = parameters('/');
    for my $id (1 .. 4) {
        $client->send_bytes(join '', torn(Test::FastCGI::PARAMS, $id, pairs_of(%variables)));
        $client->send_bytes(join '', torn(Test::FastCGI::INPUT, $id, ''));
        is $client->finish($id)->{body}, "probe\n", 'the others are answered';
    }
    is $client->ask('/')->{body}, "probe\n", 'and there is room again';
    is $server->stop, 0, 'oribi ends with status 0';
};

subtest 'management records' => sub {
    my $server = Test::Oribi->start_fastcgi(@{ $app_of{Lua} });
    my $client = Test::FastCGI->new($server);
    # In the middle of a request.
    $client->send_bytes(begin_record(1));
    my %asked = (FCGI_MAX_CONNS => '', FCGI_MAX_REQS => '', FCGI_MPXS_CONNS => '', FCGI_UNHEARD_OF => '');
    $client->send_bytes(record(Test::FastCGI::GET_VALUES, 0, pairs_of(%asked)));
    my ($type, $values) = $client->management;
    is $type, Test::FastCGI::GET_VALUES_RESULT, 'values that are asked for are given';
    is $values->{FCGI_MPXS_CONNS}, 1, 'connections are multiplexed';
    like $values->{FCGI_MAX_CONNS}, qr/\A[1-9]\d*\z/, 'so many connections';
    like $values->{FCGI_MAX_REQS}, qr/\A[1-9]\d*\z/, 'and requests';
    ok !exists $values->{FCGI_UNHEARD_OF}, 'nothing is said of what is unknown';

    $client->send_bytes(record(77, 0, 'what is this?'));
    my ($answer, $content) = $client->management;
    is $answer, Test::FastCGI::UNKNOWN_TYPE, 'an unknown type of record';
    is unpack('C', $content), 77, 'is named in the answer';

    my %variables = parameters('/');
    $client->send_bytes(join '', torn(Test::FastCGI::PARAMS, 1, pairs_of(%variables)), torn(Test::FastCGI::INPUT, 1, ''));
    is $client->finish(1)->{body}, "probe\n", 'and the request is answered';
    is $server->stop, 0, 'oribi ends with status 0';
};

subtest 'roles' => sub {
    for my $name (sort keys %app_of) {
        my $server = Test::Oribi->start_fastcgi(@{ $app_of{$name} });
        my $client = Test::FastCGI->new($server);
        like $client->ask('/environment')->{body}, qr/^FCGI_ROLE=RESPONDER$/m, "$name: an app is a responder";

        for my $status (200, 403) {
            my $request = pairs_of(parameters("/authorizer?status=$status"));
            $client->send_bytes(join '', begin_record(1, Test::FastCGI::AUTHORIZER), torn(Test::FastCGI::PARAMS, 1, $request));
            my $answer = $client->finish(1);
            is $answer->{status}, $status, "an authorizer may say $status";
            like $answer->{head} =~ tr/\r//dr, qr/^Variable-ROLE: AUTHORIZER$/mi, 'and more';
            is $answer->{body}, $status == 200 ? '' : 'never seen', 'only a refusal has content';
        }

        my $data = 'to be filtered';
        my %variables = parameters('/environment', FCGI_DATA_LENGTH => length $data, FCGI_DATA_LAST_MOD => 1_000_000_000);
        my $request = pairs_of(%variables);
        $client->send_bytes(join '', begin_record(1, Test::FastCGI::FILTER), torn(Test::FastCGI::PARAMS, 1, $request),
            torn(Test::FastCGI::INPUT, 1, ''), torn(Test::FastCGI::DATA, 1, $data));
        my $answer = $client->finish(1);
        like $answer->{body}, qr/^FCGI_ROLE=FILTER$/m, 'a filter';
        like $answer->{body}, qr/^FCGI_DATA_LENGTH=14$/m, 'which is told of its data';

        $client->send_bytes(begin_record(1, 9));
        is $client->finish(1)->{protocol}, Test::FastCGI::UNKNOWN_ROLE, 'a role that nobody knows';
        is $client->ask('/')->{body}, "probe\n", 'the connection goes on';
        is $server->stop, 0, 'oribi ends with status 0';
    }
};

# A request of a filter, whose data arrives in records of any size.
sub filtered ($client, $content, $data) {
    my %variables = parameters('/filter', REQUEST_METHOD => 'POST', CONTENT_LENGTH => length $content,
        CONTENT_TYPE => 'text/plain', FCGI_DATA_LENGTH => length $data, FCGI_DATA_LAST_MOD => 1_000_000_000);
    $client->send_bytes(join '', begin_record(1, Test::FastCGI::FILTER),
        torn(Test::FastCGI::PARAMS, 1, pairs_of(%variables)),
        torn(Test::FastCGI::INPUT, 1, $content), torn(Test::FastCGI::DATA, 1, $data));
    return $client->finish(1)->{body};
}

subtest 'the data of filters' => sub {
    for my $name (sort keys %app_of) {
        my $server = Test::Oribi->start_fastcgi(@{ $app_of{$name} });
        my $client = Test::FastCGI->new($server);
        is filtered($client, 'posted', "first\nsecond\n"), "first|SECOND\n|posted", "$name: a filter reads its data";
        is filtered($client, 'again', 'no line'), 'no line||again', 'and the next one its own';
        is filtered($client, '', ''), 'nothing||', 'there may be none';
        my $large = "first\n" . 'x' x 3_000_000;
        is filtered($client, 'posted', $large), 'first|3000000|posted', 'or much of it';
        is $client->ask('/filter', REQUEST_METHOD => 'POST')->{body}, "nothing to filter\n", 'a responder has no data';
        is $server->stop, 0, 'oribi ends with status 0';
    }
};

done_testing;
