#!/usr/bin/perl
# Property: a route with `auth` answers those only who have a right password, whatever gives the answer; the app, in each language,
# learns the user and not the password; nobody waits for the passwords of others; and changed files are read while clients are served.

use v5.36;
use File::Path qw(make_path);
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/../lib";
use IO::Socket::IP ();
use MIME::Base64   qw(encode_base64);
use Test::FreePort qw(free_port);
use POSIX          ();
use Socket         qw(SOL_SOCKET SO_LINGER);
use Test::Certificate;
use Test::Command qw(run write_file);
use Test::Curl;
use Test::More;
use Test::Oribi;

my $folder  = File::Temp->newdir;
my $users   = "$folder/users.htpasswd";
my $log     = "$folder/access.log";
my $control = "$folder/control.sock";
my $salt    = 'abcdefghijklmnopqrstuu';
my %hashes  = (
    alice => crypt('secret', "\$2y\$06\$$salt"),
    bob   => crypt('builder', '$6$rounds=5000$saltsalt$'),
    map { ("user$_" => crypt("password$_", "\$2b\$06\$$salt")) } 1 .. 5,
);

sub write_users (%changes) {
    my %all = (%hashes, %changes);
    write_file("$users.new", join q(), map { "$_:$all{$_}\n" } sort keys %all);
    rename "$users.new", $users or die "$users: $!";
    return;
}

write_users();
make_path("$folder/public");
write_file("$folder/public/plan.txt", "the plan\n");
write_file("$folder/app.psgi", <<~'APP');
    sub {
        my $env = shift;
        return [200, ['Content-Type' => 'text/plain'], [join q(,), map { $env->{$_} // '-' }
            qw(REMOTE_USER AUTH_TYPE HTTP_AUTHORIZATION HTTP_REMOTE_USER HTTP_X_REMOTE_USER HTTP_X_USER)]];
    };
    APP
write_file("$folder/guard.psgi", <<~'APP');
    sub {
        my $env = shift;
        my $cookie = $env->{HTTP_COOKIE} // '';
        my $about = "$env->{REQUEST_METHOD} $env->{PATH_INFO} $env->{HTTP_X_ORIGINAL_METHOD} $env->{HTTP_X_ORIGINAL_URI}";
        return [204, ['X-User' => 'eve'], []] if $cookie eq 'key=7';
        return [302, [Location => '/login', 'Set-Cookie' => 'a=b'], [$about]] if $cookie eq '';
        die "no key\n" if $cookie eq 'die';
        return [404, ['X-User' => 'eve'], ['not here']];
    };
    APP
write_file("$folder/config.ru", <<~'APP');
    NAMES = %w[REMOTE_USER AUTH_TYPE HTTP_AUTHORIZATION HTTP_REMOTE_USER HTTP_X_REMOTE_USER HTTP_X_USER]
    run ->(env) { [200, {"content-type" => "text/plain"}, [NAMES.map { |name| env[name] || "-" }.join(",")]] }
    APP
write_file("$folder/app.lua", <<~'APP');
    local names = { "REMOTE_USER", "AUTH_TYPE", "HTTP_AUTHORIZATION", "HTTP_REMOTE_USER", "HTTP_X_REMOTE_USER", "HTTP_X_USER" }
    return function(request)
        local values = {}
        for number, name in ipairs(names) do values[number] = request.variables[name] or "-" end
        return 200, { ["Content-Type"] = "text/plain" }, table.concat(values, ",")
    end
    APP

my ($port, $encrypted) = (free_port()) x 2;
$encrypted = free_port() while $encrypted == $port;
my $certificate = certificate('auth', "$folder/certificate");
write_file("$folder/oribi.toml", <<~"TOML");
    [server]
    edges = 2
    edge-sandbox = "try"
    access-log = "$log"
    control = "$control"

    [[listen]]
    address = "127.0.0.1:$port"

    [[listen]]
    address = "https://127.0.0.1:$encrypted?cert=$certificate"

    [app.perl]
    file = "app.psgi"
    workers = 1

    [app.ruby]
    file = "config.ru"
    workers = 1

    [app.lua]
    file = "app.lua"
    workers = 1

    [app.guard]
    file = "guard.psgi"
    workers = 1

    [defaults]
    auth = { htpasswd = "users.htpasswd", realm = "the shop" }

    [[route]]
    match = { path = "/open" }
    app = "perl"
    auth = false

    [[route]]
    match = { path = "/ruby" }
    app = "ruby"

    [[route]]
    match = { path = "/lua" }
    app = "lua"

    [[route]]
    match = { path = "/kept" }
    app = "perl"
    auth = { htpasswd = "users.htpasswd", keep = true, field = "X-User" }

    [[route]]
    match = { path = "/asked/*.txt" }
    files = { root = ".", try = "/public/plan.txt" }
    auth = { app = "guard", path = "/check", fields = "X-User" }

    [[route]]
    match = { path = "/asked/*" }
    app = "ruby"
    auth = { app = "guard", path = "/check", fields = "X-User" }

    [[route]]
    match = { path = "/public/*" }
    files = { root = "." }

    [[route]]
    app = "perl"
    TOML

my $server = Test::Oribi->run_on_port($port, Test::Oribi::command(), '-c', "$folder/oribi.toml");
my $http   = "http://127.0.0.1:$port";
my @right  = ('-u', 'alice:secret');

for ([ $http, '--http1.1' ], [ "https://127.0.0.1:$encrypted", '--http2', '--cacert', $certificate ]) {
    my ($url, @how) = @$_;
    subtest "who may, $how[0]" => sub {
        for my $target (qw(perl ruby lua public/plan.txt none)) {
            my $asked = curl(@how, "$url/$target");
            is $asked->{status}, 401, "/$target is for users only";
            is header_of($asked, 'WWW-Authenticate'), 'Basic realm="the shop", charset="UTF-8"', 'and the client is asked';
            unlike $asked->{body}, qr/plan|alice/, 'and gets nothing else';
            is curl(@how, '-u', 'alice:wrong',  "$url/$target")->{status}, 401, 'a wrong password is none';
            is curl(@how, '-u', 'nobody:secret', "$url/$target")->{status}, 401, 'nor is that of another user';
        }
        my @pretends = map { ('-H', $_) } ('Remote-User: root', 'X-Remote-User: root', 'X_Remote_User: root');
        for my $target (qw(perl ruby lua)) {
            is body_of(@how, @right, @pretends, "$url/$target"), 'alice,Basic,-,-,-,-', "$target gets the user only";
            is body_of(@how, '-u', 'bob:builder', "$url/$target"), 'bob,Basic,-,-,-,-', 'and any other';
        }
        is body_of(@how, @right, '-d', 'a=b', "$url/perl"), 'alice,Basic,-,-,-,-', 'a request with content waits as well';
        is body_of(@how, "$url/open"), '-,-,-,-,-,-', 'a route may be open';
        my $login = curl(@how, '-d', 'a=b', "$url/asked/1?c=d");
        is $login->{status}, 302, 'a route may ask an app, which sends the client elsewhere';
        is header_of($login, 'Set-Cookie'), 'a=b', 'with a cookie';
        is $login->{body}, 'GET /check POST /asked/1?c=d', 'and knows the request';
        my @cookie = ('-H', 'Cookie: key=7', '-H', 'X-User: root');
        is body_of(@how, @cookie, '-d', 'a=b', "$url/asked/1"), '-,-,-,-,-,eve', 'or lets it in with a name';
        is body_of(@how, @cookie, "$url/asked/a.txt"), "the plan\n", 'also to files';
        is curl(@how, '-H', "Cookie: $_->[0]", "$url/asked/a.txt")->{status}, $_->[1], "nobody gets in by an answer of $_->[0]"
            for [ 'die', 500 ], [ 'x', 502 ];
        is body_of(@how, @right, "$url/public/plan.txt"), "the plan\n", 'files are for users, too';
        my $token = encode_base64('alice:secret', q());
        is body_of(@how, @right, '-H', 'x-user: root', "$url/kept"), "alice,Basic,Basic $token,-,-,alice", 'an app may ask for more';
    };
}

subtest 'the access log names users and no passwords' => sub {
    ok $server->wait_until(sub { content_of($log) =~ /^127[.]0[.]0[.]1 - alice \[.*"GET \/perl /m }), 'it names the user';
    like content_of($log), qr/^127[.]0[.]0[.]1 - - \[.*"GET \/perl HTTP\S+ 401 /m, 'and nobody whose password was wrong';
    unlike content_of($log) . $server->log_text, qr/secret|builder|YWxpY2U6/, 'no log has a password';
};

subtest 'a client with wrong passwords stops no other' => sub {
    my $statuses = "$folder/statuses";
    my $attacker = fork // die "fork: $!";
    if ($attacker == 0) {
        open STDOUT, '>>', $statuses   or POSIX::_exit(126);
        open STDERR, '>',  '/dev/null' or POSIX::_exit(126);
        my $ends = 0;
        local $SIG{TERM} = sub { $ends = 1 };
        for (my $round = 0; !$ends; $round++) {
            my @urls = map { ('-o', '/dev/null', "http://alice:wrong$round-$_\@127.0.0.1:$port/perl") } 1 .. 40;
            system 'curl', '-s', '--max-time', 60, '--interface', '127.0.0.2', '--parallel', '--parallel-max', 40,
                '--write-out', '%{http_code}\n', @urls;
        }
        POSIX::_exit(0);
    }
    ok $server->wait_until(sub { -s $statuses }), 'it has begun';
    is body_of('-u', "user$_:password$_", "$http/lua"), "user$_,Basic,-,-,-,-", "user$_ is served meanwhile" for 1 .. 5;
    is body_of(@right, "$http/lua"), 'alice,Basic,-,-,-,-', 'so is the user whose name it has';
    is waitpid($attacker, POSIX::WNOHANG()), 0, 'it has not ended';
    kill 'TERM', $attacker;
    waitpid $attacker, 0;
    my %times;
    $times{$_}++ for split /\n/, content_of($statuses);
    is_deeply [ sort keys %times ], [ 401, 429 ], 'it was refused, for its passwords and for their number' or diag explain \%times;
};

subtest 'clients that leave keep no places' => sub {
    my $token = sub ($text) { encode_base64($text, q()) };
    for my $number (1 .. 60) {
        my $socket = IO::Socket::IP->new(PeerHost => '127.0.0.1', PeerPort => $port) // die "connect: $@";
        $socket->setsockopt(SOL_SOCKET(), SO_LINGER(), pack 'II', 1, 0) if $number % 2;
        print {$socket} "GET /perl HTTP/1.1\r\nHost: a\r\nAuthorization: Basic ", $token->("alice:gone$number"), "\r\n\r\n";
        $socket->flush;
        close $socket;
    }
    my $served;
    ok $server->wait_until(sub { $served = curl('-u', 'alice:wrong again', "$http/perl"); $served->{status} == 401 }), 'there is room';
};

subtest 'a changed file counts without a reload' => sub {
    write_users(alice => crypt('changed', "\$2y\$06\$$salt"));
    ok $server->wait_until(sub { curl(@right, "$http/perl")->{status} == 401 }), 'the old password is forgotten';
    is curl('-u', 'alice:changed', "$http/perl")->{status}, 200, 'and the new one counts' for 1 .. 4;
    write_users(alice => '$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0');
    ok $server->wait_until(sub { $server->log_text =~ /users[.]htpasswd:1: a hash by apr1 .* keeping the current users/ }), 'one that is unusable is not';
    is curl('-u', 'alice:changed', "$http/perl")->{status}, 200, 'and changes nothing' for 1 .. 4;
    write_users(alice => crypt('third', "\$2y\$06\$$salt"));
    $server->signal('HUP');
    ok $server->wait_until(sub { curl('-u', 'alice:third', "$http/perl")->{status} == 200 }), 'a reload reads it at once';
};

subtest 'a password that is changed while a file is applied stays changed' => sub {
    # It loads until there is a file.
    write_file("$folder/late.lua", <<~"LUA");
        os.execute "while ! [ -e $folder/go ]; do sleep 0.05; done"
        return function(request) return 200, {}, "late" end
        LUA
    my $site = run('cat', "$folder/oribi.toml");
    write_file("$folder/oribi.toml", <<~"TOML" . $site =~ s/(?=\[defaults\])/[app.late]\nfile = "late.lua"\nworkers = 1\n\n/r);
        # Another app.
        TOML
    $server->signal('HUP');
    ok $server->wait_until(sub { run('ps', '-eo', 'args') =~ m{\Q$folder/go\E} }), 'an app is loaded';
    write_users(alice => crypt('fourth', "\$2y\$06\$$salt"));
    ok $server->wait_until(sub { curl('-u', 'alice:third', "$http/perl")->{status} == 401 }), 'the old password is forgotten';
    write_file("$folder/go", q());
    ok $server->wait_until(sub { $server->log_text =~ /the file is applied/ }), 'the file is applied';
    is curl('-u', 'alice:fourth', "$http/perl")->{status}, 200, 'and keeps the new password' for 1 .. 4;
    is curl('-u', 'alice:third',  "$http/perl")->{status}, 401, '... but not the old one' for 1 .. 4;
};

subtest 'a changed file counts when the file of the server has been applied' => sub {
    my $apply = sub { (Test::Oribi::ctl($control, 'apply'))[1] =~ s/\n\z//r };
    is $apply->(), 'nothing differs', 'users have no order';
    write_users(alice => crypt('fifth', "\$2y\$06\$$salt"));
    is $apply->(), 'users: read again', 'all edges have them';
    is curl('-u', 'alice:fourth', "$http/perl")->{status}, 401, 'the old password is forgotten' for 1 .. 4;
    is curl('-u', 'alice:fifth',  "$http/perl")->{status}, 200, 'and the new one counts' for 1 .. 4;
    write_users(alice => '$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0');
    like $apply->(), qr/users[.]htpasswd:1: a hash by apr1/, 'a file that is unusable is refused';
    is curl('-u', 'alice:fifth', "$http/perl")->{status}, 200, 'and changes nothing';
};

subtest 'mistakes are found before the start' => sub {
    my $check = sub ($alice) {
        write_users(alice => $alice);
        return eval { run(Test::Oribi::command(), "check", "-c", "$folder/oribi.toml") } // $@;
    };
    my $text = $check->('{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=');
    like $text, qr/oribi[.]toml:\d+:\d+: htpasswd: \S+users[.]htpasswd:1: a hash by [{]SHA[}].*`htpasswd -B`/, 'a weak hash is one';
    unlike $text, qr/5en6/, 'no part of it is shown';
};

is $server->stop, 0, 'the server ends';
done_testing;
