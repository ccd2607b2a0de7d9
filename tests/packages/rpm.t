#!/usr/bin/perl
# Property: the packages for Enterprise Linux need nothing that it does not have, install by rpm, serve Lua, by hand and by units of
# systemd, replace running servers when they are upgraded, and leave only configuration when they are removed. Needs root, and the
# packages in dist/.
#
# No Enterprise Linux is to be had where this runs: rpm installs into a bare Debian, without looking at dependencies, which are
# compared with a list here.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::Command qw(run);
use Test::FreshDebian qw(folder passes);
use Test::More;
use Test::Oribi;

my $root = Test::Oribi::root();
chdir $root or die "$root: $!";

# The libraries of Enterprise Linux 9 with their newest versions, its shell, and what its rpm understands.
my %NEWEST = (GLIBC => '2.34', GCC => '11.0.0');
my @KNOWN  = (
    qr{\A/(?:bin/sh|usr/bin/pkg-config)\z}, qr/\Artld\(GNU_HASH\)\z/, qr/\Arpmlib\((?:CompressedFileNames|FileDigests|PayloadFilesHavePrefix|PayloadIsXz)\) /,
    qr/\A(?:shadow-utils|libevent-devel|pkgconfig|config\(oribi\) = \S+|oribi = \S+)\z/, qr/\Alibevent_core-2[.]1[.]so[.]7\(\)\(64bit\)\z/,
    qr/\A(?:lib(?:c|m|dl|rt|util|pthread|gcc_s)|ld-linux-x86-64)[.]so[.]\d\((?:(?<family>[A-Z]+)_(?<version>[\d.]+))?\)\(64bit\)\z/,
);

my @packages = glob 'dist/el9/*.rpm' or die "dist/el9 has no packages: make packages\n";
is @packages, 2, 'there are two packages';
for my $package (@packages) {
    my @strange = grep { !is_known($_) } split /\n/, run('rpm', '--query', '--package', '--requires', $package);
    is "@strange", q(), "$package needs only what Enterprise Linux 9 has";
}
my $folder = folder(@packages);
subtest 'rpm'         => sub { passes(12, $folder, 'rpm-install.sh') };
subtest 'and systemd' => sub { passes(12, $folder, 'rpm-systemd.sh') };
done_testing;

sub is_known ($capability) {
    for my $known (@KNOWN) {
        next if $capability !~ $known;
        return !$+{family} || is_at_most($+{version}, $NEWEST{ $+{family} });
    }
    return 0;
}

sub is_at_most ($version, $newest) { return !defined $newest ? 0 : version->parse("v$version") <= version->parse("v$newest") }
