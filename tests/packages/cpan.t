#!/usr/bin/perl
# Property: the distribution for CPAN installs on a bare Debian, where the checkout does not exist. Needs root, and the Debian packages
# in dist/, which debian.t builds; the library is not compiled again here, which takes some minutes.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::FreshDebian qw(folder passes);
use Test::More;
use Test::Oribi;

my $root = Test::Oribi::root();
chdir $root or die "$root: $!";

is system('packages/cpan/build >&2'), 0, 'the distribution is built';
my ($library) = glob 'dist/debian12/liboribi-dev_*.deb' or die "dist/debian12 has no library: make packages\n";
subtest 'cpanm' => sub { passes(12, folder($library, glob 'dist/Oribi-*.tar.gz'), 'cpan-install.sh') };
done_testing;
