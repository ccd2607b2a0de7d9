#!/usr/bin/perl
# Property: each example of the pages docs/from-*.md is true: `oribi import` makes the oribi.toml of the page out of the source of the
# page, lists what is not in it on standard error, and `oribi check` accepts the file with the apps that it names.

use v5.36;
use File::Basename qw(basename dirname);
use File::Path     qw(make_path);
use File::Temp     ();
use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::Command qw(run);
use Test::Files   qw(content_of write_file);
use Test::More;
use Test::Oribi;

# An app in each language, for `oribi check`.
use constant APPS => {
    pl   => "sub { [200, [], ['hello']] }\n",
    psgi => "sub { [200, [], ['hello']] }\n",
    ru   => "run ->(_env) { [200, {}, ['hello']] }\n",
};

my $root    = Test::Oribi::root();
my $command = Test::Oribi::command();
delete local @ENV{qw(ORIBI_CONTROL PORT HOST WEB_CONCURRENCY PLACK_ENV RACK_ENV RAILS_ENV)};

my @pages = glob "$root/docs/from-*.md";
cmp_ok @pages, '>=', 7, 'there are pages';
page($_) for @pages;
done_testing;

sub page ($path) {
    my $name   = basename($path);
    my $folder = File::Temp->newdir;
    my $text   = content_of($path);
    my %file   = $text =~ /^`([\w.\/]+)`:\n\n```\w+\n(.*?)^```$/gms;
    for my $path (keys %file) {
        make_path(dirname("$folder/$path"));
        write_file("$folder/$path", $file{$path});
    }
    my @examples = $text =~ /^\$ oribi (import [^\n]*)\n.*?^```toml\n(.*?)^```$/gms or return fail("$name has an example");
    while (my ($line, $expected) = splice @examples, 0, 2) {
        example("$name: $line", $folder, $line, $expected);
    }
    return;
}

sub example ($name, $folder, $line, $expected) {
    my $made = run({ folder => $folder }, 'bash', '-c', "'$command' $line 2>errors >oribi.toml; echo \$?");
    is $made, "0\n", $name or diag content_of("$folder/errors");
    is content_of("$folder/oribi.toml"), $expected, "$name: the file is that of the page";

    my $errors = content_of("$folder/errors");
    my ($lost) = $expected =~ /^# Not carried over.*\n((?:# - .*\n)+)/m;
    for my $note (($lost // q()) =~ /^# - (.*)$/gm) {
        my $text = $note =~ s/\Aline \d+: //r;
        like $errors, qr/\Q$text\E$/m, "$name: standard error has: " . substr $text, 0, 40;
    }
    return accepts($name, $folder, $expected);
}

# Checks the file with the apps that it names, where they may be made: below the folder of the test, and without certificates.
sub accepts ($name, $folder, $text) {
    my @apps = $text =~ /^file = "(.*)"$/gm;
    return if !@apps || $text =~ m{^(?:file = "/|ssl-cert|user = |address = "\S*/run/)}m;
    for my $app (@apps) {
        make_path(dirname("$folder/$app"));
        my ($ending) = $app =~ /(\w+)\z/;
        write_file("$folder/$app", APPS->{$ending});
    }
    make_path("$folder/public");
    my $checked = run({ folder => $folder }, 'bash', '-c', "'$command' check -c oribi.toml --changed 2>&1; echo \"status \$?\"");
    like $checked, qr/^status 0$/m, "$name: oribi check accepts it" or diag $checked;
    return;
}
