#!/usr/bin/perl
# Property: Request Tracker 5, as Debian packages it, works: its users log in, read, write, attach and download files, send mail and
# log out, and a HUP in between goes unnoticed; straight and behind nginx, from oribi and by RT's own server program, in processes
# and threads.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::FreePort qw(free_port);
use Test::Browser;
use Test::Curl qw(content_of random_file);
use Test::More;
use Test::Oribi;
use Test::Proxy;
use Test::RequestTracker;

my $file = random_file(300_000);
my $sent = content_of($file->filename);

# The work of a user; in the middle of it SERVER gets a HUP, which is done when its log has REPLACED.
sub works ($url, $server, $replaced) {
    my $browser = Test::Browser->new($url);
    $browser->visit('/');
    $browser->shows(qr/name="pass"/, 'a stranger is asked for a name and a password');
    $browser->send_form(user => 'root', pass => 'wrong');
    $browser->shows(qr/incorrect/, 'a wrong password is refused');
    $browser->send_form(user => 'root', pass => 'password');
    $browser->shows(qr/Logged in as/, 'the right one is not');

    $browser->visit('/Ticket/Create.html?Queue=1');
    $browser->send_form(
        Subject => "Printer is on fire \x{263a}", Content => 'Smoke everywhere', Requestors => 'user@rt.test',
        Attach => $file->filename, button => 'SubmitTicket',
    );
    $browser->shows(qr/Ticket 1 created in queue/, 'a ticket is created');
    $browser->shows(qr/Printer is on fire \x{263a}/, 'and shown');
    my $attachment = $browser->find_link(url_regex => qr{/Ticket/Attachment/})->url_abs;
    ok $browser->get($attachment)->content eq $sent, 'its attachment comes back byte by byte';

    $server->signal('HUP');
    ok $server->wait_until(sub { $server->log_text =~ $replaced }), 'after a HUP';
    $browser->visit('/Ticket/Display.html?id=1');
    $browser->shows(qr/Logged in as/, 'the session goes on');
    ok $browser->get($attachment)->content eq $sent, 'and the attachment is still there';

    $browser->visit('/Ticket/Update.html?id=1&Action=Respond');
    $browser->send_form(UpdateContent => 'Use water', button => 'SubmitTicket');
    $browser->shows(qr/Correspondence added/, 'an answer is taken');
    # The page fetches that by a script.
    $browser->visit('/Helpers/TicketHistory?id=1');
    $browser->shows(qr/Use water/, 'and shown');
    $browser->visit('/Search/Simple.html?q=fire');
    $browser->shows(qr/Printer is on fire/, 'and the ticket is found');
    for my $style ($browser->find_all_links(tag => 'link', url_regex => qr/[.]css/)) {
        ok length($browser->get($style->url_abs)->content) > 1000, $style->url . ' is there';
    }

    ok deliver_letter($url), 'a letter is delivered';
    $browser->visit('/Ticket/Display.html?id=2');
    $browser->shows(qr/A letter/, 'and is a ticket');

    $browser->visit('/NoAuth/Logout.html');
    $browser->visit('/Ticket/Display.html?id=1');
    $browser->shows(qr/name="pass"/, 'whoever has logged out is a stranger');
    is_deeply [$browser->strays], [], 'no redirect has led elsewhere';
    return;
}

# Hands a letter to the RT at URL, as a mail server does.
sub deliver_letter ($url) {
    open my $gate, q(|-), 'rt-mailgate-5', '--queue', 'General', '--action', 'correspond', '--url', $url or die "rt-mailgate-5: $!";
    print {$gate} "From: root\@localhost\nTo: rt\@rt.test\nSubject: A letter\nMessage-ID: <1\@rt.test>\n\nBy mail\n";
    return close $gate;
}

# Ends SERVER, and checks that it has complained only of the wrong password. When an interpreter ends, Perl destroys the
# remaining objects in no particular order, so a destructor of the app may look for a logger that is gone; such a complaint is
# permitted.
sub ends_quietly ($server) {
    is $server->stop, 0, 'TERM ends it with status 0';
    my $expected = qr/FAILED LOGIN for root|[(]in cleanup[)] .* during global destruction[.]\z/;
    is_deeply [grep { !/$expected/ } $server->complaints], [], 'and it has complained of nothing';
    return;
}

# Starts a server for RT by calling START.
sub started ($rt, $start) {
    my %environment = $rt->environment;
    local @ENV{ keys %environment } = values %environment;
    my $server = $start->();
    # RT's files go when the server goes.
    $server->{rt} = $rt;
    return $server;
}

sub start_on ($rt, $port, @command) {
    return started($rt, sub { Test::Oribi->run_on_port($port, @command, '--host', '127.0.0.1', '--port', $port) });
}

sub start_at ($port, @command) {
    my $rt = Test::RequestTracker->new($port, Test::Oribi::scheme());
    return started($rt, sub { Test::Oribi->start_at($port, @command) });
}

my @app     = (Test::Oribi::command(), '--language', 'perl', Test::RequestTracker::PROGRAM);
my $blib    = Test::Oribi::root() . '/hosts/perl/blib';
my @program = ($^X, "-Mblib=$blib", Test::RequestTracker::PROGRAM, '-s', 'Oribi');

subtest 'straight, in processes' => sub {
    my $port   = free_port();
    my $server = start_at($port, @app, '--workers', 2);
    works($server->url, $server, qr/generation 2 has taken over/);
    ends_quietly($server);
};

subtest 'behind nginx on a Unix socket, in threads' => sub {
    my $port   = free_port();
    my $start  = sub { Test::Oribi->start_on_socket(@app[1 .. $#app], '--threads', 2, '--workers', 1) };
    my $server = started(Test::RequestTracker->new($port), $start);
    my $proxy  = Test::Proxy->before($server, $port);
    works($proxy->url, $server, qr/generation 2 has taken over/);
    is $proxy->stop('QUIT'), 0, 'the proxy ends';
    ends_quietly($server);
};

subtest "behind nginx, by RT's server program" => sub {
    my ($port, $behind) = (free_port(), free_port());
    $behind = free_port() while $behind == $port;
    my $server = start_on(Test::RequestTracker->new($port), $behind, @program, '--workers', 2);
    my $proxy  = Test::Proxy->before($server, $port);
    works($proxy->url, $server, qr/all workers have been replaced/);
    is $proxy->stop('QUIT'), 0, 'the proxy ends';
    ends_quietly($server);
};

done_testing;
