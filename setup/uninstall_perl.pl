#!/usr/bin/perl
# uninstall_perl.pl [DESTDIR]: removes what `make install-perl` installed, by the list of files that it left.

use v5.36;
use Config;
use File::Basename qw(dirname);

my $root = shift // q();
my $list = "$root$Config{installsitearch}/auto/Oribi/.packlist";
exit if !-e $list;
open my $lines, '<', $list or die "$list: $!\n";
my @files = map { s/ [^ ]+=.*//r } map { chomp; $_ } readline $lines;
close $lines;

my %folders;
for my $file ((map { index($_, "$root/") == 0 ? $_ : "$root$_" } @files), $list) {
    unlink $file or -e $file and die "$file: $!\n";
    $folders{ dirname($file) } = 1;
}
# The folders of the modules are also removed, if nothing else is in them.
for my $folder (sort { length $b <=> length $a } keys %folders) {
    while ($folder =~ m{/Oribi|/auto|/Plack}) {
        rmdir $folder or last;
        $folder = dirname($folder);
    }
}
