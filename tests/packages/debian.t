#!/usr/bin/perl
# Property: the packages for Debian install on a bare one, where the checkout does not exist, serve apps of each language, by hand
# and by units of systemd, are upgraded under load, and leave nothing when they are removed. Needs root.
#
# ORIBI_TEST_DEBIAN names the releases, as in "12 13"; by default, only those of Debian 12 are built and installed.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use File::Temp ();
use Test::More;
use Test::Oribi;

my $root = Test::Oribi::root();
chdir $root or die "$root: $!";

for my $release (split q( ), $ENV{ORIBI_TEST_DEBIAN} // '12') {
    # Symbols for debuggers take as long as all else.
    local $ENV{ORIBI_PACKAGE_OPTIONS} = 'noautodbgsym';
    is system("packages/debian/build $release >&2"), 0, "packages for Debian $release are built, without errors by lintian";
    my $folder = File::Temp->newdir;
    is system('cp', glob("dist/debian$release/*.deb"), glob('tests/packages/programs/*'), "$folder"), 0, 'nothing else is needed';
    subtest "Debian $release" => sub { passes($release, $folder, 'debian-install.sh') };
    subtest "Debian $release with systemd" => sub { passes($release, $folder, 'debian-systemd.sh') };
}
done_testing;

# Runs a script that prints its results, in a bare Debian.
sub passes ($release, $folder, $script) {
    open my $output, '-|', 'setup/fresh-debian-run.sh', $release, $folder, 'sh', "/mnt/$script" or die "fresh-debian-run.sh: $!";
    my $planned;
    while (my $line = readline $output) {
        if    ($line =~ /\A(not )?ok \d+ - (.*)/) { ok !$1, $2 }
        elsif ($line =~ /\A1[.][.]\d+/)           { $planned = 1 }
        else                                      { diag $line =~ s/\A# //r =~ s/\n\z//r }
    }
    close $output or diag "it ended with status $?";
    ok $planned, 'the script came to its end';
    return;
}
