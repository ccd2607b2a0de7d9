#!/usr/bin/perl
# Property: the number of workers follows the load between MIN and MAX, and no request is lost meanwhile; an app with 0:MAX has
# no process while nobody asks for it, and answers the first request that comes.

use v5.36;
use File::Path qw(make_path);
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::FreePort qw(free_port);
use Test::Command qw(write_file);
use Test::Curl;
use Test::Load;
use Test::More;
use Test::Oribi;

my $folder  = File::Temp->newdir;
my $control = "$folder/control.sock";

sub file ($name, $content) {
    make_path("$folder/$name" =~ s{/[^/]*\z}{}r);
    write_file("$folder/$name", $content);
    return;
}

sub ctl (@order) { return Test::Oribi::ctl($control, @order) }

# The state of an app, and its number of workers.
sub state_of ($app) {
    my (undef, $status) = ctl('status');
    return $status =~ /^app\s+\Q$app\E:[ ](\w+),[ ](\d+)[ ]worker/m ? "$1 $2" : "unknown: $status";
}

# The processes below a process, itself included.
sub processes ($top) {
    my %parent;
    for my $stat (glob '/proc/[0-9]*/stat') {
        open my $in, '<', $stat or next;
        my $line = readline $in // next;
        my ($pid, $parent) = $line =~ /\A(\d+)[ ].*\)[ ]\S[ ](\d+)[ ]/s or next;
        $parent{$pid} = $parent;
    }
    my @found = ($top);
    for (my $index = 0; $index < @found; $index++) {
        push @found, grep { $parent{$_} == $found[$index] } sort keys %parent;
    }
    return @found;
}

# The processor time of a process, in ticks.
sub ticks ($pid) {
    my $stat = content_of("/proc/$pid/stat");
    my @after = split q( ), $stat =~ s/\A.*\)[ ]//sr;
    return $after[11] + $after[12];
}

# The proportional memory of a process, in KiB.
sub memory ($pid) { return content_of("/proc/$pid/smaps_rollup") =~ /^Pss:\s+(\d+)/m ? $1 : 0 }

sub lua ($text) {
    my $head = '{ ["Content-Type"] = "text/plain" }';
    return qq{return function(request)\n    return 200, $head, "$text " .. request.path_info\nend\n};
}

file('slow/app.lua', <<~'APP');
    return function(request)
        os.execute("sleep 0.1")
        return 200, { ["Content-Type"] = "text/plain" }, "slow"
    end
    APP
# Its workers cannot start while there is a file.
file('boot/app.lua', <<~"APP");
    return function(request)
        local file = request.path_info == "/boot" and io.open("$folder/no-more")
        if file then file:close(); error("no more") end
        os.execute("sleep 0.1")
        return 200, { ["Content-Type"] = "text/plain" }, "boot"
    end
    APP
file('rare/app.lua', lua('rare'));
file('bad/app.lua',  qq{error("the disk is full")\n});

sub site (@more) {
    write_file("$folder/oribi.toml", join q(), <<~"TOML", @more);
        [server]
        control = "$control"
        scale-up-wait = "40ms"
        scale-up-cpu = 100
        scale-down-idle = "2s"

        [app.slow]
        file = "slow/app.lua"
        workers = "1:4"

        [app.rare]
        file = "rare/app.lua"
        workers = "0:2"

        [app.boot]
        file = "boot/app.lua"
        workers = "1:3"
        boot-request = "/boot"
        respawn-interval = "100ms"

        [app.bad]
        file = "bad/app.lua"
        workers = "0:1"

        [[route]]
        match = { path = "/rare*" }
        app = "rare"

        [[route]]
        match = { path = "/bad*" }
        app = "bad"

        [[route]]
        match = { path = "/boot*" }
        app = "boot"

        [[route]]
        match = { path = "/slow*" }
        app = "slow"
        TOML
    return;
}

site();
my $server = Test::Oribi->start('-c', "$folder/oribi.toml");
my $url    = $server->url;
ok $server->wait_until(sub { state_of('slow') eq 'serving 1' }), 'an app starts with its lowest number of workers';

subtest 'workers follow the load' => sub {
    my $load = Test::Load->new($server, '/slow', 8);
    ok $server->wait_until(sub { $load->run(8); state_of('slow') eq 'serving 4' }), 'requests that wait add workers, up to MAX';
    like $server->log_text, qr/slow: 4 workers: requests waited \d+ ms/, 'and the log says why';
    $load->run(40);
    is state_of('slow'), 'serving 4', 'and no more than that';
    my $few = Test::Load->new($server, '/slow', 1);
    $load->run(8);
    is_deeply [[$load->lost], $load->refused], [[], 0], 'no request was lost';
    undef $load;
    # One request at a time needs one worker.
    ok $server->wait_until(sub { $few->run(5); state_of('slow') eq 'serving 1' }), 'with less to do some end, down to MIN';
    $few->run(10);
    is_deeply [[$few->lost], $few->refused], [[], 0], 'and still no request was lost';
};

subtest 'orders' => sub {
    is_deeply [ctl(qw(app slow scale 3))], [0, "workers: 3 (before: 1)\n"], 'an order sets a number';
    # Without the order, the surplus workers would end before this app sleeps.
    is body_of("$url/rare/x"), 'rare /rare/x', 'another app wakes up';
    ok $server->wait_until(sub { state_of('rare') eq 'asleep 0' }), 'and sleeps again';
    is state_of('slow'), 'serving 3', 'and the number stays, whatever the load is';
    is_deeply [ctl(qw(app slow scale 2:3))], [0, "workers: 3 (before: 3)\n"], 'an order sets limits';
    ok $server->wait_until(sub { state_of('slow') eq 'serving 2' }), 'between which it follows the load';
    is((ctl(qw(app slow scale auto)))[0], 0, 'an order returns to the settings');
    ok $server->wait_until(sub { state_of('slow') eq 'serving 1' }), 'and to their limits';
    my ($status, $said) = ctl(qw(app slow scale 0:500));
    is $status, 1, 'there is a highest number';
    like $said, qr/at most \d+ workers/, 'which the answer names';
};

subtest 'an app that sleeps' => sub {
    is state_of('rare'), 'asleep 0', 'has no worker';
    unlike +(ctl('status'))[1], qr/^generation\s+rare/m, 'and no process that has loaded it';
    file('rare/app.lua', lua('newer'));
    is((ctl('reload'))[0], 0, 'a reload');
    is state_of('rare'), 'asleep 0', 'does not wake it';
    my @clients = map { fork // die "fork: $!" } 1 .. 6;
    for my $number (0 .. $#clients) {
        next if $clients[$number];
        require POSIX;
        POSIX::_exit(body_of("$url/rare/$number") eq "newer /rare/$number" ? 0 : 1);
    }
    is scalar(grep { waitpid $_, 0; $? } @clients), 0, 'requests that come together wake it, and get answers of the new code';
    like state_of('rare'), qr/\Aserving [12]\z/, 'it serves';
    ok $server->wait_until(sub { state_of('rare') eq 'asleep 0' }), 'and sleeps again';
    is((ctl(qw(app rare reload)))[0], 0, 'a reload by its name');
    like state_of('rare'), qr/\Aserving/, 'wakes it';
    is((ctl(qw(app rare stop)))[0], 0, 'it is stopped');
    is curl("$url/rare/x")->{status}, 503, 'and then does not wake for a request';
    is((ctl(qw(app rare start)))[0], 0, 'but by an order');
    ok $server->wait_until(sub { state_of('rare') eq 'asleep 0' }), 'and sleeps again';
};

subtest 'an app that cannot be loaded when a request comes' => sub {
    is curl("$url/bad/x")->{status}, 503, 'the request gets a 503';
    like state_of('bad'), qr/\Afailed/, 'the app has failed';
    is body_of("$url/rare/y"), 'newer /rare/y', 'and others have not';
    file('bad/app.lua', lua('good'));
    ok $server->wait_until(sub { curl("$url/bad/x")->{status} == 200 }), 'when it is mended, it serves';
    ok $server->wait_until(sub { state_of('bad') eq 'asleep 0' }), 'and sleeps';
};

subtest 'workers that cannot start' => sub {
    ok $server->wait_until(sub { state_of('boot') eq 'serving 1' }), 'an app serves';
    write_file("$folder/no-more", q());
    my $load = Test::Load->new($server, '/boot/x', 4);
    my $why = qr/boot: no further worker for now: .*the boot request, GET \/boot, was answered with status 500/;
    ok $server->wait_until(sub { $load->run(4); $server->log_text =~ $why }), 'the log says why it gets no more';
    $load->run(8);
    is_deeply [state_of('boot'), [$load->lost], $load->refused], ['serving 1', [], 0], 'and the one that it has serves on';
};

subtest 'an upgrade' => sub {
    unlink "$folder/no-more" or die "$folder/no-more: $!";
    ok $server->wait_until(sub { state_of('rare') eq 'asleep 0' }), 'an app sleeps';
    is((ctl('upgrade'))[0], 0, 'another server takes over');
    is state_of('rare'), 'asleep 0', 'it still does';
    is body_of("$url/rare/z"), 'newer /rare/z', 'and wakes up there';
};
is $server->stop, 0, 'the server stops';

subtest 'one app without a file' => sub {
    file('one/app.lua', lua('one'));
    my @options = ('--workers', '0:2', '--scale-down-idle', '1s', '--control', $control);
    my $one = Test::Oribi->start("$folder/one/app.lua", @options);
    ok $one->wait_until(sub { (ctl('status'))[1] =~ /^server\s+serving/m }), 'starts asleep';
    unlike +(ctl('status'))[1], qr/^generation/m, 'without a process that has loaded it';
    is body_of($one->url . '/a'), 'one /a', 'and answers';
    ok $one->wait_until(sub { (ctl('status'))[1] !~ /^generation/m }), 'and sleeps again';
    is body_of($one->url . '/b'), 'one /b', 'and answers again';
    is $one->stop, 0, 'it stops';
};

subtest 'numbers that cannot follow the load' => sub {
    for my $options (['--workers', '1:3', '--edge', 'off'], ['--workers', '3:1']) {
        my $pid = open my $from, '-|' or exec { 'sh' } 'sh', '-c', 'exec "$@" 2>&1', 'sh', Test::Oribi::command(), 'check',
            "$folder/one/app.lua", @{$options};
        defined $pid or die "fork: $!";
        my $said = join q(), readline $from;
        ok !close($from), "@{$options} is refused";
        like $said, qr/needs an edge|MIN of at most MAX/, 'with the reason';
    }
};

subtest 'two hundred apps that sleep' => sub {
    my ($apps, $routes) = (q(), q());
    for my $number (1 .. 200) {
        file("many/$number/app.lua", lua("app $number"));
        $apps   .= qq{[app.a$number]\nfile = "many/$number/app.lua"\nworkers = "0:4"\n\n};
        $routes .= qq{[[route]]\nmatch = { path = "/$number/*" }\napp = "a$number"\n\n};
    }
    write_file("$folder/many.toml", qq{[server]\ncontrol = "$control"\nscale-down-idle = "2s"\n\n$apps$routes});
    my $many = Test::Oribi->start('-c', "$folder/many.toml");
    ok $many->wait_until(sub { (ctl('status'))[1] =~ /^server\s+serving/m }), 'start together';
    my @processes = processes($many->pid);
    is scalar(@processes), 2, 'and are a master and an edge';
    my %before = map { $_ => ticks($_) } @processes;
    is body_of($many->url . '/77/x'), 'app 77 /77/x', 'any of them wakes up';
    is scalar(grep { !/asleep/ } (ctl('status'))[1] =~ /^app\s+(a\d+:.*)$/mg), 1, 'alone';
    ok $many->wait_until(sub { state_of('a77') eq 'asleep 0' }), 'and sleeps again';
    ok $many->wait_until(sub { processes($many->pid) == 2 }), 'without a process';
    note "PSS of pid $_: " . memory($_) . ' KiB; ticks since the start: ' . (ticks($_) - $before{$_}) for @processes;
    is $many->stop, 0, 'they stop';
};

done_testing;
