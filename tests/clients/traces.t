#!/usr/bin/perl
# Property: a real OpenTelemetry Collector accepts the spans of sampled requests, with and without an edge, in each language;
# the traceparent that the app gets is that of the server's span, whose parent is the caller's.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use File::Temp ();
use HTTP::Tiny;
use List::Util qw(all uniq);
use Test::FreePort qw(free_port);
use Test::Collector;
use Test::More;
use Test::Oribi;

my $folder = File::Temp->newdir;
my $trace  = '0af7651916cd43dd8448eb211c80319c';
my $client = HTTP::Tiny->new(timeout => 60);
my $calls  = 0;

# Each answers with the traceparent that it has seen, and fails at /fail.
my %apps = (
    'app.psgi' => <<'END',
sub {
    my $env = shift;
    die "told to\n" if $env->{PATH_INFO} eq '/fail';
    return [200, ['Content-Type' => 'text/plain'], [$env->{HTTP_TRACEPARENT}]];
};
END
    'app.ru' => <<'END',
run(lambda do |env|
  raise "told to" if env["PATH_INFO"] == "/fail"
  [200, { "content-type" => "text/plain" }, [env["HTTP_TRACEPARENT"]]]
end)
END
    'app.lua' => <<'END',
return function(request)
    if request.variables.PATH_INFO == "/fail" then error "told to" end
    return 200, { ["Content-Type"] = "text/plain" }, request.variables.HTTP_TRACEPARENT
end
END
);

sub write_file ($name, $text) {
    open my $out, '>', "$folder/$name" or die "$name: $!";
    print {$out} $text;
    close $out or die "$name: $!";
    return "$folder/$name";
}

sub server ($app, $collector, @options) {
    return Test::Oribi->start($app, '--workers' => 1, '--traces', '--trace-export' => $collector, @options);
}

# Sends a request that belongs to the trace; returns the id of its caller, and the response.
sub ask ($server, $path, $flags = '01') {
    my $caller   = sprintf '%016x', ++$calls;
    my $url      = 'http://127.0.0.1:' . $server->port . $path;
    my $response = $client->get($url, { headers => { traceparent => "00-$trace-$caller-$flags" } });
    return ($caller, $response);
}

sub in_order (@spans) {
    my ($root, $queue, $app, $send) = @spans;
    my @moments = map { ($_->{startTimeUnixNano}, $_->{endTimeUnixNano}) } $queue, $app, $send;
    my $sorted  = all { $moments[$_ - 1] <= $moments[$_] } 1 .. $#moments;
    # One begins where the one before ends, and all of them together last as long as the request.
    return $sorted && "@moments[0, 5]" eq "@$root{qw(startTimeUnixNano endTimeUnixNano)}"
        && $moments[1] eq $moments[2] && $moments[3] eq $moments[4];
}

# The programs of languages, which load the app before they call Oribi.
my $top      = Test::Oribi::root();
my %programs = (
    plackup => [$^X, "-Mblib=$top/hosts/perl", qw(-S plackup -s Oribi -E deployment)],
    rackup  => [$ENV{RUBY} // '/usr/bin/ruby', "-I$top/hosts/ruby/lib", qw(-S rackup -s oribi -E production)],
);

# Starts an app by a program, with these settings.
sub run_by ($program, $app, %settings) {
    my $port = free_port();
    my @place = $program eq 'plackup' ? ('--host' => '127.0.0.1', '--port' => $port) : ('-o', '127.0.0.1', '-p', $port);
    my @flags = map { $program eq 'plackup' ? ("--$_" => $settings{$_}) : ('-O', "$_=$settings{$_}") } sort keys %settings;
    return Test::Oribi->run_on_port($port, $programs{$program}->@*, @flags, @place, $app);
}

my $collector = Test::Collector->new;
my %settings  = (workers => 1, traces => 1, 'trace-export' => $collector->url, metrics => 0, 'metrics-route' => '/shop');
for my $way (qw(app.lua app.psgi app.ru plackup rackup)) {
    my $name = { plackup => 'app.psgi', rackup => 'app.ru' }->{$way} // $way;
    my $app  = write_file($name, $apps{$name});
    for my $edge (qw(on off)) {
        my $about  = "$way, edge $edge";
        my $server = $way eq $name
            ? server($app, $collector->url, '--edge' => $edge, '--metrics' => 0, '--metrics-route' => '/shop')
            : run_by($way, $app, %settings, edge => $edge);
        my ($none) = ask($server, '/shop', '00');
        my ($caller, $response) = ask($server, '/shop/items?secret=1');
        my @spans = $collector->spans_below($caller);
        my $root  = $spans[0];
        is($response->{content}, "00-$trace-$root->{spanId}-01", "$about: the app hangs below the server's span");
        is_deeply([map { $_->{name} } @spans], ['GET /shop', qw(queue app send)], "$about: four spans");
        is_deeply([map { $_->{kind} } @spans], [2, 1, 1, 1], "$about: of their kinds");
        is_deeply([uniq map { $_->{traceId} } @spans], [$trace], "$about: of one trace");
        is(scalar(uniq map { $_->{spanId} } @spans), 4, "$about: with an id each");
        ok(in_order(@spans), "$about: one after the other") || diag(explain(\@spans));
        is_deeply([@{ $root->{attributes} }{qw(url.path http.route http.response.status_code network.protocol.version)}],
            ['/shop/items', '/shop', 200, '1.1'], "$about: what it was");
        is($root->{resource}{'service.name'}, $name, "$about: the service") if $way eq $name;
        # HTTP::Tiny keeps its connection, so the remaining spans of earlier requests arrive first.
        my ($failed) = ask($server, '/fail');
        my ($error)  = $collector->spans_below($failed);
        is_deeply([$error->{status}{code}, $error->{attributes}{'error.type'}], [2, '500'], "$about: a failure is one");
        is(scalar(grep { $_->{parentSpanId} eq $none } $collector->spans), 0, "$about: nothing is told of what is not sampled");

        # A new load of the app.
        my ($worker) = map { $_->{attributes}{'process.pid'} } grep { $_->{name} eq 'app' } @spans;
        $server->signal('HUP');
        my $look = sub {
            my ($next) = ask($server, '/');
            return ($collector->spans_below($next))[2]{attributes}{'process.pid'} != $worker;
        };
        ok($server->wait_until($look), "$about: after a reload another worker is told of");
        my ($last) = ask($server, '/last');
        is($server->stop, 0, "$about: it stops");
        is(scalar(grep { $_->{parentSpanId} eq $last } $collector->spans), 1, "$about: what was left has come");
        is_deeply([grep {/spans:|exports spans/} $server->complaints], [], "$about: nobody complains");
    }
}

# By HTTP/2, over TLS.
my $secure = Test::Oribi::believed();
my $port   = free_port();
my @listen = ('--listen' => "https://127.0.0.1:$port?cert=$secure");
my @tell   = ('--workers' => 1, '--traces', '--trace-export' => $collector->url);
my $server = Test::Oribi->run_on_port($port, Test::Oribi::command(), "$folder/app.psgi", @tell, @listen);
my @caller = (sprintf('%016x', ++$calls), '01');
$server->wait_until(sub { $server->log_text =~ /listening on/ });
my $said   = qx(curl --silent --cacert $secure --header 'traceparent: 00-$trace-@{[join '-', @caller]}' https://127.0.0.1:$port/);
my ($root) = $collector->spans_below($caller[0]);
is($said, "00-$trace-$root->{spanId}-01", 'over HTTP/2 the app is told of the span');
is_deeply([@{ $root->{attributes} }{qw(url.scheme network.protocol.version)}], ['https', 2], 'which tells of it');

# The collector goes and comes back.
$server = server("$folder/app.psgi", $collector->url);
$collector->stop;
my ($before) = ask($server, '/before');
ok($server->wait_until(sub { $server->log_text =~ /connection refused/ }), 'the log says that nobody is there');
$collector->start;
is(scalar $collector->spans_below($before), 4, 'what was told meanwhile comes when it is back');

# With an authority of its own.
my ($certificate, $key, $authority) = collectors_certificate($folder);
my $encrypted = Test::Collector->new($certificate, $key);
my $trusting  = server("$folder/app.psgi", $encrypted->url, '--trace-export-ca' => $authority);
my ($caller)  = ask($trusting, '/');
is(scalar $encrypted->spans_below($caller), 4, 'a collector is trusted for whom an authority of its own vouches');
my $doubting = server("$folder/app.psgi", $encrypted->url);
my ($other)  = ask($doubting, '/');
ok($doubting->wait_until(sub { $doubting->log_text =~ /give its CA certificate by --trace-export-ca/ }), 'no other is');
is(scalar(grep { $_->{parentSpanId} eq $other } $encrypted->spans), 0, 'and is told nothing');

done_testing;
