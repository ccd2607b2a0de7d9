#!/usr/bin/perl
# Property: Redmine, as Debian packages it, works: its users log in, read, write, attach and download files, get the output of
# other programs that Redmine runs, and log out, and a HUP in between goes unnoticed; straight from oribi and behind nginx, in
# threads and processes.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::Browser;
use Test::Curl qw(content_of random_file);
use Test::More;
use Test::Oribi;
use Test::Proxy;
use Test::Redmine;

# A busy machine may need longer than half a minute to load Redmine, and the first requests wait for that.
my @patience = ('--queue-timeout', 120);

my $file = random_file(300_000);
my $sent = content_of($file->filename);

# Does the work of a user at URL; in the middle of it, SERVER gets a HUP. A request for the bytes from 1000 to 1999 of a file
# must get PART, which is the whole file if Redmine sends the file itself.
sub works ($url, $server, $part) {
    my $browser = Test::Browser->new($url);
    $browser->visit('/my/page');
    $browser->send_form(username => 'admin', password => 'wrong');
    $browser->shows(qr/Invalid user or password/, 'a wrong password is refused');
    $browser->send_form(username => 'admin', password => 'admin');
    $browser->shows(qr/Logged in as/, 'the right one is not');
    $browser->send_form(password => 'admin', new_password => 'other secret', new_password_confirmation => 'other secret');
    $browser->shows(qr/Password was successfully updated/, 'and is changed');

    $browser->visit('/projects/new');
    $browser->send_form('project[name]' => 'Fire', 'project[identifier]' => 'fire', button => 'commit');
    $browser->shows(qr/Successful creation/, 'a project is created');
    $browser->visit('/projects/fire/issues/new');
    $browser->send_form(
        'issue[subject]' => "Printer is on fire \x{263a}", 'issue[description]' => 'Smoke everywhere',
        'attachments[dummy][file]' => $file->filename, button => 'commit',
    );
    $browser->shows(qr/Issue .*#1.* created/, 'and an issue');
    $browser->shows(qr/Printer is on fire \x{263a}/, 'which is shown');
    my $attachment = $browser->find_link(url_regex => qr{/attachments/download/})->url_abs;
    ok $browser->get($attachment)->content eq $sent, 'its attachment comes back byte by byte';
    $browser->add_header(Range => 'bytes=1000-1999');
    ok $browser->get($attachment)->content eq $part, 'and so does what is given to those who ask for a part of it';
    $browser->delete_header('Range');

    $server->signal('HUP');
    ok $server->wait_until(sub { $server->log_text =~ /generation 2 has taken over/ }), 'after a HUP';
    $browser->visit('/issues/1/edit');
    $browser->shows(qr/Logged in as/, 'the session goes on');
    ok $browser->get($attachment)->content eq $sent, 'and the attachment is still there';

    $browser->visit('/issues/1/edit');
    $browser->send_form('issue[notes]' => 'Use water', button => 'commit');
    $browser->shows(qr/Successful update.*Use water/s, 'a note is taken and shown');
    # A script of the page does that with files that are dropped on it.
    my ($token) = $browser->content =~ /<meta name="csrf-token" content="([^"]+)"/;
    my @content = ('X-CSRF-Token' => $token, 'Content-Type' => 'application/octet-stream', Content => $sent);
    like $browser->post("$url/uploads.js?attachment_id=1&filename=dropped.bin", @content)->content, qr/'2[.][0-9a-f]+'/, 'a file is dropped';
    $browser->visit('/search?q=fire');
    $browser->shows(qr/Bug #1 .*Printer is on/, 'the issue is found');
    like $browser->visit('/issues/1.pdf')->content, qr/\A%PDF-.*%%EOF\s*\z/s, 'made a PDF';
    like $browser->visit('/projects/fire/issues/gantt.png')->content, qr/\A\x89PNG\r\n.*IEND/s, 'and drawn by another program';

    $browser->post("$url/logout", Content => { authenticity_token => $token });
    $browser->visit('/my/page');
    $browser->shows(qr/name="password"/, 'whoever has logged out is a stranger');
    is_deeply [$browser->strays], [], 'no redirect has led elsewhere';
    return;
}

# Ends SERVER; neither it nor REDMINE has complained.
sub ends_quietly ($server, $redmine) {
    is $server->stop, 0, 'TERM ends it with status 0';
    is_deeply [$server->complaints], [], 'and it has complained of nothing';
    is_deeply [grep { /\A[EF],/ } split /\n/, $redmine->log_text], [], 'nor has Redmine';
    return;
}

subtest 'straight, in threads, with files sent by the server' => sub {
    my $redmine = Test::Redmine->new;
    $redmine->leave_files_to_server;
    my @options = (@patience, '--threads', 3, '--workers', 1, '--sendfile-root', $redmine->files);
    my $server  = Test::Oribi->start($redmine->root . '/config.ru', @options);
    works($server->url, $server, substr $sent, 1000, 1000);
    ends_quietly($server, $redmine);
};

subtest 'behind nginx on a Unix socket, in processes' => sub {
    my $redmine = Test::Redmine->new;
    my $server  = Test::Oribi->start_on_socket($redmine->root . '/config.ru', @patience, '--workers', 2);
    my $proxy   = Test::Proxy->before($server);
    works($proxy->url, $server, $sent);
    is $proxy->stop('QUIT'), 0, 'the proxy ends';
    ends_quietly($server, $redmine);
};

done_testing;
