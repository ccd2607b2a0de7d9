#!/usr/bin/perl
# Property: programs that an app runs get the environment that the app gives them, and the content of the client. git clones
# from and pushes to its own CGI program, and gitweb shows the pushed commits, with processes and with threads.

use v5.36;
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::Command qw(runs write_file);
use Test::Curl;
use Test::More;
use Test::Oribi;
use Test::Proxy;

my $file = random_file(3 << 20);
my $sent = content_of($file->filename);

# Neither the user's nor the machine's settings count.
local @ENV{qw(GIT_CONFIG_GLOBAL GIT_CONFIG_NOSYSTEM GIT_TERMINAL_PROMPT)} = ('/dev/null', 1, 0);
delete local @ENV{ grep { /\AGIT_(?!CONFIG|TERMINAL)/ } keys %ENV };
my @author = ('-c', 'user.name=A user', '-c', 'user.email=user@git.test');

# git(FOLDER, ARGUMENT...): a test that is passed if git ends well there.
sub git ($folder, @arguments) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return runs("git @arguments", { folder => $folder }, 'git', @author, @arguments);
}

# A folder with the repository shared.git, into which everyone may push, and with an app that serves it.
sub new_place () {
    my $place = File::Temp->newdir;
    git("$place", qw(init --quiet --bare --initial-branch main shared.git));
    git("$place/shared.git", qw(config http.receivepack true));
    write_file("$place/gitweb.conf", qq{\$projectroot = "$place";\n1;\n});
    write_file("$place/app.psgi", <<~"PERL");
        use v5.36;
        use Plack::App::WrapCGI;
        use Plack::Builder;

        \@ENV{qw(GIT_PROJECT_ROOT GIT_HTTP_EXPORT_ALL GITWEB_CONFIG)} = ('$place', 1, '$place/gitweb.conf');
        builder {
            mount '/git' => Plack::App::WrapCGI->new(script => '/usr/lib/git-core/git-http-backend', execute => 1)->to_app;
            mount '/web' => Plack::App::WrapCGI->new(script => '/usr/lib/cgi-bin/gitweb.cgi',        execute => 1)->to_app;
        };
        PERL
    return $place;
}

# Pushes to and clones from the repository below URL, which is in PLACE.
sub works ($url, $place) {
    git("$place", 'clone', '--quiet', "$url/git/shared.git", 'first') or return;
    git("$place/first", qw(checkout --quiet -b main));
    write_file("$place/first/random.bin", $sent);
    git("$place/first", qw(add random.bin));
    git("$place/first", qw(commit --quiet -m), 'Three megabytes of noise');
    # Larger content is uploaded in chunks.
    git("$place/first", qw(-c http.postBuffer=100000 push --quiet origin main));

    git("$place", 'clone', '--quiet', "$url/git/shared.git", 'second');
    ok content_of("$place/second/random.bin") eq $sent, 'what was pushed is cloned';
    write_file("$place/second/note", "A note\n");
    git("$place/second", qw(add note));
    git("$place/second", qw(commit --quiet -m), 'Add a note');
    git("$place/second", qw(push --quiet origin main));
    git("$place/first", qw(pull --quiet origin main));
    is content_of("$place/first/note"), "A note\n", 'and what was pushed after that is pulled';

    like body_of("$url/web?p=shared.git;a=summary"), qr/Three megabytes of noise/, 'gitweb shows it';
    ok body_of("$url/web?p=shared.git;a=blob_plain;f=random.bin") eq $sent, 'and gives the file out byte by byte';
    return;
}

# Ends SERVER, which has complained of nothing.
sub ends_quietly ($server) {
    is $server->stop, 0, 'TERM ends it with status 0';
    is_deeply [$server->complaints], [], 'and it has complained of nothing';
    return;
}

for my $options (['--workers', 2], ['--threads', 2, '--workers', 1]) {
    subtest "straight, @{$options}" => sub {
        my $place  = new_place();
        my $server = Test::Oribi->start("$place/app.psgi", @{$options});
        works($server->url, $place);
        ends_quietly($server);
    };
}

subtest 'behind nginx on a Unix socket' => sub {
    my $place  = new_place();
    my $server = Test::Oribi->start_on_socket("$place/app.psgi", '--workers', 2);
    my $proxy  = Test::Proxy->before($server);
    works($proxy->url, $place);
    is $proxy->stop('QUIT'), 0, 'the proxy ends';
    ends_quietly($server);
};

done_testing;
