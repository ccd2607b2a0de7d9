#!/usr/bin/perl
# Property: stored responses answer for the app until they are stale, one call of the app answers all that wait for it, and each
# client is answered, whatever becomes of the app and of other clients.

use v5.36;
use File::Temp ();
use FindBin;
use IO::Select ();
use lib "$FindBin::Bin/../lib";
use Test::FreePort qw(free_port);
use Test::Command qw(write_file);
use Test::Curl;
use Test::More;
use Test::Oribi;

my $folder  = File::Temp->newdir;
my $control = "$folder/control.sock";
my $port    = free_port();

# The app notes its calls in a file. A path is a name and a Cache-Control: /name/max-age=60.
write_file("$folder/app.lua", <<~'APP');
    local folder = os.getenv("FOLDER")
    local function exists(name)
        local file = io.open(folder .. "/" .. name)
        if file then file:close() end
        return file ~= nil
    end
    return function(request)
        local name, control = request.path_info:match("^/([^/]*)/?(.*)$")
        local calls = io.open(folder .. "/calls." .. name, "a")
        calls:write("x\n")
        calls:close()
        while exists("hold." .. name) do os.execute("sleep 0.02") end
        if exists("die." .. name) then
            os.remove(folder .. "/die." .. name)
            os.execute("kill -9 $PPID")
        end
        local fields = { ["Content-Type"] = "text/plain", ["Cache-Control"] = control:gsub("%%20", " ") }
        if name == "big" then return 200, fields, ("0123456789abcdef"):rep(128 * 1024) end
        if name == "text" then return 200, fields, ("text "):rep(1000) end
        return 200, fields, name
    end
    APP
# The other languages write in pieces, and from a file.
write_file("$folder/app.psgi", <<~'APP');
    my $calls = 0;
    sub {
        my $env    = shift;
        my @fields = ('Cache-Control' => 'max-age=600', 'X-Calls' => ++$calls);
        if ($env->{PATH_INFO} eq '/file') {
            open my $file, '<', __FILE__ or die;
            return [200, \@fields, $file];
        }
        return sub {
            my $writer = shift->([200, \@fields]);
            $writer->write($_) for 1 .. 1000;
            $writer->close;
        };
    };
    APP
write_file("$folder/config.ru", <<~'APP');
    calls = 0
    run ->(env) { [200, {"cache-control" => "max-age=600", "x-calls" => (calls += 1).to_s}, (1..1000).lazy.map(&:to_s)] }
    APP
write_file("$folder/oribi.toml", <<~"TOML");
    [server]
    control = "$control"

    [[listen]]
    address = "127.0.0.1:$port"

    [app.pages]
    file = "app.lua"
    workers = 2
    environment = { FOLDER = "$folder" }

    [app.perl]
    file = "app.psgi"
    workers = 1

    [app.ruby]
    file = "config.ru"
    workers = 1

    [[route]]
    match = { path = "/perl/*" }
    app = "perl"
    mount = "/perl"
    cache = true

    [[route]]
    match = { path = "/ruby/*" }
    app = "ruby"
    mount = "/ruby"
    cache = true

    [[route]]
    app = "pages"
    cache = { size = "8m" }
    compress = true
    TOML

my $server = Test::Oribi->run_on_port($port, Test::Oribi::command(), '-c', "$folder/oribi.toml");
my $url    = "http://127.0.0.1:$port";

sub calls ($name) { return -e "$folder/calls.$name" ? () = content_of("$folder/calls.$name") =~ /x/g : 0 }
sub status_of ($answer) { return header_of($answer, 'Cache-Status') // 'none' }

# Sends a GET on a connection of its own.
sub ask ($target) {
    my $socket = $server->connection or die "cannot connect: $!";
    print {$socket} "GET $target HTTP/1.1\r\nHost: 127.0.0.1:$port\r\nConnection: close\r\n\r\n";
    $socket->flush;
    return $socket;
}

# The whole answer to such a request.
sub answer ($socket) {
    local $/ = undef;
    return readline($socket) // q();
}

sub ctl (@order) { return (Test::Oribi::ctl($control, @order))[1] }

sub counter ($name) { return ctl('status', '--json') =~ /"\Q$name\E":\s*(\d+)/ ? $1 : undef }

subtest 'a stored response' => sub {
    my $first = curl("$url/page/max-age=600");
    is status_of($first), 'oribi; fwd=miss; stored', 'is one of the app at first';
    my $second = curl("$url/page/max-age=600");
    is status_of($second), 'oribi; hit', 'answers the next request';
    is $second->{body}, 'page', 'with its content';
    like header_of($second, 'Age'), qr/\A\d+\z/, 'and its age';
    my $stream = curl('--http2-prior-knowledge', "$url/page/max-age=600");
    is status_of($stream), 'oribi; hit',  'over HTTP/2 as well';
    is $stream->{body},    'page', 'with the same content';
    is calls('page'), 1, 'the app was called once';
    is status_of(curl("$url/none/")), 'oribi; fwd=miss', 'a response without Cache-Control is not stored';
    is status_of(curl("$url/private/private,max-age=60")), 'oribi; fwd=miss', 'nor a private one';
    is status_of(curl("$url/private/private,max-age=60")), 'oribi; fwd=miss', 'ever';
    is length(curl("$url/big/max-age=600")->{body}), 2 << 20, 'nor a large one, which is whole';
    is status_of(curl("$url/big/max-age=600")), 'oribi; fwd=miss', 'each time';
};

subtest 'a stored response is compressed for each client' => sub {
    my $plain = curl("$url/text/max-age=600");
    my $small = curl('-H', 'Accept-Encoding: gzip', "$url/text/max-age=600");
    is header_of($small, 'Content-Encoding'), 'gzip', 'for one that accepts it';
    is header_of($plain, 'Content-Encoding'), undef,  'and not for another';
    is body_of('--compressed', "$url/text/max-age=600"), $plain->{body}, 'with the same content';
    is calls('text'), 1, 'from one response of the app';
};

subtest 'a response in pieces, or from a file' => sub {
    my %content = ((map { $_ => join q(), 1 .. 1000 } qw(perl/pieces ruby/pieces)), 'perl/file' => content_of("$folder/app.psgi"));
    for my $target (sort keys %content) {
        my @answers = map { curl("$url/$target") } 1 .. 2;
        is status_of($answers[1]),             'oribi; hit',                            "$target is stored";
        is header_of($answers[1], 'X-Calls'),  header_of($answers[0], 'X-Calls'),       'and from one call of the app';
        is_deeply [map { $_->{body} } @answers], [($content{$target}) x 2], 'with all of its content';
    }
};

subtest 'a hundred clients, of which some leave' => sub {
    write_file("$folder/hold.crowd", q());
    my @first = ask('/crowd/max-age=600');
    ok $server->wait_until(sub { calls('crowd') == 1 }), 'the first one calls the app';
    my @others = map { ask('/crowd/max-age=600') } 1 .. 99;
    # All of them are in the edge: a later request on another path was answered.
    is body_of("$url/page/max-age=600"), 'page', 'other requests are answered meanwhile';
    close $_ for shift @first, splice @others, 0, 40;
    is body_of("$url/page/max-age=600"), 'page', 'also when clients have left';
    unlink "$folder/hold.crowd";
    my @answers = map { answer($_) } @others;
    is scalar(grep { m{\AHTTP/1.1 200 .*\r\n\r\ncrowd\z}s } @answers), 59, 'each of the others is answered';
    is calls('crowd'), 1, 'by one call of the app';
};

subtest 'a hundred clients whose response cannot be stored' => sub {
    write_file("$folder/hold.own", q());
    my @clients = map { ask('/own/no-store') } 1 .. 100;
    ok $server->wait_until(sub { calls('own') >= 1 }), 'the first one calls the app';
    unlink "$folder/hold.own";
    my @answers = map { answer($_) } @clients;
    is scalar(grep { m{\AHTTP/1.1 200 .*\r\n\r\nown\z}s } @answers), 100, 'each is answered';
    is calls('own'), 100, 'by a call of its own';
};

subtest 'a stale response' => sub {
    my $target = "$url/stale/max-age=1,stale-while-revalidate=600";
    curl($target);
    write_file("$folder/hold.stale", q());
    ok $server->wait_until(sub { status_of(curl($target)) =~ /\Aoribi; hit; ttl=(?:0|-\d+)\z/ }), 'answers at once';
    is body_of($target), 'stale', 'also while the app is asked';
    ok $server->wait_until(sub { calls('stale') == 2 }), 'which is asked once';
    unlink "$folder/hold.stale";
    ok $server->wait_until(sub { status_of(curl($target)) eq 'oribi; hit' }), 'and then there is a fresh one';
};

subtest 'a worker that dies while it is asked' => sub {
    my $target = '/grave/max-age=0,stale-if-error=600';
    curl("$url$target");
    write_file("$folder/$_.grave", q()) for qw(hold die);
    my @clients = (ask($target));
    ok $server->wait_until(sub { calls('grave') == 2 }), 'the app is asked';
    push @clients, map { ask($target) } 1 .. 5;
    is body_of("$url/page/max-age=600"), 'page', 'the edge has the requests';
    unlink "$folder/hold.grave";
    my @answers = map { answer($_) } @clients;
    is scalar(grep { m{\AHTTP/1.1 200 .*\r\n\r\ngrave\z}s } @answers), 6, 'clients get the stored response';

    write_file("$folder/$_.new", q()) for qw(hold die);
    my $first = ask('/new/max-age=600');
    ok $server->wait_until(sub { calls('new') == 1 }), 'the app is asked for something that is not stored';
    my @waiting = map { ask('/new/max-age=600') } 1 .. 5;
    is body_of("$url/page/max-age=600"), 'page', 'the edge has these requests, too';
    unlink "$folder/hold.new";
    like answer($first), qr{\AHTTP/1.1 502 }, 'its client gets an error';
    is scalar(grep { m{\AHTTP/1.1 200 .*\r\n\r\nnew\z}s } map { answer($_) } @waiting), 5, 'and others the answers of the app';
};

subtest 'a change' => sub {
    curl("$url/page/max-age=600");
    is curl('-d', 'x=y', "$url/page/max-age=600")->{status}, 200, 'that is accepted';
    is status_of(curl("$url/page/max-age=600")), 'oribi; fwd=miss; stored', 'makes the stored response invalid';
    is status_of(curl("$url/page/max-age=600")), 'oribi; hit', 'once';
    ctl(qw(app pages reload));
    is status_of(curl("$url/page/max-age=600")), 'oribi; fwd=miss; stored', 'so does a reload of the app';
};

subtest 'counters' => sub {
    ok counter("cache_$_") > 0, "requests are counted: $_" for qw(hits stale misses collapsed);
    is counter('cache_bypasses'), 0, 'none bypassed the cache';
    is curl('-r', '0-1', "$url/page/max-age=600")->{body}, 'page', 'one with Range does';
    is counter('cache_bypasses'), 1, 'and is counted';
};

unlike $server->log_text, qr/panicked|\[error\](?!.*was lost|.*worker)/, 'the log has no error of the server';
done_testing;
