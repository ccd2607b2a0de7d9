#!/usr/bin/perl
# Property: docs/observe.md leads from a symptom to its cause, for apps in each language: the figures of examples/sick.* show
# each illness as described there.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use File::Temp ();
use HTTP::Tiny;
use JSON::PP qw(decode_json);
use Test::FreePort qw(free_port);
use Test::More;
use Test::Oribi;

# For each language a server, which falls ill together with the others.
my @patients;
my $folder = File::Temp->newdir;
for my $app (qw(psgi ru lua)) {
    my ($metrics, $control) = (free_port(), "$folder/$app.sock");
    my @limits = ('--queue-limit' => 8, '--queue-timeout' => '60s', '--request-kill' => '10s', '--max-memory' => '100M', '--output-spool-size' => 'off');
    my @places = ('--metrics' => $metrics, '--control' => $control);
    my $oribi  = Test::Oribi->start(Test::Oribi::root() . "/examples/sick.$app", '--workers' => 2, @limits, @places);
    push @patients, { app => $app, oribi => $oribi, metrics => "http://127.0.0.1:$metrics/metrics", control => $control };
}

# The current series, by their names.
sub figures ($patient) {
    my $told = HTTP::Tiny->new->get($patient->{metrics})->{content};
    my %figures = $told =~ /^oribi_(\S+) ([\d.]+)$/mg;
    return \%figures;
}

# Those that are not zero, for people.
sub tell_figures ($patient) {
    my $now = figures($patient);
    diag("$_ $now->{$_}") for grep { $now->{$_} && !/_bucket/ } sort keys %$now;
    return;
}

# All servers show this in the end. They are checked in turn: one may no longer show it when another begins to.
sub say_all ($what, $condition) {
    my %silent = map { $_->{app} => $_ } @patients;
    my $look   = sub {
        delete $silent{ $_->{app} } for grep { $condition->(figures($_), $_) } values %silent;
        return !%silent;
    };
    $patients[0]{oribi}->wait_until($look);
    ok(!$silent{ $_->{app} }, "$_->{app}: $what") or tell_figures($_) for @patients;
    return;
}

# The requests that are in a server.
sub requests ($patient) {
    my $told = qx(@{[Test::Oribi::command()]} ctl requests --json --control $patient->{control});
    return decode_json($told)->{requests}->@*;
}

# Sends this many requests to each server, and waits for none.
sub send_all ($count, $path) {
    for my $patient (@patients) {
        for (1 .. $count) {
            my $connection = $patient->{oribi}->connection // die "no connection: $!";
            syswrite $connection, "GET $path HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n" or die "send: $!";
            push $patient->{waiting}->@*, $connection;
        }
    }
    return;
}

# The statuses of the answers to all requests that were sent to a server.
sub statuses ($patient) {
    my @statuses;
    for my $connection ((delete $patient->{waiting})->@*) {
        local $/ = undef;
        push @statuses, (readline($connection) // q()) =~ m{\AHTTP/1[.]1 (\d+) } ? $1 : 'none';
    }
    return join q( ), sort @statuses;
}

sub answered ($what, $expected) {
    like(statuses($_), qr/\A$expected\z/, "$_->{app}: $what") for @patients;
    return;
}

sub idle ($now) { return !$now->{queue_length} && !$now->{requests_running} }

send_all(4, '/slow?4');
say_all('too few workers: all are busy', sub ($now, $) { $now->{requests_running} == 2 && $now->{queue_length} == 2 });
answered('all are answered', '200 200 200 200');
say_all('and how long that took', sub ($now, $) { $now->{request_seconds_count} == 4 && $now->{request_seconds_sum} >= 16 });

send_all(12, '/slow?3');

# Two run and eight wait, unless the queue was full before a request ran.
my $refused = sub ($now, $) {
    my $number = $now->{queue_refused_total};
    return $number >= 2 && $number == $now->{'responses_total{class="5xx"}'};
};
say_all('the queue is full', $refused);
answered('the others are answered', '(?:200 ){8,10}(?:503 ?){2,4}');

# Until the memory has been looked at, which is at most every few seconds.
my $leaking = sub ($now, $patient) {
    HTTP::Tiny->new->get($patient->{oribi}->url . '/leak') for 1 .. 4;
    return $now->{'workers_ended_total{reason="memory"}'};
};
say_all('a worker that grows is replaced', $leaking);
say_all('without a loss', sub ($now, $) { $now->{requests_lost_total} == 0 && $now->{workers_failed_total} == 0 });

say_all('nothing runs', sub ($now, $) { idle($now) });
send_all(1, '/die');
answered('who has asked for a death is told', '502');
say_all('a death is counted', sub ($now, $) { $now->{workers_failed_total} == 1 });
say_all('by its reason', sub ($now, $) { $now->{'workers_ended_total{reason="failure"}'} == 1 });
say_all('with its request', sub ($now, $) { $now->{requests_lost_total} == 1 });
say_all('another worker follows', sub ($now, $) { $now->{'workers{state="ready"}'} == 2 });

send_all(2, '/stuck');
say_all('all are stuck', sub ($now, $) { $now->{requests_running} == 2 });
send_all(1, '/');
say_all('and one waits', sub ($now, $) { $now->{queue_length} == 1 });
say_all('they are ended', sub ($now, $) { $now->{'workers_ended_total{reason="stuck"}'} == 2 });
answered('others answer', '200 502 502');

say_all('both workers are ready', sub ($now, $) { $now->{'workers{state="ready"}'} == 2 && idle($now) });
$_->{workers} = [$_->{oribi}->workers] for @patients;
kill STOP => $_->{workers}->@* for @patients;
send_all(3, '/');
say_all('requests wait for workers that are stopped', sub ($now, $) { $now->{queue_length} == 3 && !$now->{requests_running} });
kill CONT => $_->{workers}->@* for @patients;
answered('which go on', '200 200 200');

send_all(2, '/large?256');
say_all('slow clients keep workers busy', sub ($, $patient) { 2 == grep { $_->{state} eq 'sending' } requests($patient) });

done_testing;
