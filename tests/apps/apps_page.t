#!/usr/bin/perl
# Property: the examples of the pages about oribi.toml are true: docs/apps.md, routes.md, filters.md and operating.md. The first file is
# that of examples/several, the others pass `oribi check`, and each command of the sessions of a page, one after the other, prints what
# the page says. Each page begins with the folder as it is.
#
# A block of TOML whose first line is a comment with a path is written there; others are checked with the apps that they lack. In
# the output of a command, `...` stands for anything, a line of `...` at the end for any further lines, and the ids of processes
# and times for others.

use v5.36;
use File::Basename qw(dirname);
use File::Path     qw(make_path);
use File::Temp     ();
use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::FreePort qw(free_port);
use Test::Command  qw(run);
use Test::Files    qw(content_of write_file);
use Test::More;
use Test::Oribi;

my $root   = Test::Oribi::root();
my $folder = File::Temp->newdir;
my $site;
my ($port, $upstream) = (free_port(), free_port());
$upstream = free_port() while $upstream == $port;
my @beside;
my ($server, $files, $commands);

# The commands of the page find `oribi`, and its server, by these.
make_path("$folder/bin");
my $command = Test::Oribi::command();
write_file("$folder/bin/oribi", <<"END");
#!/bin/sh
# `oribi check` would show the variable.
[ "\$1" = check ] || export ORIBI_CONTROL='$folder/control.sock'
exec '$command' "\$@"
END
chmod 0755, "$folder/bin/oribi" or die "$folder/bin/oribi: $!";
local $ENV{PATH} = "$folder/bin:$ENV{PATH}";
delete local @ENV{qw(ORIBI_CONTROL PORT HOST WEB_CONCURRENCY SHOP_NAME DATABASE_URL)};
# Commands on ports of this machine, which others use too, have another one.
sub moved ($text) { return $text =~ s/\b5000\b/$port/gr =~ s/\b3000\b/$upstream/gr }

# The pages, with the numbers of files and commands that each has at least.
my %least_of = (apps => [5, 10], routes => [2, 20], filters => [5, 20], operating => [0, 30]);
page($_, @{ $least_of{$_} }) for sort keys %least_of;
done_testing;

sub page ($name, $least_files, $least_commands) {
    $site = "$folder/$name";
    run('cp', '-r', "$root/examples/several", $site);
    write_file("$site/oribi.toml", moved(content_of("$site/oribi.toml")));
    ($files, $commands) = (0, 0);
    # The page's blocks of code, each with its language.
    my @blocks = content_of("$root/docs/$name.md") =~ /^```(\w*)\n(.*?)^```$/gms;
    while (my ($language, $block) = splice @blocks, 0, 2) {
        if    ($language eq 'toml') { file($block) }
        elsif ($block =~ /\A\$ /)   { session($block) }
        else                        { fail("a block of code that is not tested: $block") }
    }
    cmp_ok $files,    '>=', $least_files,    "$name.md has files";
    cmp_ok $commands, '>=', $least_commands, "$name.md has commands";
    return;
}

# A file of the page.
sub file ($text) {
    $files++;
    my ($path, $rest) = $text =~ /\A# (\S+[.]toml)\n(.*)\z/s;
    if (($path // q()) eq 'oribi.toml') {
        my $example = content_of("$root/examples/several/oribi.toml") =~ s/\A(?:#.*\n|\n)+//r;
        return is $rest, $example, 'the first file is that of examples/several';
    }
    make_path(dirname("$site/" . ($path // q())));
    return write_file("$site/$path", moved($text)) if defined $path;
    # The apps that the block does not have, and the files of all.
    my %has = map { $_ => 1 } $text =~ /^\[app[.](\S+)\]/gm;
    $text .= qq{\n[app.$_]\nfile = "$_.lua"\n} for grep { !$has{$_}++ } ($text =~ /^app = "(\w+)"/gm, keys %has ? () : 'other');
    for my $app ($text =~ /^file = "(.+)"/gm) {
        next if -e "$site/$app";
        make_path(dirname("$site/$app"));
        write_file("$site/$app", $app =~ /psgi\z/ ? 'sub { [200, [], []] }' : q{return function() return '' end});
    }
    write_file("$site/part.toml", moved($text));
    my $checked = output('oribi check --changed -c part.toml; echo "status $?"');
    my ($first) = $text =~ /\A(.*)/;
    like $checked, qr/^status 0$/m, "a part of a file: $first" or diag $text;
    return;
}

# The commands of a session, each with its output.
sub session ($text) {
    my (undef, @parts) = split /^\$ /m, moved($text);
    for my $part (@parts) {
        my ($command, $expected) = split /\n/, $part, 2;
        $commands++;
        if    ($command =~ /\Acd /)     { next }
        elsif ($command =~ s/\s*&\z//) { $command =~ /\Aoribi\b/ ? begin($command) : beside($command) }
        else                            { prints($command, $expected) }
    }
    return;
}

# Starts another server, until the test ends.
sub beside ($command) {
    push @beside, Test::Oribi->run_on_port($upstream, 'bash', '-c', "cd '$site' && exec $command");
    return;
}

# Starts the server of the page.
sub begin ($command) {
    $server = Test::Oribi->run_on_port($port, 'bash', '-c', "cd '$site' && exec $command");
    my $serves = sub { $server->log_text =~ /Oribi listening on/ };
    ok $server->wait_until($serves), $command or diag $server->log_text;
    return;
}

# A command that only reads is repeated until its output is that of the page: orders such as `stop` return before they are done.
sub prints ($command, $expected) {
    my $pattern = pattern($expected);
    my $reads   = $command =~ /\A(?:curl|oribi ctl (?:status|workers))\b/;
    my $kept    = $command =~ m{\Aoribi ctl (?:apply|upgrade)\z} ? $server->connection : undef;
    answers($kept, 'a connection before') if $kept;
    my $got     = output($command);
    answers($kept, 'the same connection afterwards') if $kept;
    if ($reads && $server) { $server->wait_until(sub { $got =~ $pattern || do { $got = output($command); $got =~ $pattern } }) }
    like $got, $pattern, $command or diag $server ? $server->log_text : q();
    return if $command ne 'oribi ctl stop';
    ok $server->wait_until(sub { defined $server->exit_status }), 'the server ends';
    is $server->exit_status, 0, 'with status 0';
    undef $server;
    return;
}

# No connection closes.
sub answers ($connection, $name) {
    print {$connection} "GET /blog HTTP/1.1\r\nHost: localhost\r\n\r\n";
    my $answer = q();
    1 while $answer !~ /PATH_INFO=\n/ && sysread $connection, $answer, 4096, length $answer;
    return like $answer, qr{\AHTTP/1[.]1 200 .*The blog}s, $name;
}

sub pattern ($expected) {
    my $more = $expected =~ s/^[.]{3}\n\z//m;
    my $text = join '\s+', map { quotemeta } split /[ ]+/, $expected;
    # The ids of processes, times, and generations: an app that has failed is loaded again and again.
    $text =~ s/\bgeneration\\s\+\K\d+/\\d+/g;
    $text =~ s/\bpid\\s\+\d+/pid\\s+\\d+/g;
    $text =~ s/\b\d{4,}(?=\\s)/\\d+/g if $expected =~ /^PROCESS/;
    # Any worker of an app may get a request.
    $text =~ s/\\s\+\K\d+(?=\\\n|\z)/\\d+/g if $expected =~ /^PROCESS/;
    $text =~ s/\d+\\[.]\d+\\s\+s\b/\\d+(?:[.]\\d+)?\\s+\\w+/g;
    $text =~ s/(?:\\[.]){3}/.*/g;
    return $more ? qr/\A$text/ : qr/\A$text\z/;
}

sub output ($command) {
    # Fields end with CR LF.
    return run({ folder => $site }, 'bash', '-c', "$command; true") =~ s/\r$//gmr;
}
