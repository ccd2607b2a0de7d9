#!/usr/bin/perl
# Property: addresses are added, changed and removed while the server serves. Clients of other addresses do not notice; a client
# whose address is removed gets its answer, also when it has not been accepted yet; and a file that cannot be applied changes
# nothing.
use v5.36;
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/../lib";
use IO::Socket::INET ();
use IO::Socket::UNIX ();
use Test::FreePort qw(free_port);
use Test::Certificate;
use Test::Command qw(run write_file);
use Test::Load;
use Test::More;
use Test::Oribi;

use constant { CLIENTS => 8, WAITING => 20, CHANGES => 12, PATIENCE => 60 };

my $folder  = File::Temp->newdir;
my $site    = "$folder/oribi.toml";
my $control = "$folder/control.sock";
my $unix    = "$folder/app.sock";
my %port    = map { $_ => free_port() } qw(main other secure second third);
my @pem     = map { certificate("name$_.example.com", "$folder/certificate$_") } 1 .. 3;
write_file("$folder/shop.lua", qq{return function(request) return 200, { ["Content-Type"] = "text/plain" }, "shop" end\n});
# It answers when there is a file.
write_file("$folder/slow.lua", <<~"LUA");
    return function(request)
        local file
        repeat file = io.open("$folder/go") until file
        file:close()
        return 200, { ["Content-Type"] = "text/plain" }, "slow"
    end
    LUA
write_file("$folder/broken.lua", qq{error("the database is down")\n});

# A [[listen]] with these lines.
sub listener ($address, @more) { return join "\n", '[[listen]]', qq{address = "$address"}, @more, q() }

sub app ($name) {
    return qq([app.$name]\nfile = "$name.lua"\nworkers = 1\n[[route]]\nmatch = { path = "/$name*" }\napp = "$name"\n);
}

my $main   = listener("127.0.0.1:$port{main}");
my $other  = listener("127.0.0.1:$port{other}");
my $secure = listener("https://127.0.0.1:$port{secure}", qq{ssl-cert = "$pem[0]"});

sub site (@parts) {
    write_file($site, join "\n", <<~"TOML", @parts, map { app($_) } qw(shop slow));
        [server]
        control = "$control"
        edges = 2
        edge-sandbox = "try"
        TOML
    return;
}

sub ctl (@order) { return (Test::Oribi::ctl($control, @order))[1] }
sub apply (@options) { return ctl('apply', @options) =~ s/\n\z//r }
sub edges ()         { return grep { Test::Oribi::is_edge($_) } Test::Oribi::leaves(our $server->pid) }

site($main);
our $server = Test::Oribi->run_on_port($port{main}, Test::Oribi::command(), '-c', $site);

sub page ($name, @options) {
    my $scheme = $name eq 'secure' ? 'https' : 'http';
    return run('curl', '-sk', '--max-time', PATIENCE, @options, "$scheme://127.0.0.1:$port{$name}/shop");
}
sub connection ($name) {
    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port{$name}, Timeout => PATIENCE);
    return $socket;
}
sub refused ($name) { return !defined connection($name) }

# Sends a request on a connection, and returns the answer.
sub ask ($socket, $path = '/shop') {
    syswrite $socket, "GET $path HTTP/1.1\r\nHost: a\r\n\r\n";
    return answer($socket);
}

sub answer ($socket) {
    my $received = q();
    while ($received !~ /\r\n\r\n(?:shop|slow)\z/) {
        sysread $socket, $received, 65_536, length $received or return $received;
    }
    return $received;
}

$server->wait_until(sub { page('main') eq 'shop' && ctl('status') =~ /slow: serving/ });
my @workers = sort grep { !Test::Oribi::is_edge($_) } $server->workers;

subtest 'addresses are added' => sub {
    ok refused('other'), 'nobody listens there';
    site($main, $other, $secure, listener("unix:$unix", 'socket-mode = "600"'));
    my $said = "http://127.0.0.1:$port{other}: added; https://127.0.0.1:$port{secure}: added; unix:$unix: added";
    is apply('--dry-run'), $said, 'a dry run says so';
    ok refused('other'), 'and does nothing';
    is apply(), $said, 'it is applied';
    is page('other'), 'shop', 'an address';
    is page('secure', '--http2', '-w', '%{http_version}'), 'shop2', 'one of HTTP/2 over TLS';
    is page('secure', '--http1.1', '-w', '%{http_version}'), 'shop1.1', '... and of HTTP/1.1';
    is run('curl', '-s', '--unix-socket', $unix, 'http://a/shop'), 'shop', 'a Unix socket';
    is sprintf('%o', (stat $unix)[2] & oct 777), 600, '... with its mode';
    like ctl('status'), qr{http://127\.0\.0\.1:$port{other}.*https://127\.0\.0\.1:$port{secure}.*unix:\Q$unix\E}s, 'the status';
    is apply(), 'nothing differs', 'the file is as it was';
    is_deeply [sort grep { !Test::Oribi::is_edge($_) } $server->workers], \@workers, 'no app was loaded again';
    return;
};

subtest 'options change' => sub {
    my $kept = connection('other');
    like ask($kept), qr/shop\z/, 'a client is connected';
    site(
        $main,
        listener("127.0.0.1:$port{other}",         'proxy-protocol = "v1"'),
        listener("https://127.0.0.1:$port{secure}", qq{ssl-cert = "$pem[1]"}),
        listener("unix:$unix",                     'socket-mode = "660"')
    );
    is apply(), "http://127.0.0.1:$port{other}: changed; https://127.0.0.1:$port{secure}: changed; unix:$unix: changed",
        'all change';
    like ask($kept), qr/\AHTTP\/1\.1 200 (?!.*^Connection: close).*shop\z/ms, 'a connection of before goes on';
    is page('other', '--haproxy-protocol'), 'shop', 'another client sends a PROXY header';
    is run('sh', '-c', "curl -s http://127.0.0.1:$port{other}/shop || echo nothing"), "nothing\n", '... and must';
    like page('secure', '-v', '--stderr', '-'), qr/subject: CN=name2\.example\.com/, 'another certificate';
    is sprintf('%o', (stat $unix)[2] & oct 777), 660, 'another mode';
    is run('curl', '-s', '--unix-socket', $unix, 'http://a/shop'), 'shop', '... of the same socket';
    site($main, listener("https://127.0.0.1:$port{other}", qq{ssl-cert = "$pem[0]"}), listener("127.0.0.1:$port{secure}"));
    is apply(),
        "https://127.0.0.1:$port{other}: changed; http://127.0.0.1:$port{secure}: changed; unix:$unix: removed",
        'TLS begins at one, and ends at another';
    like ask($kept), qr/shop\z/, 'a connection of before goes on';
    is run('curl', '-sk', "https://127.0.0.1:$port{other}/shop"), 'shop', 'TLS';
    is run('curl', '-s', "http://127.0.0.1:$port{secure}/shop"), 'shop', 'clear text';
    ok !-e $unix, 'the file of the socket that was removed is gone';
    site($main, $other, $secure);
    apply();
    is page('secure'), 'shop', 'and back';
    return;
};

# A source of connections for Test::Load.
package Address {
    sub new        ($class, $name) { return bless { name => $name }, $class }
    sub connection ($self)         { return main::connection($self->{name}) }
}

subtest 'an address is removed' => sub {
    my ($idle, $slow) = map { connection('other') } 1 .. 2;
    like ask($idle), qr/shop\z/, 'a client is connected';
    syswrite $slow, "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n";
    $server->wait_until(sub { ctl('requests') =~ m{/slow} });
    my ($load, $rest) = map { Test::Load->new(Address->new($_), '/shop', CLIENTS) } qw(other main);
    $_->run(100) for $load, $rest;
    my $h2 = open my $from, '-|' or exec 'sh', '-c', 'exec "$@" 2>&1', 'sh', 'nghttp', '-v',
        map { "https://127.0.0.1:$port{secure}/slow?$_" } 1 .. 2;
    $server->wait_until(sub { (() = ctl('requests') =~ m{/slow}g) >= 3 });
    site($main);
    open my $applied, '-|', Test::Oribi::command(), 'ctl', 'apply', '--control', $control or die "ctl: $!\n";
    # The clients go on all the time, because a connection that is idle for a second ends.
    $load->run_out;
    is readline($applied), "http://127.0.0.1:$port{other}: removed; https://127.0.0.1:$port{secure}: removed\n", 'two at once';
    close $applied;
    ok $server->wait_until(sub { refused('other') && refused('secure') }), 'no client is accepted any more';
    is_deeply [$load->lost], [], 'each request was answered';
    $rest->run(100);
    is_deeply [$rest->lost], [], 'clients of other addresses stay connected';
    ok sysread($idle, my $end, 1) == 0, 'an idle connection ends';
    write_file("$folder/go", q());
    like answer($slow), qr/^Connection: close\r\n.*slow\z/ms, 'the answer to a request that was running';
    local $/ = undef;
    my $said = readline $from;
    close $from;
    like $said, qr/recv GOAWAY frame.*NO_ERROR/s, 'HTTP/2 is told that the connection ends';
    is scalar(() = $said =~ /:status: 200/g), 2, '... and its requests are answered';
    unlike ctl('status'), qr/$port{other}/, 'the status';
    return;
};

subtest 'clients that wait to be accepted are answered' => sub {
    site($main, $other);
    apply();
    my @edges = edges();
    kill 'STOP', @edges;
    my @waiting = map { connection('other') } 1 .. WAITING;
    syswrite $_, "GET /shop HTTP/1.1\r\nHost: a\r\n\r\n" for @waiting;
    site($main, '# again');
    open my $from, '-|', Test::Oribi::command(), 'ctl', 'apply', '--control', $control or die "ctl: $!\n";
    my $line = qr{applying the file: http://127\.0\.0\.1:$port{other}: removed};
    $server->wait_until(sub { (() = $server->log_text =~ /$line/g) >= 1 });
    kill 'CONT', @edges;
    is scalar(grep { answer($_) =~ /\AHTTP\/1\.1 200 .*shop\z/s } @waiting), WAITING, 'all of them';
    local $/ = undef;
    is readline $from, "http://127.0.0.1:$port{other}: removed\n", 'the address is removed';
    close $from;
    ok $server->wait_until(sub { refused('other') }), 'and closed';
    return;
};

subtest 'an address is replaced by all interfaces, and by one of them again' => sub {
    my %of = ('127.0.0.1' => $other, '0.0.0.0' => listener("0.0.0.0:$port{other}"));
    site($main, $other);
    apply();
    for ([ '127.0.0.1', '0.0.0.0' ], [ '0.0.0.0', '127.0.0.1' ]) {
        my ($old, $new) = @$_;
        site($main, $of{$new}, app('broken'));
        like apply(), qr/nothing has changed: broken:/, "$new is given up";
        is page('other'), 'shop', "$old has its clients";
        my $load = Test::Load->new(Address->new('other'), '/shop', CLIENTS);
        $load->run(100);
        site($main, $of{$new});
        open my $applied, '-|', Test::Oribi::command(), 'ctl', 'apply', '--control', $control or die "ctl: $!\n";
        $load->run_out;
        is readline($applied), "http://$new:$port{other}: added; http://$old:$port{other}: removed\n", "$new for $old";
        close $applied;
        is_deeply [$load->lost], [], 'each request was answered';
        is page('other'), 'shop', 'new clients are, too';
        ok $server->wait_until(sub { $server->log_text =~ m{http://\Q$old\E:$port{other} is no address} }), "$old is closed";
        is page('other'), 'shop', '... and they still are';
    }
    site($main);
    apply();
    return;
};

subtest 'a file that cannot be applied changes nothing' => sub {
    my $taken = IO::Socket::INET->new(LocalAddr => "127.0.0.1:$port{secure}", Listen => 1, ReuseAddr => 1);
    ok $taken, 'another program listens';
    site($main, $other, $secure);
    like apply(), qr/cannot listen on 127\.0\.0\.1:$port{secure}: address already in use/, 'an address in use';
    ok refused('other'), 'nothing listens at the other one';
    close $taken or die "close: $!\n";
    site($main, $other, listener("https://127.0.0.1:$port{secure}", qq{ssl-cert = "$folder/nothing"}));
    like apply(), qr{\Q$folder/nothing\E.*No such file}i, 'a certificate that cannot be read';
    ok refused('other'), 'nothing listens at the other one';
    site($main, $other, app('broken'));
    like apply(), qr/nothing has changed: broken: .*the database is down/s, 'an app that does not load';
    ok refused('other'), 'nothing listens';
    is page('main'), 'shop', 'the server serves';
    return;
};

subtest 'later processes' => sub {
    site($main, $other, $secure);
    apply();
    my @edges = edges();
    kill 'KILL', @edges;
    $server->wait_until(sub { page('other') eq 'shop' && page('secure') eq 'shop' });
    is_deeply [map { page($_) } qw(main other secure)], [('shop') x 3], 'edges that are replaced accept at all addresses';
    site($main, $secure);
    is apply(), "http://127.0.0.1:$port{other}: removed", 'one is removed';
    ok $server->wait_until(sub { refused('other') }), 'by these edges, too';
    site($main, $secure, $other);
    $server->signal('HUP');
    ok $server->wait_until(sub { !refused('other') }), 'HUP opens it again';
    is page('other'), 'shop', '... for clients';
    site($main, $secure);
    $server->signal('HUP');
    ok $server->wait_until(sub { refused('other') }), '... and closes it';
    $server->wait_until(sub { ctl('status') !~ /finishing/ });
    like ctl('upgrade'), qr/has taken over/, 'an upgrade';
    is_deeply [map { page($_) } qw(main secure)], [('shop') x 2], 'the next server has the addresses';
    ok refused('other'), 'and no others';
    site($main, $other);
    is apply(), "http://127.0.0.1:$port{other}: added; https://127.0.0.1:$port{secure}: removed", 'it applies the next file';
    is page('other'), 'shop', 'and serves';
    return;
};

subtest 'an upgrade gives addresses other protocols and options' => sub {
    site($main, $other, $secure, listener("unix:$unix", 'socket-mode = "600"'));
    apply();
    site(
        $main,
        listener("https://127.0.0.1:$port{other}", qq{ssl-cert = "$pem[1]"}),
        listener("127.0.0.1:$port{secure}",        'proxy-protocol = "v1"'),
        listener("unix:$unix",                     'socket-mode = "660"')
    );
    like ctl('upgrade'), qr/has taken over/, 'the sockets are there';
    like run('curl', '-skv', '--stderr', '-', "https://127.0.0.1:$port{other}/shop"), qr/subject: CN=name2\.example\.com/, 'TLS begins';
    is run('curl', '-s', '--haproxy-protocol', "http://127.0.0.1:$port{secure}/shop"), 'shop', 'TLS ends, and a PROXY header begins';
    is sprintf('%o', (stat $unix)[2] & oct 777), 660, 'another mode';
    is run('curl', '-s', '--unix-socket', $unix, 'http://a/shop'), 'shop', '... of the same socket';
    is apply(), 'nothing differs', 'then nothing differs';
    site($main, $other);
    is apply(), "http://127.0.0.1:$port{other}: changed; http://127.0.0.1:$port{secure}: removed; unix:$unix: removed",
        'a file is compared with that of the upgrade';
    is page('other'), 'shop', 'clear text';
    return;
};

subtest 'certificates stay with their addresses' => sub {
    my %secure  = map { $_->[0] => listener("https://127.0.0.1:$port{$_->[0]}", qq{ssl-cert = "$_->[1]"}) }
        ['secure', $pem[0]], ['second', $pem[1]], ['third', $pem[2]];
    my $names = sub {
        return map { run('curl', '-sk', '-o', '/dev/null', '-w', '%{certs}', "https://127.0.0.1:$port{$_}/shop") =~ /CN\s*=\s*(name\d)/ } @_;
    };
    site($main, @secure{qw(secure second third)});
    apply();
    is_deeply [$names->(qw(secure second third))], [qw(name1 name2 name3)], 'each address has its own';
    site($main, @secure{qw(second third)});
    $server->signal('HUP');
    ok $server->wait_until(sub { refused('secure') }), 'HUP removes the first of them';
    $server->wait_until(sub { ctl('status') !~ /finishing|applying/ });
    is_deeply [$names->(qw(second third))], [qw(name2 name3)], 'the others keep theirs';
    site($main, $other);
    apply();
    return;
};

subtest 'nothing grows' => sub {
    my $sizes = sub { return map { scalar(() = glob "/proc/$_/fd/*") } $server->pid, edges() };
    my $change = sub ($number) {
        site($main, $number % 2 ? ($secure, $other) : listener("127.0.0.1:$port{other}", 'proxy-protocol = "on"'));
        unlike apply(), qr/oribi:|nothing/, "change $number";
        my $gone = $number % 2 || $server->wait_until(sub { refused('secure') });
        return;
    };
    $change->($_) for 1 .. 4;
    my @before = $sizes->();
    $change->($_) for 5 .. CHANGES;
    my @after = $sizes->();
    note "descriptors of the first process and the edges: @before, then @after";
    cmp_ok $after[$_], '<=', $before[$_] + 2, "number $_" for 0 .. $#before;
    return;
};

done_testing;
