#!/usr/bin/perl
# Property: a change of the file with the apps is applied to a server under load without one lost request or closed connection;
# a file that cannot be applied changes nothing; and nothing grows with the number of changes.
use v5.36;
use File::Path qw(make_path);
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/../lib";
use JSON::PP       qw(decode_json);
use Test::FreePort qw(free_port);
use Test::Certificate;
use Test::Command qw(run write_file);
use Test::Curl;
use Test::Load;
use Test::More;
use Test::Oribi;

use constant { CHANGES => 30, MANY => 40, CLIENTS => 8 };

my $folder  = File::Temp->newdir;
my $site    = "$folder/oribi.toml";
my $control = "$folder/control.sock";

sub app ($name, $says) {
    my $text = qq{return function(request) return 200, { ["Content-Type"] = "text/plain" }, "$says" end\n};
    write_file("$folder/$name.lua", $text);
    return;
}
app($_, "$_ 1") for qw(shop blog wiki);
write_file("$folder/broken.lua", qq{error("the database is down")\n});
write_file("$folder/hang.lua",   qq{while true do end\n});
# It loads until there is a file, and fails then.
write_file("$folder/waits.lua", qq{while not io.open("$folder/go") do end error("it is over")\n});
make_path("$folder/public", "$folder/other");
write_file("$folder/public/a.txt", 'a file');

my ($port, $encrypted) = (free_port(), free_port());
$encrypted = free_port() while $encrypted == $port;
my $certificate = certificate('apply', "$folder/certificate");

# The table of an app, with the routes of its folder.
sub entry ($name, $options = q(), $file = "$name.lua") {
    return <<~"TOML";
        [app.$name]
        file = "$file"
        workers = 1
        $options
        [[route]]
        match = { path = "/$name*" }
        app = "$name"
        TOML
}

sub site (@parts) {
    write_file($site, join "\n", <<~"TOML", @parts);
        [server]
        control = "$control"
        probe = "/up"
        edges = 2
        edge-sandbox = "try"
        [[listen]]
        address = "127.0.0.1:$port"
        [[listen]]
        address = "https://127.0.0.1:$encrypted?cert=$certificate"
        TOML
    return;
}
my @usual = ((map { entry($_) } qw(shop blog)), qq([[route]]\nmatch = { path = "/a.txt" }\nfiles = { root = "public" }\n));
site(@usual);
my $server = Test::Oribi->run_on_port($port, Test::Oribi::command(), '-c', $site);
my $url    = "http://127.0.0.1:$port";

sub ctl (@order) { return (Test::Oribi::ctl($control, @order))[1] }
sub apply (@options)   { return ctl('apply', @options) =~ s/\n\z//r }
sub status ($path)     { return run('curl', '-s', '-o', '/dev/null', '-w', '%{http_code}', "$url$path") }
sub content ($path)    { return run('curl', '-s', "$url$path") }
sub header ($path, $name) {
    return (run('curl', '-s', '-D', '-', '-o', '/dev/null', "$url$path") =~ /^\Q$name\E: (.*?)\r$/im)[0];
}

# A route with a fixed response, and more options.
sub fixed ($path, $text, $more = q()) {
    return qq([[route]]\nmatch = { path = "$path" }\nrespond = { status = 200, content = "$text" }\n$more\n);
}

$server->wait_until(sub { 2 == (() = ctl('status') =~ /^app .*: serving/mg) });
is content('/shop'), 'shop 1', 'an app answers';
is apply(), 'nothing differs', 'the file is as it was';

subtest 'what differs is changed, and nothing else' => sub {
    my @shop = grep { !Test::Oribi::is_edge($_) } $server->workers;
    site(@usual, entry('wiki'));
    is apply('--dry-run'), 'wiki: added; routes: swapped', 'a dry run says so';
    is status('/wiki'), 404, 'and does nothing';
    is apply(), 'wiki: added; routes: swapped', 'an app is added';
    is content('/wiki'), 'wiki 1', 'and answers';
    my %now = map { $_ => 1 } $server->workers;
    is scalar(grep { $now{$_} } @shop), scalar @shop, 'the other apps have their workers';
    site(@usual, entry('wiki', 'environment = { A = "b" }'));
    is apply(), 'wiki: reloaded', 'an environment differs';
    site(@usual, entry('wiki', 'environment = { A = "b" }') =~ s/workers = 1/workers = 2/r);
    is apply(), 'wiki: 2 workers', 'a number of workers differs';
    $server->wait_until(sub { ctl('status') =~ /wiki: serving, 2 workers/ });
    ctl(qw(app wiki scale 3));
    site(@usual, entry('wiki', 'environment = { A = "c" }') =~ s/workers = 1/workers = 2/r);
    is apply(), 'wiki: reloaded', 'options differ again';
    like ctl('status'), qr/wiki: serving, 3 workers/, 'the number that was set stays';
    ctl(qw(app wiki stop));
    site(@usual, entry('wiki', 'environment = { A = "d" }') =~ s/workers = 1/workers = 2/r);
    is apply(), 'wiki: reloaded (it stays stopped)', 'a stopped app changes';
    is status('/wiki'), 503, 'and stays stopped';
    site(@usual);
    is apply(),         'wiki: removed; routes: swapped', 'an app is removed';
    is status('/wiki'), 404,                              'with its route';
    unlike ctl('status'), qr/wiki/, 'and is not listed';
    return;
};

subtest 'filters and limits' => sub {
    site(@usual, fixed('/t', 't', qq([route.response-fields]\nset = { X-A = "1" })));
    is apply(), 'routes: swapped', 'a route with a filter';
    is header('/t', 'X-A'), 1, 'it changes the response';
    my $limited = fixed('/t', 't', 'limit = { requests = 2, per = "1h" }');
    site(@usual, $limited);
    is apply(), 'routes: swapped', 'a route with a limit';
    is join(q( ), map { status('/t') } 1 .. 3), '200 200 429', 'it counts';
    site(@usual, $limited, fixed('/u', 'u'));
    is apply(), 'routes: swapped', 'another route is added';
    is status('/t'), 429, 'the limit still counts';
    return;
};

subtest 'a file that cannot be applied changes nothing' => sub {
    my @pids = sort $server->workers;
    my $refused = sub ($name, $why, @parts) {
        site(@parts);
        like apply(), $why, $name;
        is content('/shop'), 'shop 1', '... and the app serves';
        is_deeply [sort $server->workers], \@pids, '... by the same workers' if $why ne qr/hang/;
        return;
    };
    site(@usual);
    apply();
    @pids = sort $server->workers;
    $refused->('a mistake', qr/unknown option `colour`/, @usual, "[app.x]\nfile = \"wiki.lua\"\ncolour = 1\n");
    $refused->('mistakes of the file and of the machine', qr/cannot find the app .*?unknown option `colour`.*no such directory/s,
        @usual, qq([app.x]\nfile = "no.lua"\ncolour = 1\n[[route]]\nmatch.path = "/n"\nfiles = { root = "nowhere" }\n));
    $refused->('an app that does not load', qr/nothing has changed: broken: .*the database is down/s, @usual, entry('broken'));
    $refused->('an app that hangs', qr/nothing has changed: hang: .*after 1 s/s, @usual, entry('hang', 'load-timeout = 1'));
    $refused->('one of several', qr/nothing has changed: broken/, @usual, entry('wiki'), entry('broken'));
    is status('/wiki'), 404, 'the app that could be loaded is not there';
    $refused->('a directory that edges have not opened', qr/other is a new directory.*oribi ctl upgrade applies it/s,
        @usual, qq([[route]]\nmatch = { path = "/b" }\nfiles = { root = "other" }\n));
    is content('/a.txt'), 'a file', 'files are sent';
    site(@usual);
    write_file($site, run('cat', $site) =~ s{/up"}{/up2"}r);
    is apply(), 'oribi: options of the whole server differ (probe); oribi ctl upgrade applies it', 'an option of the server';
    site(@usual);
    return;
};

subtest 'HUP reads the file and reloads all apps' => sub {
    my %old = map { $_ => 1 } $server->workers;
    site(@usual, entry('wiki'));
    $server->signal('HUP');
    # The first process of an app counts as a worker while it has none.
    my $replaced = sub {
        my @now = $server->workers;
        return @now == 3 && ctl('status') !~ /finishing/ && !grep { $old{$_} } @now;
    };
    ok $server->wait_until(sub { status('/wiki') == 200 && $replaced->() }), 'a new app, and new workers';
    my @workers = $server->workers;
    # No line of the log so far names this app.
    site(@usual, entry('spoilt', q(), 'broken.lua'));
    $server->signal('HUP');
    ok $server->wait_until(sub { $server->log_text =~ /the file was not applied, and nothing has changed: spoilt/ }),
        'a HUP that fails says why';
    my %now = map { $_ => 1 } $server->workers;
    is scalar(grep { $now{$_} } @workers), 3, 'and reloads nothing';
    return;
};

subtest 'at the same time' => sub {
    site(@usual, entry('waits'));
    my $pid = fork // die "fork: $!\n";
    my @order = (Test::Oribi::command(), 'ctl', 'apply', '--control', $control);
    if (!$pid) { exec 'sh', '-c', 'exec "$@" >/dev/null 2>&1', 'sh', @order }
    $server->wait_until(sub { $server->log_text =~ /applying the file: .*waits: added/ });
    is apply(), 'oribi: another change of the file is under way', 'a second change is refused';
    like ctl('upgrade'), qr/not upgraded: the file is being applied/, 'an upgrade, too';
    like ctl(qw(app blog reload)), qr/has taken over/, 'a reload is not';
    write_file("$folder/go", q());
    waitpid $pid, 0;
    is $? >> 8, 1, 'the first one has failed';
    site(@usual);
    like apply(), qr/wiki: removed/, 'the next one is applied';
    return;
};

# The processes of the server: descriptors, mappings.
sub sizes () {
    my @edges = grep { Test::Oribi::is_edge($_) } Test::Oribi::leaves($server->pid);
    my $of = sub ($pid) {
        my @maps = split /\n/, run('cat', "/proc/$pid/maps");
        return (scalar(() = glob "/proc/$pid/fd/*"), scalar @maps);
    };
    return map { $of->($_) } $server->pid, @edges;
}

subtest 'nothing grows' => sub {
    my $change = sub ($number) {
        site(@usual, entry('wiki', qq(environment = { N = "@{[ $number % 2 ]}" })),
            $number % 3 ? () : qq([[route]]\nmatch = { path = "/$number" }\nredirect = { to = "/" }\n));
        like apply(), qr/wiki: reloaded/, "change $number" if $number > 1;
        apply() if $number <= 1;
        return;
    };
    $change->($_) for 1 .. 10;
    my $settled = sub { ctl('status') !~ /finishing/ };
    $server->wait_until($settled);
    my @before = sizes();
    $change->($_) for 11 .. MANY;
    $server->wait_until($settled);
    my @after = sizes();
    note "descriptors and mappings of the first process and the edge: @before, then @after";
    cmp_ok $after[$_], '<=', $before[$_] + 16, "number $_" for 0 .. $#before;
    return;
};

subtest 'under load' => sub {
    site(@usual);
    apply();
    my $accepted = sub () { return decode_json(ctl('status', '--json'))->{counters}{connections_accepted} };
    my $before = $accepted->();
    my $pid = open my $from, '-|' or exec 'sh', '-c', 'exec "$@" 2>&1', 'sh', 'h2load', '-D', 20, '-c', CLIENTS, '-m', 4,
        "https://127.0.0.1:$encrypted/shop";
    my $load = Test::Load->new($server, '/shop', CLIENTS);
    $load->run(200);
    for my $number (1 .. CHANGES) {
        site(
            @usual,
            $number % 2 ? entry('wiki') : (),
            fixed('/n', $number, qq([route.response-fields]\nset = { X-N = "$number" }))
        );
        like apply(), qr/routes: swapped/, "change $number";
        is content('/n'), $number, '... the routes are those of the file';
        $load->run(50);
    }
    is_deeply [$load->lost], [], 'no connection of HTTP/1.1 has ended';
    is $load->refused, 0, 'each request was answered';
    local $/ = undef;
    my $said = readline $from;
    close $from;
    like $said, qr/ 0 failed, 0 errored, 0 timeout/, 'no request of HTTP/2 over TLS was lost' or diag $said;
    like $said, qr/status codes: (\d+) 2xx, 0 3xx, 0 4xx, 0 5xx/, 'and each was answered';
    is $accepted->() - $before, 2 * CLIENTS + CHANGES, 'no client had to connect again';
    note $said =~ s/^progress.*\n//gmr;
    return;
};

subtest 'the next server' => sub {
    my $without = run('cat', $site) =~ s{\Q@{[ entry('blog') ]}\E}{}r;
    write_file("$folder/other.toml", $without);
    like apply("$folder/other.toml"), qr/blog: removed/, 'another file';
    is status('/blog'), 404, 'it is applied';
    my ($edge) = grep { Test::Oribi::is_edge($_) } Test::Oribi::leaves($server->pid);
    kill 'KILL', $edge;
    $server->wait_until(sub { status('/shop') eq '200' });
    is status('/blog'), 404, 'an edge that is replaced has the routes of that file';
    like ctl('upgrade'), qr/has taken over/, 'an upgrade';
    is status('/blog'), 404, 'serves by that file';
    is status('/shop'), 200, 'too';
    return;
};

done_testing;
