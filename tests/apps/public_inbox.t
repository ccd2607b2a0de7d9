#!/usr/bin/perl
# Property: public-inbox, as Debian packages it, works: it shows letters, also those that arrive while it runs, searches them,
# streams them packed, gives attachments out and lets git clone the archive, and a HUP in between goes unnoticed; straight and
# behind nginx, in threads and processes.

use v5.36;
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/../lib";
use IO::Uncompress::Gunzip qw(gunzip);
use MIME::Base64           qw(encode_base64);
use Test::Command qw(runs write_file);
use Test::Curl;
use Test::More;
use Test::Oribi;
use Test::Proxy;

my $file = random_file(300_000);
my $sent = content_of($file->filename);

# Delivers a letter as a mail server does.
sub deliver ($number, $subject) {
    my $encoded = encode_base64($sent);
    my $letter  = "$ENV{HOME}/letter";
    write_file($letter, <<~"LETTER");
        From: A user <user\@inbox.test>
        To: test\@inbox.test
        Subject: $subject
        Message-ID: <$number\@inbox.test>
        Date: Sun, 1 Nov 2026 12:00:0$number +0000
        MIME-Version: 1.0
        Content-Type: multipart/mixed; boundary=between

        --between
        Content-Type: text/plain

        This is letter $number.
        --between
        Content-Type: application/octet-stream; name="random.bin"
        Content-Disposition: attachment; filename="random.bin"
        Content-Transfer-Encoding: base64

        $encoded
        --between--
        LETTER
    local $ENV{ORIGINAL_RECIPIENT} = 'test@inbox.test';
    return runs("letter $number is delivered", { input => $letter }, qw(public-inbox-mda --no-precheck));
}

# A home with an inbox, and an app that shows it.
sub new_home () {
    my $home = File::Temp->newdir;
    local $ENV{HOME} = "$home";
    runs('an inbox is made', qw(public-inbox-init -V2 test), "$home/inbox", 'http://inbox.test/test', 'test@inbox.test');
    runs('without a filter for unwanted mail', qw(git config -f), "$home/.public-inbox/config", qw(publicinboxmda.spamcheck none));
    write_file("$home/app.psgi", <<~'PERL');
        use v5.36;
        use Plack::Builder;
        use PublicInbox::WWW;

        PublicInbox::WWW->preload;
        my $www = PublicInbox::WWW->new;
        builder { enable 'Head'; sub { $www->call(@_) } };
        PERL
    return $home;
}

sub shows_letter ($url, $number, $subject) {
    like body_of("$url/test/$number\@inbox.test/"), qr/\Q$subject\E.*This is letter $number[.]/s, "letter $number is shown";
    ok body_of("$url/test/$number\@inbox.test/2-random.bin") eq $sent, 'its attachment comes byte by byte';
    my $packed = body_of("$url/test/$number\@inbox.test/t.mbox.gz");
    ok gunzip(\$packed => \my $mbox), 'and the whole as a packed stream';
    like $mbox, qr/\AFrom .*^Message-ID: <$number\@inbox[.]test>.*^--between--$/ms, 'which is complete';
    return;
}

# SERVER gets a HUP in the middle of it.
sub works ($url, $server) {
    like body_of("$url/test/"), qr/Printer is on fire/, 'the inbox lists a letter';
    shows_letter($url, 1, 'Printer is on fire');
    like body_of("$url/test/?q=fire"), qr/Printer is on fire/, 'it is found';
    like body_of("$url/test/new.atom"), qr/Printer is on fire/, 'and in the feed';
    is curl("$url/other/")->{status}, 404, 'another inbox is not there';

    $server->signal('HUP');
    ok $server->wait_until(sub { $server->log_text =~ /generation 2 has taken over/ }), 'after a HUP';
    deliver(2, 'It is out');
    shows_letter($url, 2, 'It is out');
    runs('git clones the archive', qw(git clone --quiet --mirror), "$url/test/0", "$ENV{HOME}/clone.git");
    runs('with the letter', qw(git --git-dir), "$ENV{HOME}/clone.git", qw(show HEAD:m));
    return;
}

# Ends SERVER, which has complained of nothing.
sub ends_quietly ($server) {
    is $server->stop, 0, 'TERM ends it with status 0';
    is_deeply [$server->complaints], [], 'and it has complained of nothing';
    return;
}

subtest 'straight, in threads' => sub {
    my $home = new_home();
    local $ENV{HOME} = "$home";
    deliver(1, 'Printer is on fire');
    my $server = Test::Oribi->start("$home/app.psgi", '--threads', 2, '--workers', 1);
    works($server->url, $server);
    ends_quietly($server);
};

subtest 'behind nginx on a Unix socket, in processes' => sub {
    my $home = new_home();
    local $ENV{HOME} = "$home";
    deliver(1, 'Printer is on fire');
    my $server = Test::Oribi->start_on_socket("$home/app.psgi", '--workers', 2);
    my $proxy  = Test::Proxy->before($server);
    works($proxy->url, $server);
    is $proxy->stop('QUIT'), 0, 'the proxy ends';
    ends_quietly($server);
};

done_testing;
