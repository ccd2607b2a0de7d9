package Test::FreshDebian;

# Runs scripts of tests/packages/programs in a bare Debian, in which the checkout does not exist. Needs root.

use v5.36;
use Carp     qw(croak);
use Exporter qw(import);
use File::Copy qw(copy);
use File::Temp ();
use Test::More;
use Test::Oribi;

our @EXPORT_OK = qw(folder passes);

# folder(FILE...): a new folder with these files and with the scripts.
sub folder (@files) {
    my $folder = File::Temp->newdir;
    copy($_, "$folder") or croak "$_: $!" for @files, glob Test::Oribi::root() . '/tests/packages/programs/*';
    return $folder;
}

# passes(RELEASE, FOLDER, SCRIPT): runs a script that prints its results as TAP, and makes them results of this test. FOLDER is its
# /mnt.
sub passes ($release, $folder, $script) {
    my @command = (Test::Oribi::root() . '/setup/fresh-debian-run.sh', $release, "$folder", 'sh', "/mnt/$script");
    open my $output, '-|', @command or croak "$command[0]: $!";
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

1;
