#!/usr/bin/perl
# Property: a real Prometheus that watches a server through a reload, an upgrade and killed processes gets an answer to every
# scrape, and sees no counter go back, whether it takes native histograms or not, from the address for metrics or from a path of
# the app. The alerts and the dashboard of deploy/ only use metrics that the server has.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use File::Temp ();
use HTTP::Tiny;
use JSON::PP qw(decode_json);
use Test::FreePort qw(free_port);
use POSIX ();
use Test::Certificate;
use Test::More;
use Test::Oribi;
use Test::Prometheus;
use Time::HiRes qw(sleep time);

my $root   = Test::Oribi::root();
my $deploy = "$root/deploy";
my $rules  = "$deploy/prometheus/oribi.rules.yml";

sub content_of ($file) {
    open my $in, '<:raw', $file or die "$file: $!";
    local $/ = undef;
    return scalar readline $in;
}

sub promtool (@arguments) {
    my $said = qx(promtool @arguments 2>&1);
    return is($?, 0, "promtool @arguments[0, 1]") || diag($said);
}

# The verdict of promtool about the alerts.
promtool('check', 'rules', $rules);
promtool('test', 'rules', "$deploy/prometheus/oribi.rules.test.yml");
my %tried = map { $_ => 1 } content_of("$deploy/prometheus/oribi.rules.test.yml") =~ /alertname="(\w+)"/g;
my @alerts = content_of($rules) =~ /- alert: (\w+)/g;
is_deeply([sort keys %tried], [sort @alerts], 'each alert is tried');

# A server that has something of everything, and clients that keep it busy.
my $metrics = free_port();
my $folder  = File::Temp->newdir;
my $control = "$folder/control.sock";
my $secure  = 'https://127.0.0.1:' . free_port() . '?cert=' . certificate('first', "$folder/certificate");
my $port    = free_port();
my $oribi   = Test::Oribi->run_on_port($port, Test::Oribi::command(), "$root/examples/sick.psgi", '--workers' => 2,
    '--metrics' => $metrics, '--control' => $control, '--metrics-route' => 'slow=/slow', '--metrics-route' => '/fail',
    '--metrics-path' => '/stats?allow=127.0.0.1', '--listen' => $secure, '--listen' => "127.0.0.1:$port");
# A client gives up after so many seconds without an answer.
my $PATIENCE = 60;
my $visits   = "$folder/visits";
my $load   = fork // die "fork: $!";
if (!$load) {
    my $client = HTTP::Tiny->new(timeout => $PATIENCE);
    open my $out, '>>', $visits or POSIX::_exit(1);
    $out->autoflush;
    while (kill 0 => $oribi->pid) {
        for my $path ('/', '/missing', '/fail', '/slow?0.01') {
            my $begin  = time;
            my $status = $client->get($oribi->url . $path)->{status};
            printf {$out} "%s %d %.3f\n", $path, $status, time - $begin;
        }
    }
    POSIX::_exit(0);
}

# The answers that the clients have had: for each its path, its status and its seconds.
sub visits () {
    return map { [split] } grep {/\n\z/} split /(?<=\n)/, content_of($visits);
}
my $prometheus = Test::Prometheus->new($metrics, $rules);
# Another one asks edges, and gets messages instead of text, with native histograms.
my $native = Test::Prometheus->new("$port/stats", $rules, '--enable-feature=native-histograms');
$prometheus->wait_for_scrapes;

# The metrics at a port, after promtool has checked them.
sub checked ($port) {
    my $scrape = HTTP::Tiny->new->get("http://127.0.0.1:$port/metrics")->{content};
    my $lint   = "$folder/metrics";
    open my $out, '>', $lint or die "$lint: $!";
    print {$out} $scrape;
    close $out or die "$lint: $!";
    promtool('check', 'metrics', '<', $lint);
    return $scrape;
}
my $scrape = checked($metrics);

# Metrics that apps count themselves are also in order.
my $shop = "$folder/shop.psgi";
open my $app, '>', $shop or die "$shop: $!";
print {$app} <<'END';
sub {
    Oribi::count('orders', $_, kind => "a \"b\"\n\\") for 1, 0.5;
    Oribi::observe('payment_seconds', 0.25, provider => 'x');
    Oribi::observe('basket_bytes', 1000);
    return [200, [], []];
};
END
close $app or die "$shop: $!";
my $own    = free_port();
my $seller = Test::Oribi->start($shop, '--workers' => 1, '--metrics' => $own);
HTTP::Tiny->new->get($seller->url);
my @told = sort grep {/_count|_total/} checked($own) =~ /^(app_.*)$/mg;
is_deeply(
    \@told,
    ['app_basket_bytes_count 1', 'app_orders_total{kind="a \"b\"\n\\\\"} 1.5', 'app_payment_seconds_count{provider="x"} 1'],
    'apps count as well'
);

# Kills one of the processes that are ready: an edge or a worker.
sub kill_one ($kind) {
    my $process;
    my $look = sub {
        my $told = qx(@{[Test::Oribi::command()]} ctl workers --json --control $control);
        ($process) = grep { $_->{kind} eq $kind && $_->{state} eq 'ready' } decode_json($told)->{processes}->@*;
        return $process;
    };
    $oribi->wait_until($look) or die "no $kind is ready\n";
    return kill KILL => $process->{pid};
}

# The events of a server: for each a name, an action and a check.
my @deeds = (
    ['a reload', sub { $oribi->signal('HUP') },
        'max(oribi_generations_loaded_total) >= 2 and max(oribi_workers{state="finishing"}) == 0'],
    ['a killed worker', sub { kill_one('worker') }, 'max(oribi_workers_failed_total) >= 1'],
    ['an upgrade', sub { $oribi->signal('USR2') }, 'max(oribi_upgrades_total) >= 1'],
    ['a killed edge', sub { kill_one('edge') }, 'max(oribi_edges_failed_total) >= 1'],
);
for my $deed (@deeds) {
    my ($name, $do, $seen) = @$deed;
    $do->();
    $prometheus->wait_until($seen);
    pass("$name is seen");
    $native->wait_until($seen);
}
$prometheus->wait_for_scrapes;
is($prometheus->value('min(min_over_time(up[1h]))'), 1, 'every scrape has its answer');
my @names    = $prometheus->ask('label/__name__/values')->@*;
my @counters = grep {/\Aoribi_\w+_(?:total|bucket|count|sum)\z/} @names;
cmp_ok(scalar @counters, '>', 25, 'there are counters');
is_deeply([grep { $prometheus->query("resets($_\[1h]) > 0") } @counters], [], 'none has gone back');

# The clients have continued to the end without a wait.
my $visited = visits();
$oribi->wait_until(sub { visits() > $visited }) or fail('the clients go on');
is_deeply([grep { $_->[2] >= $PATIENCE } visits()], [], 'no answer is missing');
cmp_ok(scalar(grep { $_->[0] =~ /slow/ && $_->[1] == 200 } visits()), '>', visits() / 8, 'half of the slow requests succeed');

# Requests for /slow take ten milliseconds at least.
my $slowest = $prometheus->value('max(histogram_quantile(0.5, rate(oribi_route_request_seconds_bucket{route="slow"}[1h])))');
cmp_ok($slowest, '>=', 0.01, 'half of the slow requests take as long as they should')
    or diag(explain([grep { $_->[0] =~ /slow/ } visits()]));
is($prometheus->value('sum(oribi_route_responses_total{route="/fail",class="2xx"})'), 0, 'one route never succeeds');
cmp_ok($prometheus->value('min(oribi_route_responses_total{route="/fail",class="5xx"})'), '>', 0, 'and fails');

# The metrics that the other one has seen. A histogram has one series there, and no buckets that it counts by names.
$native->wait_for_scrapes;
is($native->value('min(min_over_time(up[1h]))'), 1, 'every scrape of messages from the path has its answer');
my @in_messages = $native->ask('label/__name__/values')->@*;
is_deeply([grep {/\Aoribi_.*_(?:bucket|count|sum)\z/} @in_messages], [], 'histograms are native');
my %classic = map { s/_(?:bucket|count|sum)\z//r => 1 } grep {/\Aoribi_/} @names;
is_deeply([sort grep {/\Aoribi_/} @in_messages], [sort keys %classic], 'and nothing is missing');
is_deeply([grep { $native->query("resets($_\[1h]) > 0") } grep {/_total\z/} @in_messages], [], 'no counter has gone back there');
my $within = $native->value('max(histogram_quantile(0.5, rate(oribi_route_request_seconds{route="slow"}[1h])))');
# Neither is off by more than a quarter, which is how exactly times are counted.
cmp_ok($within, '>=', 0.01 / 1.25, 'half of the slow requests take as long there');
$within = $native->value('max(histogram_quantile(0.99, rate(oribi_request_seconds[1m])))');
cmp_ok($within, '>=', 0.01 / 1.25, 'as do one of 100');
cmp_ok($native->value('min(histogram_sum(oribi_request_seconds))'), '>', 0, 'and they take time all together');

# Returns the fault of an expression: it cannot be evaluated, or names missing metrics.
my %there = map { $_ => 1 } $scrape =~ /^(\w+)/gm;
my %asked_for;

sub complaint ($expression) {
    my @asked = ($expression =~ s/"[^"]*"//gr) =~ /\b(oribi_\w+)/g;
    @asked_for{@asked} = @asked;
    my @unknown = grep { !$there{$_} } @asked;
    return "$expression: @unknown" if @unknown;
    return eval { $prometheus->query($expression); 1 } ? () : "$expression: $@";
}
# An alert fires with the next evaluation.
$prometheus->wait_until('ALERTS{alertname="OribiEdgesFail"}');
my @groups  = $prometheus->ask('rules')->{groups}->@*;
my @rules   = map { $_->{rules}->@* } @groups;
is_deeply([sort map { $_->{name} } @rules], [sort @alerts], 'Prometheus has all alerts');
is_deeply([grep { $_->{health} ne 'ok' } @rules], [], 'and evaluates them');
is_deeply([map { complaint($_->{query}) } @rules], [], 'they ask for what there is');

# The rules of prometheus-adapter, whose placeholders are for a pod and its namespace.
my %placeholders = (GroupBy => 'instance', LabelMatchers => 'job="oribi"');
my @adapted = content_of("$deploy/prometheus/adapter.yml") =~ /^ +metricsQuery: (?:'([^']+)'|>-\n((?: {6}.+\n)+))/mg;
@adapted = map {s/<<[.](\w+)>>/$placeholders{$1}/gr} grep {defined} @adapted;
is(scalar @adapted, 2, 'an autoscaler has two metrics');
is_deeply([map { complaint($_) } @adapted], [], 'which ask for what there is');
is_deeply([map { scalar(() = $prometheus->query($_)) } @adapted], [1, 1], 'and have a value for each server');

# Each names its severity and a remedy, and links to a section of the documents.
for my $rule (@rules) {
    my ($name, $labels, $notes) = @$rule{qw(name labels annotations)};
    like($labels->{severity} // q(), qr/\A(?:critical|warning)\z/, "$name says how bad it is");
    my ($file, $section) = ($notes->{more} // q()) =~ /\A(docs\/\w+[.]md)(?:#([\w-]+))?\z/;
    my %sections = map { (lc $_) =~ s/[^\w -]//gr =~ tr/ /-/r => 1 } content_of("$root/" . ($file // 'README.md')) =~ /^#+ (.*)$/mg;
    ok($file && (!defined $section || $sections{$section}), "$name leads to a section") or diag($notes->{more});
    ok($rule->{duration} && length $notes->{summary} && length $notes->{description} > 80, "$name says what to do");
}

# Some have a text about events in this test, and their texts are complete.
my @pending = map { $_->{alerts}->@* } @rules;
my %pending = map { $_->{labels}{alertname} => $_->{annotations}{summary} } @pending;
like($pending{OribiEdgesFail} // q(), qr/\AAn edge of 127[.]0[.]0[.]1:\d+ has failed\z/, 'an alert tells of the edge');
is_deeply([grep { /error|<no value>/ && !/5xx/ } values %pending], [], 'no text has a gap');

# The dashboard for Grafana.
my $dashboard = decode_json(content_of("$deploy/grafana/oribi.json"));
my @panels    = $dashboard->{panels}->@*;
my %variables = ('__rate_interval' => '1m', job => 'oribi', instance => '.*');
my (@wrong, %ids, %places);
for my $panel (@panels) {
    push @wrong, "$panel->{title}: its number is there twice" if $ids{ $panel->{id} }++;
    my $place = $panel->{gridPos};
    for my $x ($place->{x} .. $place->{x} + $place->{w} - 1) {
        for my $y ($place->{y} .. $place->{y} + $place->{h} - 1) {
            push @wrong, "$panel->{title}: it covers another one" if $x > 23 || $places{"$x $y"}++;
        }
    }
    for my $target ($panel->{targets}->@*) {
        push @wrong, "$panel->{title}: it has a data source of its own" if $target->{datasource}{uid} ne '${datasource}';
        my $expression = $target->{expr} =~ s/\$(\w+)/$variables{$1} \/\/ "\$$1"/ger;
        push @wrong, map {"$panel->{title}: $_"} complaint($expression);
    }
}
is_deeply(\@wrong, [], 'the panels of the dashboard show what there is');
my @families = $scrape =~ /^# TYPE (\w+) /gm;
my $shown    = sub ($family) { scalar grep {/\A$family(?:_bucket|_count|_sum)?\z/} keys %asked_for };
is_deeply([grep { !$shown->($_) } @families], [], 'and leave nothing out');

kill TERM => $load;
waitpid $load, 0;
done_testing;
