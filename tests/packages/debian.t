#!/usr/bin/perl
# Property: the packages for Debian install on a bare one, where the checkout does not exist, serve apps of each language, by hand
# and by units of systemd, are upgraded under load, and leave nothing when they are removed. Needs root, and the packages in dist/.
#
# ORIBI_TEST_DEBIAN names the releases, as in "12 13"; by default, only the packages for Debian 12 are tested.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::FreshDebian qw(folder passes);
use Test::More;
use Test::Oribi;

my $root = Test::Oribi::root();
chdir $root or die "$root: $!";

for my $release (split q( ), $ENV{ORIBI_TEST_DEBIAN} // '12') {
    my @packages = glob "dist/debian$release/*.deb" or die "dist/debian$release has no packages: make packages\n";
    my $folder   = folder(@packages);
    subtest "Debian $release" => sub { passes($release, $folder, 'debian-install.sh') };
    subtest "Debian $release with systemd" => sub { passes($release, $folder, 'debian-systemd.sh') };
}
done_testing;
