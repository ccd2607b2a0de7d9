#!/usr/bin/perl
# Property: the apps of one server share its addresses and connections, and nothing else: an app that does not load, hangs, dies,
# is reloaded, stopped, added or removed costs the others nothing.

use v5.36;
use File::Path qw(make_path);
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::FreePort qw(free_port);
use Test::Certificate;
use Test::Command qw(run write_file);
use Test::Curl;
use Test::Load;
use Test::More;
use Test::Oribi;

my $folder  = File::Temp->newdir;
my $site    = "$folder/oribi.toml";
my $control = "$folder/control.sock";

sub file ($name, $content) {
    make_path("$folder/$name" =~ s{/[^/]*\z}{}r);
    write_file("$folder/$name", $content);
    return;
}

file('shop/app.psgi', <<~'APP');
    use Cwd;
    sub {
        my $env = shift;
        kill 'KILL', $$ if $env->{PATH_INFO} eq '/die';
        my $text = join q( ), 'shop', $env->{SCRIPT_NAME}, $env->{PATH_INFO}, $ENV{SHOP}, getcwd() =~ s{.*/}{}r;
        return [200, ['Content-Type' => 'text/plain'], [$text]];
    };
    APP
file('blog/config.ru', <<~'APP');
    run ->(env) { [200, {"content-type" => "text/plain"}, ["blog #{env["SCRIPT_NAME"]} #{env["PATH_INFO"]}"]] }
    APP
file('hello/app.lua', <<~'APP');
    return function(request)
        return 200, { ["Content-Type"] = "text/plain" }, "hello " .. request.script_name .. " " .. request.path_info
    end
    APP
file('broken/app.psgi', qq{die "the database is down\\n";\n});
file('hang/app.psgi',   qq{sub { sleep 600 };\n});
file('killed/app.psgi', qq{sub { kill 'KILL', \$\$ };\n});
file('added/app.psgi',  qq{sub { [200, [], ['added']] };\n});
file('public/note.txt', "a note\n");
make_path("$folder/hello/tmp");

# Addresses, and how the first file of the site is.
my ($port, $encrypted, $third) = (free_port()) x 3;
$encrypted = free_port() while $encrypted == $port;
$third     = free_port() while $third == $port || $third == $encrypted;
my $certificate = certificate('several', "$folder/certificate");

sub site ($address, $apps, $routes) {
    write_file($site, <<~"TOML");
        [server]
        control = "$control"

        [[listen]]
        address = "127.0.0.1:$port"

        [[listen]]
        address = "$address"

        [app.shop]
        file = "shop/app.psgi"
        workers = 2
        environment = { SHOP = "open" }

        [app.hello]
        file = "hello/app.lua"
        directory = "public"
        workers = 1

        $apps

        $routes

        [[route]]
        match = { host = "shop.example.com" }
        app = "shop"

        [[route]]
        match = { path = ["/shop", "/shop/*"] }
        app = "shop"
        mount = "/shop"

        [[route]]
        match = { path = "/hello*" }
        app = "hello"
        mount = "/hello"

        [[route]]
        match = { path = "/old/*" }
        redirect = { to = "https://\$host/new\$request_uri", status = 301 }

        [[route]]
        match = { path = "/teapot" }
        respond = { status = 418, content = "short and stout\\n" }

        [[route]]
        match = { path = "*.txt" }
        files = { root = "public" }
        TOML
    return;
}

my $others = <<~'TOML';
    [app.blog]
    file = "blog/config.ru"
    workers = 1

    [app.broken]
    file = "broken/app.psgi"

    [app.hang]
    file = "hang/app.psgi"
    workers = 1
    request-timeout = 1

    [app.killed]
    file = "killed/app.psgi"
    workers = 1
    boot-request = "/"
    respawn-interval = "10ms"
    TOML
my @others = qw(blog broken hang killed);
my $routes = join "\n", map { qq{[[route]]\nmatch = { path = "/$_*" }\napp = "$_"\nmount = "/$_"\n} } @others;
site("https://127.0.0.1:$encrypted?cert=$certificate", $others, $routes);

my $server = Test::Oribi->run_on_port($port, Test::Oribi::command(), '-c', $site);
my $url    = $server->url =~ s{\Ahttps}{http}r;

sub ctl (@order) { return Test::Oribi::ctl($control, @order) }

# The log says that all apps are loaded, or cannot be.
ok $server->wait_until(sub { $server->log_text =~ /not all apps serve: broken, killed cannot be loaded/ }),
    'a server starts although an app does not load, and the workers of another are killed, and says so';
is curl('--max-time', 10, "$url/killed")->{status}, 503, 'clients of such an app are not kept waiting';

subtest 'each route has its app' => sub {
    is body_of("$url/shop"),            'shop /shop  open shop',        'an app is mounted, and runs in the folder of its file';
    is body_of("$url/shop/a%20b"),      'shop /shop /a b open shop',    'its path is decoded';
    is body_of("$url/%73hop/%61?c"),    'shop /shop /a open shop',      'however the client writes it';
    is body_of("$url/blog/a%20b"),      'blog /blog /a%20b',            'for Rack, the path is as sent';
    is body_of("$url/hello/x"),         'hello /hello /x',              'an app in Lua';
    is body_of('-H', 'Host: SHOP.example.com:80', "$url/hello"), 'shop  /hello open shop', 'a host has its app, not mounted';
    is body_of("$url/note.txt"),        "a note\n",                     'a route has files';
    is curl("$url/no.txt")->{status},   404,                            'and no others';
    is curl("$url/teapot")->{status},   418,                            'a route has a fixed response';
    my $redirect = curl("$url/old/a?b=%20");
    is $redirect->{status}, 301, 'a route redirects';
    is header_of($redirect, 'Location'), 'https://127.0.0.1/new/old/a?b=%20', 'to a URL with parts of the request';
    my $none = curl("$url/none");
    is $none->{status}, 404,                                 'a path without a route';
    is $none->{body},   "404 Not Found: no route matches\n", 'is not found';
    my $head = curl('--head', "$url/teapot");
    is header_of($head, 'Content-Length'), 16,            'HEAD gets the size of the content';
    is $head->{body},                      $head->{head}, 'and nothing of it';
};

subtest 'a file that is touched' => sub {
    file('hello/tmp/restart.txt', q());
    ok $server->wait_until(sub { $server->log_text =~ /reloading hello, as generation 2/ }), 'reloads its app, as with Passenger';
    unlike $server->log_text, qr/reloading (?!hello)/, 'and no other';
};

subtest 'streams of one connection go to different apps' => sub {
    my @targets = map { "https://127.0.0.1:$encrypted/$_" } qw(hello/1 shop/2 blog/3 hello/4 teapot shop/5);
    my $answer  = curl('--http2', '--cacert', $certificate, @targets);
    is $answer->{connects}, 1, 'on one connection';
    is $answer->{body}, "hello /hello /1shop /shop /2 open shopblog /blog /3hello /hello /4short and stout\nshop /shop /5 open shop",
        'each gets its answer';
};

subtest 'an app that does not load' => sub {
    my $answer = curl('--max-time', 10, "$url/broken");
    is $answer->{status}, 503, 'is unavailable at once';
    ok defined header_of($answer, 'Retry-After'), 'with the advice to come again';
    my ($status, $said) = ctl(qw(app broken reload));
    is $status, 1, 'it cannot be loaded by an order either';
    like $said, qr/the database is down/, 'which says why';
    file('broken/app.psgi', qq{sub { [200, [], ['mended']] };\n});
    is((ctl(qw(app broken reload)))[0], 0, 'until it is mended');
    is body_of("$url/broken"), 'mended', 'and then serves';
    file('broken/app.psgi', "this is { no perl\n");
    is((ctl(qw(app broken restart)))[0], 1, 'one that breaks later is not restarted');
    is curl('--max-time', 10, "$url/broken")->{status}, 503, 'and is unavailable at once, too';
    file('broken/app.psgi', qq{sub { [200, [], ['again']] };\n});
    make_path("$folder/broken/tmp");
    write_file("$folder/broken/tmp/restart.txt", q());
    ok $server->wait_until(sub { curl("$url/broken")->{body} eq 'again' }), 'until it is loaded again, after a pause';
};

subtest 'orders for one app' => sub {
    my $load = Test::Load->new($server, '/hello', 8);
    $load->run(200);
    is_deeply [ctl(qw(app shop scale 3))], [0, "workers: 3 (before: 2)\n"], 'an app gets another number of workers';
    my ($status, $said) = ctl(qw(scale 3));
    is $status, 1, 'an order without a name is refused';
    like $said, qr/there are several apps; name one of shop, hello, blog, broken, hang, killed/, 'and says which there are';
    like +(ctl(qw(app nothing stop)))[1], qr/there is no app "nothing"; known are shop/, 'as for a name that is not known';
    is((ctl(qw(app blog stop)))[0], 0, 'an app stops');
    ok $server->wait_until(sub { $load->run(50); curl("$url/blog")->{status} == 503 }), 'and is unavailable';
    like +(ctl('status'))[1], qr/^app\s+blog: stopped, 1 worker/m, 'which the status says';
    is((ctl(qw(app blog start)))[0], 0, 'it starts again');
    ok $server->wait_until(sub { $load->run(50); body_of("$url/blog/b") eq 'blog /blog /b' }), 'and serves';
    is((ctl(qw(app blog restart)))[0], 0, 'it is restarted');
    like +(ctl('workers'))[1], qr/^worker 1 of blog\s+\d+\s+3\s+ready/m, 'and has a new generation';
    is_deeply [[$load->lost], $load->refused], [[], 0], 'another app has lost nothing';
};

subtest 'an app that hangs, and one that dies' => sub {
    my $load = Test::Load->new($server, '/hello', 8);
    $load->run(200);
    my @hanging = map { fork // die "fork: $!" } 1 .. 4;
    for my $pid (@hanging) {
        next if $pid;
        require POSIX;
        POSIX::_exit(curl("$url/hang")->{status} == 504 ? 0 : 1);
    }
    for (1 .. 5) {
        is curl("$url/shop/die")->{status}, 502, 'a request that kills its worker';
        $load->run(100);
    }
    my $late = grep { waitpid $_, 0; $? } @hanging;
    is $late, 0, 'requests of the app that hangs get a 504';
    ok $server->wait_until(sub { body_of("$url/shop") =~ /\Ashop/ }), 'the app with killed workers serves on';
    is_deeply [[$load->lost], $load->refused], [[], 0], 'another app has lost nothing';
};

subtest 'another file takes over' => sub {
    my $load = Test::Load->new($server, '/hello', 8);
    $load->run(200);
    my @before = grep { defined } ctl('status');
    write_file($site, "[server]\nworkers = 0\n[app.x]\nfile = \"nothing.psgi\"\nworker = 3\n");
    my ($status, $said) = ctl('upgrade');
    is $status, 1, 'a file with mistakes changes nothing';
    $load->run(200);
    like $server->log_text, qr/\Q$site\E:5:1: .*\n.*worker = 3\n\s+\^/, 'and the log has the line of each';
    site("127.0.0.1:$third", qq{[app.added]\nfile = "added/app.psgi"\n}, qq{[[route]]\nmatch = { path = "/added" }\napp = "added"\n});
    is((ctl('upgrade'))[0], 0, 'one without is taken over');
    $load->run(200);
    is body_of("$url/added"), 'added', 'an app was added';
    is body_of("http://127.0.0.1:$third/added"), 'added', 'and an address';
    ok $server->wait_until(sub { curl("https://127.0.0.1:$encrypted/")->{exit} == 7 }), 'and another address was removed';
    is curl("$url/blog")->{status}, 404, 'and others were removed';
    is_deeply [[$load->lost], $load->refused], [[], 0], 'no request was lost';
    is_deeply [ctl(qw(app blog reload))], [1, qq{oribi: there is no app "blog"; known are shop, hello, added\n}], 'the names are new';
};

is $server->stop, 0, 'TERM ends the server with status 0';

subtest 'mistakes are said before anything starts' => sub {
    my $check = sub (@arguments) {
        my $pid = open my $from, '-|' or exec { 'sh' } 'sh', '-c', 'exec "$@" 2>&1', 'sh', Test::Oribi::command(), @arguments;
        defined $pid or die "fork: $!";
        local $/ = undef;
        my $said = readline $from;
        close $from or $! == 0 or die "close: $!";
        return ($? >> 8, $said);
    };
    my ($status, $said) = $check->('check', '-c', $site);
    is $status, 0, 'a good file' or diag $said;
    like $said, qr/^App added:$/m, 'has a plan for each app';
    ($status, $said) = $check->('check', '-c', $site, '--edge', 'off');
    is $status, 2, 'several apps need an edge';
    like $said, qr/apps with routes need an edge/, 'which the message says';
    file('added/app.psgi', "this is { no perl\n");
    ($status, $said) = $check->('check', '-c', $site);
    is $status, 1, 'an app that cannot be loaded';
    like $said, qr/could not be loaded: added$/m, 'is named';
};

done_testing;
