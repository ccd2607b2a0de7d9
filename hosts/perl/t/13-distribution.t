# The files of the distribution: MANIFEST lists them all, and modules have one version and readable documentation.

use strict;
use warnings;
use ExtUtils::Manifest ();
use File::Find         ();
use Pod::Checker       ();
use Oribi;
use Test::More;

{
    local $ExtUtils::Manifest::Quiet = 1;
    my ($missing, $extra) = ExtUtils::Manifest::fullcheck();
    is_deeply $missing, [], 'all that MANIFEST lists is there';
    is_deeply $extra,   [], 'and all that is there is listed';
}

my @modules;
File::Find::find({ no_chdir => 1, wanted => sub { push @modules, $_ if /[.]pm\z/ } }, 'lib');
for my $file (sort @modules) {
    my $checker = Pod::Checker->new(-warnings => 1);
    open my $sink, '>', \my $complaints or die $!;
    $checker->parse_from_file($file, $sink);
    is $checker->num_errors, 0, "$file: documentation" or diag $complaints;
    next if $file =~ m{Oribi/(?:Options|Mold)[.]pm\z};
    open my $handle, '<', $file or die $!;
    like join(q{}, readline $handle), qr/^our \$VERSION = '\Q$Oribi::VERSION\E';$/m, "$file: version";
}

for my $file (sort glob 'src/*.[ch]') {
    open my $handle, '<', $file or die $!;
    my @lines = readline $handle;
    cmp_ok scalar @lines, '<=', 600, "$file is short enough to be read";
    is scalar(grep { length > 129 } @lines), 0, "$file: lines";
}

# With -n and -W, make names every source that includes a header, as if it were new.
open my $makefile, '<', 'Makefile' or die "Makefile: $!";
my ($interface) = join(q{}, readline $makefile) =~ /(\S+\boribi[.]h)\b/;
for my $header ('src/perl_host.h', $interface // 'oribi.h') {
    my $would = join q{}, readpipe "make -n -W $header";
    is_deeply [ grep { index($would, " $_ ") < 0 } glob 'src/*.c' ], [], "$header: all that includes it is compiled anew";
}

done_testing;
