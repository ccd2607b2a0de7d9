#!/usr/bin/perl
# Property: the source gem installs on a bare Debian 12, where the checkout does not exist, beside a library that is there already,
# and serves apps in all ways that a gem gives. Needs root.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use File::Temp ();
use Test::FreshDebian qw(passes);
use Test::More;
use Test::Oribi;

my $root = Test::Oribi::root();
chdir $root or die "$root: $!";

is system('packages/gem/build >&2'), 0, 'the gem is built';
# In the folder of the builds, so that links do for copies.
my $folder = File::Temp->newdir(DIR => "$root/target");
my $built  = "$root/target/" . Test::Oribi::built();
mkdir "$folder/lib" or die "$folder/lib: $!";
link "$built/$_", "$folder/lib/$_" or die "$built/$_: $!" for qw(liboribi.a oribi);
my ($gem) = grep { !/linux/ } glob 'dist/oribi-*.gem';
is system('cp', $gem, 'tests/packages/programs/taps.sh', 'tests/packages/programs/gem-install.sh', "$folder"), 0, 'nothing else is needed';

subtest 'gem install' => sub { passes(12, $folder, 'gem-install.sh') };
done_testing;
