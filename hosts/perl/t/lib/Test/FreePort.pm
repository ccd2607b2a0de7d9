package Test::FreePort;

# Ports for servers of tests.

use strict;
use warnings;
use Exporter   qw(import);
use Fcntl      qw(LOCK_EX LOCK_NB);
use File::Spec ();
use Net::EmptyPort ();

our @EXPORT_OK = qw(free_port);

my ($owner, $last) = (0);

# The locks of this process.
my @locks;

# A port of 127.0.0.1 without a listener, outside of the range from which the kernel chooses: there a server of another test could
# get it before that of the caller does. Each process begins at another place, and locks its ports until it ends.
sub free_port {
    if ($owner != $$ || $last > 31_000) {
        ($owner, $last) = ($$, 12_000 + $$ * 37 % 18_000);
    }
    do { $last = Net::EmptyPort::empty_port($last) } until lock_port($last);
    return $last;
}

# Whether no other process has the port. Tests in Ruby lock the same files.
sub lock_port {
    my ($port) = @_;
    my $folder = File::Spec->catdir(File::Spec->tmpdir, "oribi-test-ports-$>");
    mkdir $folder;
    open my $lock, '>>', "$folder/$port" or die "$folder/$port: $!\n";
    push @locks, $lock;
    return flock $lock, LOCK_EX | LOCK_NB;
}

1;
