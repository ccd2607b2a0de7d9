#!/usr/bin/perl
# Property: LemonLDAP::NG, as Debian packages it, works: its users are led from an application to the portal, log in, are led back
# and log out, its administrators read, change and upload its configuration, and a HUP in between goes unnoticed; straight from oribi
# and behind nginx, by HTTP and by FastCGI, with the app and the server program of the packages.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use JSON::PP qw(decode_json encode_json);
use MIME::Base64 qw(encode_base64);
use Test::FreePort qw(free_port);
use Test::Browser;
use Test::Command qw(run);
use Test::Curl qw(content_of random_file);
use Test::LemonLDAP;
use Test::More;
use Test::Oribi;
use Test::Proxy;
use Test::WebServer::Nginx;

my $random = encode_base64(content_of(random_file(300_000)->filename), q());

# Does the work of users and of an administrator at the three hosts at PORT. In the middle of it, SERVER gets a HUP; the reload
# is complete when its log has REPLACED.
sub works ($port, $server, $replaced, $scheme = 'http') {
    my ($test, $auth, $manager) = map { "$scheme://$_.example.com:$port" } qw(test1 auth manager);
    my $browser = Test::Browser->new($test, $auth, $manager);
    $browser->visit('/page?x=1');
    like $browser->uri, qr{\A\Q$auth\E/}, 'a stranger is led to the portal';
    $browser->send_form(user => 'dwho', password => 'wrong');
    $browser->shows(qr/trmsg="5"/, 'a wrong password is refused');
    $browser->send_form(user => 'dwho', password => 'dwho');
    is $browser->uri, "$test/page?x=1", 'the right one leads back';
    $browser->shows(qr{\AYou are dwho at /page\?x=1\n\z}, 'to the application, which knows the user');

    $browser->get("$manager/");
    $browser->shows(qr/LemonLDAP::NG Manager/, 'an administrator is let into the manager');
    my $configuration = decode_json($browser->get("$manager/confs/1?full=1")->content);
    is $configuration->{cfgNum}, 1, 'and reads the configuration';
    $configuration->{customPluginsParams} = { random => $random };
    my @content = ('Content-Type' => 'application/json', Content => encode_json($configuration));
    my $answer  = decode_json($browser->post("$manager/confs/raw", @content)->content);
    is $answer->{result}, 1, 'which can be uploaded with another 400 KB';

    $server->signal('HUP');
    ok $server->wait_until(sub { $server->log_text =~ $replaced }), 'after a HUP';
    $browser->visit('/again');
    $browser->shows(qr{\AYou are dwho at /again\n\z}, 'the session goes on');
    $configuration = decode_json($browser->get("$manager/confs/2?full=1")->content);
    ok $configuration->{customPluginsParams}{random} eq $random, 'and what was uploaded is there';

    my $other = Test::Browser->new($auth, $test);
    $other->visit('/');
    $other->send_form(user => 'rtyler', password => 'rtyler');
    $other->shows(qr/Connected as.*rtyler/s, 'somebody else logs in');
    is $other->status_of("$manager/"), 403, 'but is no administrator';
    is $other->status_of("$test/administrators"), 403, 'nor let into the places for these';

    $browser->get("$auth/?logout=1");
    $browser->visit('/');
    like $browser->uri, qr{\A\Q$auth\E/}, 'whoever has logged out is a stranger';
    is_deeply [$browser->strays, $other->strays], [], 'no redirect has led elsewhere';
    return;
}

# Ends SERVER, which has only logged errors about requests that it should refuse.
sub ends_quietly ($server) {
    is $server->stop, 0, 'TERM ends it with status 0';
    is_deeply [grep { !/demonstration mode|Bad password for dwho|rtyler/ } $server->complaints], [], 'and it has complained of nothing else';
    return;
}

# Starts a server for LL by calling START.
sub started ($ll, $start) {
    my %environment = $ll->environment;
    local @ENV{ keys %environment } = values %environment;
    my $server = $start->();
    # Its files go when the server goes.
    $server->{lemonldap} = $ll;
    return $server;
}

subtest 'as an app' => sub {
    my $port   = free_port();
    my $scheme = Test::Oribi::scheme();
    my $ll     = Test::LemonLDAP->new($port, $scheme);
    my $server = started($ll, sub { Test::Oribi->start_at($port, Test::Oribi::command(), $ll->app, '--workers', 2) });
    works($port, $server, qr/generation 2 has taken over/, $scheme);
    ends_quietly($server);
};

subtest 'as an app behind nginx' => sub {
    my $port   = free_port();
    my $ll     = Test::LemonLDAP->new($port);
    my $server = started($ll, sub { Test::Oribi->start_on_socket($ll->app, '--workers', 2) });
    my $proxy  = Test::Proxy->before($server, $port);
    works($port, $server, qr/generation 2 has taken over/);
    is $proxy->stop('QUIT'), 0, 'the proxy ends';
    ends_quietly($server);
};

# The result of works(), with nginx in front of SERVER at PORT.
sub works_behind_nginx ($port, $ll, $server, $replaced) {
    my $hosts = $ll->nginx_hosts($server->upstream);
    my $nginx = Test::WebServer::Nginx->configured(Test::WebServer::Nginx->wrapped($hosts), $port);
    works($port, $server, $replaced);
    is $nginx->stop('QUIT'), 0, 'nginx ends';
    ends_quietly($server);
    return;
}

subtest 'by FastCGI behind nginx' => sub {
    my $port   = free_port();
    my $ll     = Test::LemonLDAP->new($port);
    my $app    = Test::LemonLDAP::SHARE . '/llng-server/llng-server.psgi';
    my $server = started($ll, sub { Test::Oribi->start_fastcgi_on_socket($app, '--workers', 2) });
    works_behind_nginx($port, $ll, $server, qr/generation 2 has taken over/);
};

subtest "by LemonLDAP::NG's server program behind nginx" => sub {
    my $port   = free_port();
    my $ll     = Test::LemonLDAP->new($port);
    my $run    = $ll->run_folder;
    # It gives up root's rights, and its new user must still be able to read Oribi's modules.
    run('cp', '-r', Test::Oribi::root() . '/hosts/perl/blib', $run);
    my @user    = $> == 0 ? qw(-u nobody -g nogroup) : ();
    my @command = ($^X, "-I$run/blib/lib", "-I$run/blib/arch", '/usr/sbin/llng-fastcgi-server', '--foreground', '-e', 'Oribi',
        '-n', 3, @user, '-p', "$run/llng.pid", '-s', "fcgi+unix:$run/llng.sock?mode=666");
    my $server = started($ll, sub { Test::Oribi->run_on_socket("$run/llng.sock", @command) });
    ok $server->wait_until(sub { $server->log_text =~ /[(]workers: 3,/ }), 'it has as many workers as it was asked for'
        or diag $server->log_text;
    works_behind_nginx($port, $ll, $server, qr/all workers have been replaced/);
};

done_testing;
