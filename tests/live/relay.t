#!/usr/bin/perl
# Property: by a real Redis, a message to a channel reaches each client of each server once, whichever server or program has
# published it; and no server waits for Redis.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use File::Temp     ();
use IO::Socket::IP ();
use JSON::PP       qw(decode_json);
use Test::Collector;
use Test::Command qw(run);
use Test::Curl;
use Test::Files    qw(write_file);
use Test::FreePort qw(free_port);
use Test::More;
use Test::Oribi;
use Test::Redis;
use Test::WebSockets;

my $app = "$FindBin::Bin/apps/relay.ru";

# A server that is connected to this Redis.
sub server ($url, @options) {
    my $oribi = apart($url, @options);
    connected($oribi, 1);
    return $oribi;
}

# One that need not be.
sub apart ($url, @options) {
    my $folder  = File::Temp->newdir;
    my $control = "$folder/ctl";
    my $oribi   = Test::Oribi->start($app, '--workers', 1, '--edge', 'on', '--control', $control, '--relay', $url, @options);
    @{$oribi}{qw(control control_folder)} = ($control, $folder);
    return $oribi;
}

sub status ($oribi) {
    my ($status, $said) = Test::Oribi::ctl($oribi->{control}, 'status', '--json');
    $status == 0 or die $said;
    return decode_json($said);
}

# The counter of this name.
sub counter ($oribi, $name) { return status($oribi)->{counters}{$name} }

# Waits for that many connections to Redis.
sub connected ($oribi, $times) {
    $oribi->wait_until(sub { counter($oribi, 'relay_connected') == $times });
    return;
}

sub post ($oribi, $path, $text) {
    my $file = File::Temp->new;
    write_file("$file", $text);
    return curl('--data-binary', "\@$file", $oribi->url . $path)->{status};
}

# Opens a WebSocket and waits until it has subscribed.
sub opens ($sockets, $name, $oribi, $channel) {
    $sockets->open($name, $oribi->url . "/ws/$channel");
    return is($sockets->ask($name, 'open'), 'text open', "$name has subscribed to $channel");
}

# Each of these gets this as its next message.
sub all_get ($sockets, $names, $message, $text) {
    return is_deeply([map { $sockets->next($_) } @{$names}], [($message) x @{$names}], $text);
}

# The title of a process.
sub title ($pid) {
    open my $in, '<', "/proc/$pid/cmdline" or return q();
    return readline($in) // q();
}

# The next line about a WebSocket that is like this.
sub message_like ($sockets, $name, $pattern) {
    my $line = $sockets->next($name);
    $line = $sockets->next($name) while $line !~ $pattern;
    return $line;
}

# A stream of events of a channel.
sub stream ($oribi, $channel) {
    my $socket = IO::Socket::IP->new(PeerHost => '127.0.0.1', PeerPort => $oribi->port) or die "connect: $@";
    $socket->autoflush(1);
    print {$socket} "GET /events/$channel HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n\r\n" or die "write: $!";
    while (my $line = readline $socket) { last if $line eq "\r\n" }
    return $socket;
}

sub next_event ($stream) {
    my @lines;
    while (my $line = readline $stream) {
        $line =~ s/\r?\n\z//;
        # Sizes of chunks, and the line ends after them.
        next if $line =~ /\A[[:xdigit:]]+\z/ || $line eq q() && !@lines;
        return join '|', @lines if $line eq q();
        push @lines, $line;
    }
    return 'the end';
}

# The number of relays at a Redis.
sub subscribers ($redis) { return scalar split /\n/, $redis->cli('CLIENT', 'LIST', 'TYPE', 'pubsub') }

subtest 'two servers' => sub {
    my $redis   = Test::Redis->new;
    my $one     = server($redis->url, '--edges', 2);
    my $two     = server('unix:' . $redis->socket, '--edges', 2);
    my $sockets = Test::WebSockets->new;
    my @names   = map { "guest$_" } 1 .. 8;
    opens($sockets, $names[$_], ($one, $two)[$_ % 2], 'chat') for 0 .. $#names;
    my @streams = (stream($one, 'chat'), stream($two, 'chat'));

    $sockets->text('guest1', 'hello');
    all_get($sockets, \@names, 'text hello', 'a message of a client of one server reaches those of both');
    is_deeply([map { next_event($_) } @streams], [('data: hello') x 2], 'and their streams of events');
    is(post($two, '/publish/chat', 'a POST'), 200, 'a request of the other server publishes');
    all_get($sockets, \@names, 'text a POST', 'to all');
    is($redis->cli('PUBLISH', 'oribi:chat', 'of a console'), 2, 'another program publishes');
    all_get($sockets, \@names, 'text of a console', 'to all');
    is_deeply([map { next_event($_) } @streams, @streams], [('data: a POST') x 2, ('data: of a console') x 2], 'streams, too');

    is(post($one, '/publish/chat?binary', "\xff\0"), 200, 'bytes');
    all_get($sockets, \@names, 'bytes ff00', 'arrive as bytes');
    is(post($one, '/publish/chat?event', "event: news\ndata: 7"), 200, 'lines of an event');
    is_deeply([map { next_event($_) } @streams], [('event: news|data: 7') x 2], 'arrive at streams of events only');
    my ($most, $large) = ('m' x (63 << 10), 'l' x (1 << 20));
    is(post($one, '/thread/chat', $most), 200, 'a thread publishes 63 KiB');
    all_get($sockets, \@names, "text $most", 'to all');
    is(post($one, '/publish/chat', $large), 200, 'a request publishes 1 MiB');
    all_get($sockets, \@names, "text $large", 'to all');
    is(post($one, '/many/chat?300', 'number '), 200, 'many messages');
    is_deeply([map { $sockets->next($names[-1]) } 0 .. 299], [map { "text number $_" } 0 .. 299], 'arrive in their order');

    $redis->cli('PUBLISH', 'oribi:chat', 'last');
    for my $name (@names) {
        my @rest;
        until (@rest && $rest[-1] eq 'text last') { push @rest, $sockets->next($name) }
        is(scalar(@rest), $name eq $names[-1] ? 1 : 301, "$name has got each message once");
    }
    is(counter($one, 'relay_lost'), 0, 'nothing was lost');
    is(counter($one, 'relay_sent'), 305, 'messages were counted');
    my ($status, $said) = Test::Oribi::ctl($one->{control}, 'status');
    like($said, qr/^relay\s+connected 1, sent 305, received \d+$/m, 'and oribi ctl status shows them');

    is(curl($two->url . '/close/chat')->{status}, 200, 'one server closes all that have subscribed');
    is(message_like($sockets, $_, qr/\Aclosed/), 'closed 1000 ', "$_, too") for @names;
    is($_->stop, 0, 'the server ends') for $one, $two;
    is_deeply([$_->complaints], [], 'and nothing was wrong') for $one, $two;
};

subtest 'processes that end' => sub {
    my $redis   = Test::Redis->new;
    my $one     = server($redis->url);
    my $two     = server($redis->url);
    my $sockets = Test::WebSockets->new;
    opens($sockets, 'ann', $one, 'chat');
    my ($edge) = grep { Test::Oribi::is_edge($_) } Test::Oribi::children($two->pid);
    opens($sockets, 'bob', $two, 'chat');
    kill 'KILL', $edge;
    like($sockets->next('bob'), qr/\Aclosed/, 'an edge is killed');
    opens($sockets, 'eve', $two, 'chat');
    $sockets->text('ann', 'to the next edge');
    all_get($sockets, ['ann', 'eve'], 'text to the next edge', 'the next one gets messages');

    my ($relay) = grep { title($_) =~ /\Aoribi: relay/ } Test::Oribi::children($two->pid);
    kill 'KILL', $relay;
    connected($two, 2);
    is(counter($two, 'relay_disconnected'), 1, 'the end of a relay that was killed is counted');
    $sockets->text('eve', 'by another relay');
    all_get($sockets, ['ann', 'eve'], 'text by another relay', 'another one takes its place');

    $two->signal('HUP');
    $two->wait_until(sub { $two->log_text =~ /generation 2 has taken over/ });
    $sockets->text('ann', 'after a reload');
    all_get($sockets, ['ann', 'eve'], 'text after a reload', 'a reload changes nothing');
    is($two->stop, 0, 'a server ends');
    like($sockets->next('eve'), qr/\Aclosed 1001/, 'so do its connections');
    is($sockets->next('ann'), 'text one has left', 'and its last messages are shared');
    is($one->stop, 0, 'the other one ends');
};

subtest 'an upgrade' => sub {
    my $redis   = Test::Redis->new;
    my $one     = server($redis->url);
    my $two     = server($redis->url, '--edges', 2);
    my $sockets = Test::WebSockets->new;
    opens($sockets, 'ann', $one, 'chat');
    opens($sockets, $_, $two, 'chat') for qw(bob eve);
    my $number = 0;
    # With a relay in each server, each message would come twice; with none, not at all.
    my $all_hear = sub {
        $redis->cli('PUBLISH', 'oribi:chat', 'console ' . ++$number);
        $sockets->text('ann', "ann $number");
        my $two_of = sub ($name) { return join ' ', sort map { $sockets->next($name) =~ s/\Atext //r } 1, 2 };
        return join ' ', map { $two_of->($_) } qw(ann bob eve);
    };
    my $heard = sub { join ' ', ("ann $number console $number") x 3 };
    for my $time (1 .. 2) {
        my $late = IO::Socket::IP->new(PeerHost => '127.0.0.1', PeerPort => $two->port) or die "connect: $@";
        print {$late} "POST /publish/other HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 4\r\n\r\nla" or die "write: $!";
        $late->flush;
        # The old edge has its head, so it keeps it.
        $two->wait_until(sub { status($two)->{connections}{reading} == 1 });
        $two->signal('USR2');
        # Until the request has an answer, there are two relays.
        $two->wait_until(sub { subscribers($redis) == 3 });
        is($all_hear->(), $heard->(), 'while both servers are there, each message comes once');
        print {$late} 'te' or die "write: $!";
        $late->flush;
        like(scalar readline $late, qr{\AHTTP/1[.]1 200 }, 'the old one ends');
        $two->wait_until(sub { (() = $two->log_text =~ /that of this one serves it/g) == $time });
        is($all_hear->(), $heard->(), 'and the new one goes on') for 1 .. 2;
    }
    is($_->stop, 0, 'the server ends') for $one, $two;
};

subtest 'a Redis that comes and goes' => sub {
    my $redis   = Test::Redis->new;
    my $one     = server($redis->url);
    my $two     = server($redis->url);
    my $sockets = Test::WebSockets->new;
    opens($sockets, 'ann', $one, 'chat');
    opens($sockets, 'bob', $two, 'chat');
    $redis->stop;
    for my $oribi ($one, $two) {
        $oribi->wait_until(sub { counter($oribi, 'relay_disconnected') == 1 });
    }
    for my $number (1 .. 20) {
        $sockets->text('ann', "alone $number");
        is($sockets->next('ann'), "text alone $number", 'clients of one server still reach each other');
    }
    like($_->log_text, qr/\[error\].* no connection to redis:\S+, so no messages are shared/, 'the log says so') for $one, $two;
    $redis->start;
    connected($_, 2) for $one, $two;
    $sockets->text('ann', 'together');
    my @heard = $sockets->next('bob');
    push @heard, $sockets->next('bob') until $heard[-1] eq 'text together';
    my %times;
    $times{$_}++ for @heard;
    is_deeply([grep { $times{$_} > 1 } keys %times], [], 'nothing came twice');
    like($one->log_text, qr/messages are shared with other servers again/, 'the log says that too');
    is(scalar(() = $one->log_text =~ /so no messages are shared/g), 1, 'in one line for each change');

    $redis->signal('STOP');
    my $large = 'l' x (1 << 20);
    is(post($one, '/publish/bulk', $large), 200, 'a Redis that hangs holds up nobody') for 1 .. 45;
    is($sockets->next('ann'), 'text together', 'clients have all of this server');
    is($sockets->ask('ann', 'meanwhile'), 'text meanwhile', 'and get more');
    $one->wait_until(sub { counter($one, 'relay_lost') > 0 });
    like($one->log_text, qr/messages for other servers are lost/, 'messages beyond a limit are lost, and the log says so');
    $redis->signal('CONT');
    my $sent = sub { $redis->cli('PUBLISH', 'oribi:chat', 'and again') == 2 };
    $one->wait_until($sent);
    for my $name (qw(ann bob)) {
        is(message_like($sockets, $name, qr/again/), 'text and again', "when it goes on, so do messages to $name");
    }
    is($_->stop, 0, 'the server ends') for $one, $two;
};

subtest 'users and passwords' => sub {
    my $redis  = Test::Redis->new('--requirepass', 'hunter2');
    my $folder = File::Temp->newdir;
    my $wrong  = apart($redis->url =~ s{//}{//:hunter3@}r);
    $wrong->wait_until(sub { $wrong->log_text =~ /it refuses the user or the password \(WRONGPASS/ });
    my $none = apart($redis->url);
    $none->wait_until(sub { $none->log_text =~ /it wants a password \(NOAUTH/ });
    my $right = server($redis->url =~ s{//}{//:hunter2@}r);
    $redis->cli('-a', 'hunter2', '--no-auth-warning', qw(ACL SETUSER oribi on >hunter4 resetchannels &shop:* +psubscribe +publish +ping));
    write_file("$folder/password", "hunter4\n");
    my $file = "?user=oribi&password_file=$folder/password";
    my $one  = server($redis->url . $file, '--relay-prefix', 'shop:');
    my $two  = server('unix:' . $redis->socket . $file, '--relay-prefix', 'shop:');
    my $sockets = Test::WebSockets->new;
    opens($sockets, 'ann', $one, 'chat');
    opens($sockets, 'bob', $two, 'chat');
    opens($sockets, 'eve', $right, 'chat');
    $sockets->text('ann', 'hello');
    all_get($sockets, ['ann', 'bob'], 'text hello', 'a user with few rights shares messages');
    is($sockets->ask('eve', 'other'), 'text other', 'and those with another prefix are apart');
    my $refused = apart($redis->url . $file);
    $refused->wait_until(sub { $refused->log_text =~ /does not let this server subscribe to oribi:\* \(NOPERM/ });
    for my $oribi ($wrong, $none, $right, $one, $two, $refused) {
        is($oribi->stop, 0, 'the server ends');
        unlike($oribi->log_text, qr/hunter\d/, 'the log has no password');
    }
    my @check = (Test::Oribi::command(), 'check', $app, '--edge', 'on', '--relay', 'redis://:hunter2@localhost');
    my $said  = run(@check);
    like($said, qr{redis://\S*[*]{3}@\S*localhost:6379}, 'oribi check shows where Redis is');
    unlike($said, qr/hunter2/, 'and no password');
    my $bad = eval { run(Test::Oribi::command(), 'check', $app, '--relay', 'redis://:hunter2@localhost:port') } // $@;
    like($bad, qr{for relay: expected redis://}, 'a mistake is explained');
    unlike($bad, qr/hunter2/, 'without the password');
};

subtest 'TLS' => sub {
    my $folder = File::Temp->newdir;
    my ($certificate, $key, $authority) = collectors_certificate($folder);
    my $port  = free_port();
    my @files = ('--tls-cert-file', $certificate, '--tls-key-file', $key, '--tls-ca-cert-file', $authority);
    my $redis = Test::Redis->new('--tls-port', $port, '--tls-auth-clients', 'no', @files);
    my $url   = "rediss://127.0.0.1:$port";
    my $strange = apart($url);
    $strange->wait_until(sub { $strange->log_text =~ /certificate.*--relay-ca/ });
    my $one     = server($url, '--relay-ca', $authority);
    my $two     = server($redis->url);
    my $sockets = Test::WebSockets->new;
    opens($sockets, 'ann', $one, 'chat');
    opens($sockets, 'bob', $two, 'chat');
    my $large = 'l' x (1 << 20);
    $sockets->text('bob', $large);
    all_get($sockets, ['ann', 'bob'], "text $large", 'an encrypted connection gets messages');
    $sockets->text('ann', $large);
    all_get($sockets, ['ann', 'bob'], "text $large", 'and sends them');
    is($_->stop, 0, 'the server ends') for $strange, $one, $two;
};

subtest 'several apps' => sub {
    my $redis  = Test::Redis->new;
    my $folder = File::Temp->newdir;
    my $port   = free_port();
    write_file("$folder/oribi.toml", <<"FILE");
[server]
relay = "@{[ $redis->url ]}"
control = "$folder/ctl"

[[listen]]
address = "127.0.0.1:$port"

[app.ruby]
file = "$app"
workers = 1

[app.lua]
file = "$FindBin::Bin/apps/live.lua"
workers = 1

[[route]]
match = { path = "/lua/*" }
app = "lua"
mount = "/lua"

[[route]]
app = "ruby"
FILE
    my $oribi = Test::Oribi->run_on_port($port, Test::Oribi::command(), '-c', "$folder/oribi.toml");
    $oribi->{control} = "$folder/ctl";
    # It listens for clients before it does for `oribi ctl`.
    $oribi->wait_until(sub { -S $oribi->{control} });
    connected($oribi, 1);
    my $sockets = Test::WebSockets->new;
    opens($sockets, 'ann', $oribi, 'room');
    is($sockets->open('bob', $oribi->url . '/lua/ws/bob'), 'open -', 'a client of another app');
    is($sockets->ask('bob', 'echo on'), 'text on', 'has subscribed');
    $redis->cli('PUBLISH', 'oribi:room', 'hello');
    all_get($sockets, ['ann', 'bob'], 'text hello', 'all apps of a server share its relay');
    is($oribi->stop, 0, 'the server ends');
};

subtest 'without an edge' => sub {
    my $oribi = Test::Oribi->start($app, '--workers', 1, '--edge', 'off', '--relay', 'redis://localhost:1');
    my $says = sub { $oribi->log_text =~ /--relay has no effect, because channels need an edge/ };
    ok($oribi->wait_until($says), 'the log says that there is no effect');
    is($oribi->stop, 0, 'the server ends');
};

done_testing;
