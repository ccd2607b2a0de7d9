#!/usr/bin/perl
# Property: a connection of a web server carries many answers that are put off (event streams, and responses that come later).
# While their worker is replaced, none of them is lost, and requests that come meanwhile are answered.

use v5.36;
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::FastCGI;
use Test::More;
use Test::Oribi;

# More streams than there are large areas for a worker.
my @feeds = 1 .. 90;
my @later = 91 .. 110;

my $app = "$FindBin::Bin/../edge/apps/app.psgi";

sub text_of ($client, $id) { return $client->answer($id)->{stdout} }

sub count_of ($client, $id) { return scalar(() = text_of($client, $id) =~ /goes on $id\n/g) }

# The process that has answered, as an app says it.
sub worker_of ($server) {
    my $answer = Test::FastCGI->new($server)->ask('/fast?0') or return 0;
    return $answer->{head} =~ /^X-Worker: (\d+)/mi ? $1 : 0;
}

# A server with one worker, its folder, and a connection on which all answers are put off.
sub start (@options) {
    my $folder = File::Temp->newdir;
    local $ENV{ORIBI_TEST_INSIDE} = "$folder";
    my $server = Test::Oribi->start_fastcgi($app, '--workers', 1, '--threads', 1, @options);
    my $client = Test::FastCGI->new($server);
    my $worker = worker_of($server);
    $client->open_request($_, "/feed?$_")  for @feeds;
    $client->open_request($_, "/later?$_") for @later;
    my $begun = grep { $client->wait_for($_, qr/begins $_\n/) } @feeds;
    is $begun, @feeds, 'all streams have begun';
    ok $server->wait_until(sub { !grep { !-e "$folder/$_" } @later }), 'the other requests have reached the app';
    return ($server, $folder, $client, $worker);
}

# Waits until another worker answers.
sub other_answers ($server, $old) {
    return ok $server->wait_until(sub { my $now = worker_of($server); $now && $now != $old }), 'another worker answers';
}

sub ends ($server, $worker) {
    return ok $server->wait_until(sub { !kill 0, $worker }), 'the old worker ends';
}

sub open_end ($folder) {
    open my $out, '>', "$folder/end" or die "$folder/end: $!";
    return close $out;
}

my %way_of = (
    HUP       => [sub ($server, $client) { $server->signal('HUP') }],
    USR2      => [sub ($server, $client) { $server->signal('USR2') }],
    recycling => [sub ($server, $client) { worker_of($server) for 1 .. 100 }, '--max-requests', 150],
);

for my $edge ('on', 'off') {
    for my $name (sort keys %way_of) {
        subtest "--edge $edge: $name" => sub {
            my ($way, @options) = @{ $way_of{$name} };
            my ($server, $folder, $client, $worker) = start('--edge', $edge, @options);
            $way->($server, $client);
            other_answers($server, $worker);
            ok kill(0, $worker), 'the old one waits for its answers';
            # A connection is not closed while it has answers to come, and what it asks is answered.
            $client->open_request(1000, '/fast?1000');
            is(($client->finish(1000) // { body => 'nothing' })->{body}, "fast 1000\n", 'a further request is answered');
            my %so_far = map { $_ => count_of($client, $_) } @feeds;
            my $on = grep { $client->wait_for($_, qr/(?:goes on $_\n){@{[$so_far{$_} + 2]}}/) } @feeds;
            is $on, @feeds, 'all streams go on';
            open_end($folder);
            my %answers = map { $_ => $client->finish($_) } @feeds, @later;
            my $whole   = grep { $answers{$_} && $answers{$_}{body} =~ /\Abegins $_\n(?:goes on $_\n)+ends $_\n\z/ } @feeds;
            is $whole, @feeds, 'and end well';
            my $answered = grep { $answers{$_} && $answers{$_}{body} eq "later $_\n" } @later;
            is $answered, @later, 'the other responses come';
            is scalar(grep { $_ && $_->{protocol} == Test::FastCGI::REQUEST_COMPLETE } values %answers), @feeds + @later, 'all are complete';
            ends($server, $worker);
            if ($edge eq 'on') { is $client->ask('/fast?7')->{body}, "fast 7\n", 'the connection goes on' }
            is $server->stop, 0, 'TERM ends oribi with status 0';
        };
    }
    subtest "--edge $edge: no longer than --graceful-timeout" => sub {
        my ($server, $folder, $client, $worker) = start('--edge', $edge, '--graceful-timeout', '500ms');
        $server->signal('HUP');
        ends($server, $worker);
        my ($cut, $refused) = (0, 0);
        for my $id (@feeds) {
            my $answer = $client->finish($id);
            # FastCGI has no other sign of a response that was cut than the end of its connection, or the status of its end.
            $cut++ if !$answer || $answer->{application} != 0;
        }
        for my $id (@later) {
            my $answer = $client->finish($id);
            $refused++ if !$answer || $answer->{status} >= 500;
        }
        is $cut,     @feeds, 'no stream looks whole';
        is $refused, @later, 'no other response is made up';
        ok worker_of($server), 'another worker answers';
    };
}

done_testing;
