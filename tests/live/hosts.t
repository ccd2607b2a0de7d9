#!/usr/bin/perl
# Property: an app of each language has WebSockets and streams of events that no worker holds: its handlers get messages, in
# whichever worker, with the data that they have left, and messages to a channel reach all who have subscribed.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use File::Temp ();
use IO::Handle ();
use IO::Select ();
use Test::Command qw(run);
use Test::Curl;
use Test::Files    qw(content_of write_file);
use Test::FreePort qw(free_port);
use Test::More;
use Test::Oribi;
use Test::WebServer::Nginx;
use Test::WebSockets;

my $wants_events = 'Accept: text/event-stream';

# A stream of events that curl receives.
package Stream {
    use Carp qw(croak);

    sub new ($class, $url) {
        my @command = ('curl', '--silent', '--no-buffer', '--max-time', 120, '--header', $wants_events, $url);
        my $pid     = CORE::open my $out, '-|', @command or croak "curl: $!";
        return bless { pid => $pid, out => $out }, $class;
    }

    # The next event; undef at the end.
    sub next ($self) { ## no critic (ProhibitBuiltinHomonyms)
        local $/ = "\n\n";
        while (defined(my $event = readline $self->{out})) {
            return $event =~ s/\n\n\z//r if $event !~ /\A:/;
        }
        return;
    }

    # Whether something has come.
    sub is_readable ($self) { return IO::Select->new($self->{out})->can_read(0.1) }

    sub end ($self) { return kill 'TERM', $self->{pid} }
}

# Other messages may come before, such as those of the room.
sub message_like ($sockets, $name, $pattern) {
    my $line = q();
    $line = $sockets->next($name) until $line =~ $pattern || $line =~ /\Aclosed/;
    return $line;
}

# The head of the response to a request with these fields.
sub head_of ($oribi, $path, @fields) {
    my $socket = $oribi->connection or die "connect: $!";
    print {$socket} map { "$_\r\n" } "GET $path HTTP/1.1", 'Host: localhost', @fields, q() or die "write: $!";
    local $/ = "\r\n\r\n";
    return scalar readline $socket;
}

my @handshake = ('Upgrade: websocket', 'Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==');

# A stream has one type, and the app says how it may be stored.
sub is_stream_of_app ($oribi) {
    my $head = head_of($oribi, '/fields', $wants_events);
    is_deeply([lc($head) =~ /^(c(?:ontent-type|ache-control): [^\r]+)/gm],
        ['content-type: text/event-stream', 'cache-control: private'], 'a stream has its type, and fields of the app');
    return $head;
}

# The log has the reason of an error; it may come a moment after the client has the error.
sub is_explained ($oribi, $reason) {
    return ok($oribi->wait_until(sub { $oribi->log_text =~ $reason }), 'which the log explains');
}

# An app closes with codes of frames only.
sub closes_with_codes ($oribi, $sockets) {
    my $url = $oribi->url;
    $sockets->open($_, "$url/ws/$_") for qw(good bad);
    $sockets->text('good', 'code 4001');
    is(message_like($sockets, 'good', qr/closed/), 'closed 4001 ', 'the app chooses the code of a close');
    $sockets->text('bad', 'code 1006');
    is(message_like($sockets, 'bad', qr/closed/), 'closed 1011 ', 'but none that means something else');
    return is_explained($oribi, qr/the code of a close is 1000 to 1003, .*, not 1006/);
}

# The options by which an app of each language may wait without holding its worker.
my %waiting = ('live.ru' => ['--fibers', 20], 'live.lua' => ['--concurrency', 20]);

for my $app (grep { -e "$FindBin::Bin/apps/$_" } qw(live.ru live.lua live.psgi)) {
    my $file = "$FindBin::Bin/apps/$app";
    subtest "$app: two workers" => sub {
        my $oribi   = Test::Oribi->start($file, '--workers', 2, '--edge', 'on');
        my $url     = $oribi->url;
        my $sockets = Test::WebSockets->new;
        is(body_of("$url/offer"), 'nil', 'an ordinary request gets no offer');
        is(body_of('--header', $wants_events, "$url/offer"), ':sse', 'a stream of events is offered');

        is(body_of('--header', 'Accept: text/html, text/event-stream', "$url/offer"), 'nil', 'but not among other types');
        my @upgrade = map { ('--header', $_) } @handshake;
        is(body_of(@upgrade, '--header', 'Connection: keep-alive, Upgrade', "$url/offer"), ':websocket', 'so is a WebSocket');
        is(body_of(@upgrade, '--header', 'Connection: keep-alive', "$url/offer"), 'nil', 'but not without an upgrade');

        is($sockets->open('ann', "$url/ws/ann", 'chat', 'other'), 'open chat', 'the app chooses the subprotocol');
        is($sockets->open('bob', "$url/ws/bob"), 'open -', 'or none');
        is($sockets->ask('ann', 'echo grüße'),     'text grüße',   'text is echoed');
        is($sockets->ask('ann', 'path'),           'text /ws/ann', 'an event has the request of the handshake');
        $sockets->bytes('bob', "\x00\x01\xff");
        is($sockets->next('bob'), 'bytes ff0100', 'bytes are bytes');

        # Larger ones do not fit into the memory of a request.
        for my $size (1000, 100_000, 900_000) {
            my $text = 'x' x $size;
            ok($sockets->ask('bob', "echo $text") eq "text $text", "a message of $size bytes comes back");
        }

        my %workers;
        for my $number (3 .. 200) {
            my ($count, $pid) = $sockets->ask('ann', 'count') =~ /\Atext (\d+) in (\d+)\z/;
            is($count, $number, 'the data of a connection goes from message to message') if $count != $number || $number == 200;
            $workers{$pid}++;
            $sockets->text('bob', 'count') if $number % 3 == 0;
        }
        cmp_ok(scalar keys %workers, '>=', 1, 'in whichever worker');

        is($sockets->open('cem', "$url/ws/cem"), 'open -', 'a third one');
        my $stream = Stream->new("$url/events/eve");
        is($stream->next, 'data: welcome eve', 'a stream of events begins with a message');
        $sockets->text('ann', 'say hello all');
        is(message_like($sockets, $_, qr/hello all/), 'text hello all', "$_ gets a message to the room") for qw(ann bob cem);
        is($stream->next, 'data: hello all', 'and so does the stream');
        is(curl('--data-binary', "over\nPOST", "$url/publish")->{status}, 204, 'an ordinary request publishes');
        is($stream->next, "data: over\ndata: POST", 'to the stream');
        is($sockets->next('cem'), 'text over\nPOST', 'and to WebSockets');

        $sockets->text('cem', 'leave');
        is($sockets->ask('cem', 'echo gone'), 'text gone', 'one leaves the room');
        $sockets->text('ann', 'say without cem');
        is($stream->next, 'data: without cem', 'the others still get messages');
        is($sockets->ask('cem', 'echo alone'), 'text alone', 'and it gets none');

        $sockets->close('bob', 1000);
        is($stream->next, 'data: bob left', 'the end of a client reaches the app');
        $stream->end;
        # The next event shows that its client has gone.
        $sockets->text('ann', 'say anyone');
        is(message_like($sockets, 'ann', qr/eve left/), 'text eve left', 'also the end of a stream');
        $sockets->text('cem', 'bye');
        is($sockets->next('cem'), 'closed 1000 ', 'the app closes a WebSocket');

        $sockets->text('ann', 'fail');
        is(message_like($sockets, 'ann', qr/closed/), 'closed 1011 ', 'an app that fails loses the connection');
        my $is_logged = sub { $oribi->log_text =~ /\[error\].*the handler has failed/ };
        ok($oribi->wait_until($is_logged), 'and its message is in the log');

        is($sockets->open('late', "$url/refused"), 'refused 403', 'an app refuses a WebSocket');
        is($sockets->foreign('evil', "$url/ws/evil"), 'refused 403', 'pages of other sites have none');
        is($oribi->stop, 0, 'the server ends');
        unlike($oribi->log_text, qr/panicked|is no command|wants to/, 'and nothing else was wrong');
    };
    subtest "$app: a reload in between" => sub {
        my $oribi   = Test::Oribi->start($file, '--workers', 2, '--edge', 'on');
        my $sockets = Test::WebSockets->new;
        is($sockets->open('ann', $oribi->url . '/ws/ann'), 'open -', 'a WebSocket is open');
        my ($before) = $sockets->ask('ann', 'count') =~ /\Atext 1 in (\d+)\z/;
        ok($before, 'a worker has answered');
        $oribi->signal('HUP');
        ok($oribi->wait_until(sub { !kill 0, $before }), 'that worker has ended');
        like($sockets->ask('ann', 'count'), qr/\Atext 2 in (?!$before\z)/, 'a new one goes on');
        $sockets->text('ann', 'bye');
        is($sockets->next('ann'), 'closed 1000 ', 'and closes it');
        is($oribi->stop, 0, 'the server ends');
    };
    subtest "$app: events after the last message, and before the end" => sub {
        my $oribi   = Test::Oribi->start($file, '--workers', 2, '--edge', 'on');
        my $sockets = Test::WebSockets->new;
        my $url     = $oribi->url . '/sender';
        $sockets->open($_, $url) for qw(ann bob);
        my $stream = Stream->new($url);
        is($stream->next, 'data: welcome', 'a stream of events is open');
        my $part = 'text ' . 'x' x 200_000;
        is($sockets->ask('ann', '30 200000') eq $part, 1, 'a part comes, and then the others');
        is(scalar(grep { $sockets->next('ann') eq $part } 2 .. 30), 29, 'each after the one before');
        is($sockets->next('ann'), 'text done', 'and all of them');
        $oribi->signal('HUP');
        ok($oribi->wait_until(sub { $oribi->log_text =~ /generation 2 has taken over|all workers have been replaced/ }),
            'the app is loaded anew');
        is($sockets->ask('ann', '1 1'), 'text x', 'which ends no connection');
        is($sockets->next('ann'), 'text done', 'and its events are known');
        is($oribi->stop, 0, 'the server ends');
        for my $name (qw(ann bob)) {
            is($sockets->next($name), 'text bye',     "$name has a last message");
            is($sockets->next($name), 'closed 1001 ', 'and is told that the server goes');
        }
        is($stream->next, 'data: bye', 'so has the stream');
        is($stream->next, undef,       'which ends');
        unlike($oribi->log_text, qr/panicked|\[error\]/, 'and nothing was wrong');
    };
    subtest "$app: two edges, and threads" => sub {
        my $oribi   = Test::Oribi->start($file, '--workers', 2, '--edges', 2, $app =~ /lua/ ? () : ('--threads', 2));
        my $url     = $oribi->url;
        my $sockets = Test::WebSockets->new;
        my @names   = map { "guest$_" } 1 .. 8;
        is_deeply([map { $sockets->open($_, "$url/ws/$_") } @names], [('open -') x @names], 'many WebSockets are open');
        # All at once, so that workers handle several.
        for my $number (1 .. 20) { $sockets->text($_, "echo $number") for @names }
        for my $name (@names) {
            is_deeply([map { $sockets->next($name) } 1 .. 20], [map { "text $_" } 1 .. 20], "$name gets its answers in order");
        }
        $sockets->text('guest3', 'say to all');
        is($sockets->next($_), 'text to all', "$_ gets a message, at whichever edge it is") for @names;
        like($sockets->ask('guest1', 'count'), qr/\Atext 21 in /, 'no message was counted twice');
        is($oribi->stop, 0, 'the server ends');
        is(message_like($sockets, $_, qr/closed/), 'closed 1001 ', "$_ is told that the server goes") for @names;
        unlike($oribi->log_text, qr/panicked|\[error\]/, 'and nothing was wrong');
    };
    subtest "$app: events that may wait" => sub {
        my $oribi   = Test::Oribi->start($file, '--workers', 1, '--edge', 'on', @{ $waiting{$app} });
        my $url     = $oribi->url;
        my $sockets = Test::WebSockets->new;
        is($sockets->open($_, "$url/ws/$_"), 'open -', "a WebSocket of $_ is open") for qw(ann bob);
        $sockets->text('bob', "echo $_") for 1 .. 20;
        $sockets->text('ann', 'say to all');
        is(message_like($sockets, $_, qr/to all/), 'text to all', "$_ gets a message to the room") for qw(ann bob);
        is(curl('--data-binary', 'POST', "$url/publish")->{status}, 204, 'an ordinary request publishes');
        is(message_like($sockets, 'ann', qr/POST/), 'text POST', 'to all');
        like($sockets->ask('ann', 'count'), qr/\Atext 2 in /, 'the data is carried');
        $sockets->text('ann', 'fail');
        is(message_like($sockets, 'ann', qr/closed/), 'closed 1011 ', 'an app that fails loses the connection');
        $sockets->text('bob', 'bye');
        is(message_like($sockets, 'bob', qr/closed/), 'closed 1000 ', 'or closes it');
        is($oribi->stop, 0, 'the server ends');
    } if $waiting{$app};
    subtest "$app: over HTTP/2" => sub {
        my $oribi   = Test::Oribi->start($file, '--workers', 1, '--edge', 'on', '--websocket-http2');
        my @command = ('/usr/bin/python3', "$FindBin::Bin/over_http2.py", $oribi->port, '/ws/ann', 'echo over two');
        is(run(@command), "200\nover two\n", 'a stream of HTTP/2 becomes a WebSocket');
        ok(run(@command, 900_000) eq "200\n" . 'over two' . 'echo over two' x (900_000 / 13 - 1) . "\n", 'with messages beyond its window');
        is($oribi->stop, 0, 'the server ends');
    };
    subtest "$app: a client cannot send events" => sub {
        my $oribi = Test::Oribi->start($file, '--workers', 1, '--edge', 'on');
        for my $field ('oribi/event: text', 'Oribi/Event: close', 'oribi/connection: 0') {
            is(curl('--header', $field, $oribi->url . '/offer')->{status}, 400, "$field is refused");
        }
        is($oribi->stop, 0, 'the server ends');
    };
    subtest "$app: without an edge" => sub {
        my $oribi   = Test::Oribi->start($file, '--workers', 1, '--edge', 'off');
        my $sockets = Test::WebSockets->new;
        is(body_of('--header', $wants_events, $oribi->url . '/offer'), 'nil', 'no stream is offered');
        is(curl('--data-binary', 'x', $oribi->url . '/publish')->{status}, 500, 'nothing is published');
        like($oribi->log_text, qr/channels need an edge: --edge on/, 'and the log says why');
        is($oribi->stop, 0, 'the server ends');
    };
}

subtest 'live.ru: handlers' => sub {
    my $oribi   = Test::Oribi->start("$FindBin::Bin/apps/live.ru", '--workers', 1, '--edge', 'on');
    my $sockets = Test::WebSockets->new;
    is($sockets->open('a', $oribi->url . '/plain'), 'open -', 'a module handles events');
    is($sockets->ask('a', 'hello'), 'text plain hello', 'without a state');
    is($sockets->open('b', $oribi->url . '/fragile'), 'refused 500', 'a handler that cannot be kept is an error');
    is_explained($oribi, qr/an instance of Fragile\) cannot be kept: \@block: no _dump_data/);
    is($oribi->stop, 0, 'the server ends');
};

for my $options (['--edge', 'on'], ['--edges', 2, '--threads', 2], ['--edge', 'on', '--fibers', 20]) {
    subtest "live.ru: messages outside of a request, with @{$options}" => sub {
        my $oribi   = Test::Oribi->start("$FindBin::Bin/apps/live.ru", '--workers', 1, @{$options});
        my $url     = $oribi->url;
        my $sockets = Test::WebSockets->new;
        my @names   = map { "guest$_" } 1 .. 4;
        $sockets->open($_, "$url/ws/$_") for @names;
        is(body_of('--data-binary', 'hello', "$url/thread"), 'true', 'a thread of a worker publishes');
        is($sockets->next($_), 'text hello', "to $_") for @names;
        my ($most, $more) = map { 'x' x ((64 << 10) - 3 - 5 - 3 - 4 + $_) } 0, 1;
        is(body_of('--data-binary', $most, "$url/thread"), 'true', 'as much as fits into a message between processes');
        ok($sockets->next($_) eq "text $most", "to $_") for @names;
        like(body_of('--data-binary', $more, "$url/thread"), qr/at most 63 KiB/, 'and not more');
        is(body_of("$url/after"), 'late', 'a response has ended');
        ok($oribi->wait_until(sub { $oribi->log_text =~ /published after the end: true/ }), 'when its app publishes');
        is($sockets->next($_), 'text after the end', "to $_") for @names;
        is(body_of("$url/fork"),   '7',               'a process that a worker has forked publishes');
        is($sockets->next($_),     'text of a child', "to $_") for @names;
        is($sockets->ask('guest1', 'echo on'), 'text on', 'and nothing else has come');
        like($sockets->ask('guest1', 'fork'), qr/^text only the worker .* no process that it has forked/, 'a child subscribes nobody');
        is($oribi->stop, 0, 'the server ends');
    };
}

subtest 'live.psgi: messages outside of a request' => sub {
    my $oribi   = Test::Oribi->start("$FindBin::Bin/apps/live.psgi", '--workers', 1, '--edges', 2);
    my $url     = $oribi->url;
    my $sockets = Test::WebSockets->new;
    my @names   = map { "guest$_" } 1 .. 4;
    $sockets->open($_, "$url/ws/$_") for @names;
    is(body_of("$url/after"),  'late',               'an app publishes when its response has ended');
    is($sockets->next($_),     'text after the end', "to $_") for @names;
    is(body_of("$url/fork"),   '7',                  'so does a process that a worker has forked');
    is($sockets->next($_),     'text of a child',    "to $_") for @names;
    is($oribi->stop, 0, 'the server ends');
};

subtest 'live.lua: messages of a task' => sub {
    my $folder = File::Temp->newdir;
    local $ENV{TEST_GO} = "$folder/go";
    my $oribi   = Test::Oribi->start("$FindBin::Bin/apps/live.lua", '--workers', 1, '--edges', 2, '--concurrency', 20);
    my $url     = $oribi->url;
    my $sockets = Test::WebSockets->new;
    my @names   = map { "guest$_" } 1 .. 4;
    $sockets->open($_, "$url/ws/$_") for @names;
    is(body_of("$url/after"), 'late', 'a request is answered');
    is($sockets->ask('guest1', 'echo on'), 'text on', 'nothing has come yet');
    write_file($ENV{TEST_GO}, q());
    is($sockets->next($_), 'text after the end', "its task publishes later, to $_") for @names;
    is($oribi->stop, 0, 'the server ends');
};

subtest 'live.ru: texts around messages, and texts again and again' => sub {
    my $oribi   = Test::Oribi->start("$FindBin::Bin/apps/live.ru", '--workers', 1, '--edges', 2);
    my $url     = $oribi->url;
    my $sockets = Test::WebSockets->new;
    $sockets->open($_, "$url/ws/$_") for qw(ann bob);
    $sockets->text('bob', $_) for 'leave', 'around <b>|</b>', 'around <i>|</i>', 'outside <b>|</b>';
    is($sockets->ask('bob', 'echo done'), 'text done', 'bob has subscribed');
    $sockets->text('ann', 'say hi');
    is($sockets->next('ann'), 'text hi',        'one gets the message');
    is($sockets->next('bob'), 'text <i>hi</i>', 'the other gets it between its texts');
    $sockets->text('ann', 'beat 1');
    is($sockets->next('ann'), 'text beat of ann', 'a text comes') for 1 .. 2;
    $sockets->text('ann', $_) for 'beat 0', 'echo end';
    is(message_like($sockets, 'ann', qr/end/), 'text end', 'and others come besides');
    is($oribi->stop, 0, 'the server ends');
};

subtest 'live.lua: handlers' => sub {
    my $oribi   = Test::Oribi->start("$FindBin::Bin/apps/live.lua", '--workers', 1, '--edge', 'on');
    my $sockets = Test::WebSockets->new;
    is($sockets->open('a', $oribi->url . '/plain'), 'open -', 'handlers have a name');
    is($sockets->ask('a', 'hello'), 'text plain hello', 'and a state of their own');
    is($sockets->open('b', $oribi->url . '/missing'), 'refused 500', 'a name without handlers is an error');
    is_explained($oribi, qr/oribi[.]live has no handlers `missing`/);
    is($sockets->open('c', $oribi->url . '/misspelt'), 'refused 500', 'so is a misspelt option');
    is_explained($oribi, qr/oribi[.]websocket[.]accept has no option `hander`/);
    is(body_of($oribi->url . '/unknown'), 'there is no event `mesage`: events are `open`, `message`, `close`, `drained` and `shutdown`', 'and an event');
    my $head = head_of($oribi, '/fields', @handshake, 'Connection: Upgrade');
    like($head, qr/\AHTTP\/1.1 101 .*X-List: one\r\nX-List: 2\r\n/s, 'a field of a handshake has several values');
    like($head, qr/^X-Pair: three\r$/m, 'or is a pair');
    like(is_stream_of_app($oribi), qr/X-List: one\r\nX-List: 2\r\n/, 'and so in a stream');
    closes_with_codes($oribi, $sockets);
    unlike($oribi->log_text, qr/runtime error:|stack traceback:(?:(?!\[error\]).)*stack traceback:/s, 'errors are logged once');
    is($oribi->stop, 0, 'the server ends');
};

subtest 'live.psgi: handlers' => sub {
    my $oribi   = Test::Oribi->start("$FindBin::Bin/apps/live.psgi", '--workers', 1, '--edge', 'on');
    my $sockets = Test::WebSockets->new;
    is($sockets->open('a', $oribi->url . '/plain'), 'open -', 'an app may return nothing');
    is($sockets->ask('a', 'hello'), 'text plain hello', 'a package handles events');
    is($sockets->open('b', $oribi->url . '/missing'), 'refused 500', 'a package that is none is an error');
    is_explained($oribi, qr/the package Missing has none of the methods/);
    is_stream_of_app($oribi);
    closes_with_codes($oribi, $sockets);
    my $stream = Stream->new($oribi->url . '/bare');
    curl('--data-binary', 'news', $oribi->url . '/publish') while !$stream->is_readable;
    is($stream->next, 'data: news', 'a stream needs no handler');
    is($oribi->stop, 0, 'the server ends');
};

subtest 'below mount' => sub {
    my $folder = File::Temp->newdir;
    my $port   = free_port();
    my $apps   = join "\n", map { qq{[app.$_]\nfile = "$FindBin::Bin/apps/live.$_"\nworkers = 1\n} } qw(ru lua psgi);
    my $routes = join "\n", map { qq{[[route]]\nmatch = { path = "/$_/*" }\napp = "$_"\nmount = "/$_"\n} } qw(ru lua psgi);
    CORE::open my $file, '>', "$folder/oribi.toml" or die "open: $!";
    print {$file} qq{[[listen]]\naddress = "127.0.0.1:$port"\n\n$apps\n$routes} or die "write: $!";
    close $file or die "close: $!";
    my $oribi   = Test::Oribi->run_on_port($port, Test::Oribi::command(), '-c', "$folder/oribi.toml");
    my $sockets = Test::WebSockets->new;
    for my $app (qw(ru lua psgi)) {
        my $url = $oribi->url . "/$app";
        is(body_of('--header', $wants_events, "$url/offer"), ':sse', "$app: a stream of events is offered");
        is($sockets->open($app, "$url/ws/ann"), 'open -', 'a WebSocket is open');
        is($sockets->ask($app, 'echo hello'), 'text hello', 'and gets answers');
    }
    is($oribi->stop, 0, 'the server ends');
};

subtest 'behind nginx, as in deploy/nginx.conf' => sub {
    my $folder  = File::Temp->newdir;
    my $port    = free_port();
    my $oribi   = Test::Oribi->start("$FindBin::Bin/apps/live.lua", '--workers', 1, '--edge', 'on');
    my $text    = content_of(Test::Oribi::root() . '/deploy/nginx.conf');
    my $address = $oribi->upstream;
    $text =~ s{unix:/run/myapp/app[.]sock}{$address} or die 'no upstream';
    $text =~ s/listen 80;/listen 127.0.0.1:$port;/   or die 'no listen';
    write_file("$folder/configuration", Test::WebServer::Nginx->wrapped($text) =~ s/client_max_body_size 64m;//r =~ s/%folder%/$folder/gr);
    my $nginx   = Test::Oribi->run_on_port($port, Test::WebServer::Nginx->start_command("$folder"));
    my $sockets = Test::WebSockets->new;
    is($sockets->open('ann', "http://127.0.0.1:$port/ws/ann"), 'open -', 'a WebSocket is open');
    is($sockets->ask('ann', 'echo hello'), 'text hello', 'and gets answers');
    is(body_of("http://127.0.0.1:$port/offer"), 'nil', 'all else is as before');
    is($oribi->stop, 0, 'the server ends');
};

done_testing;
