#!/usr/bin/perl
# Property: the tarball serves Lua on a bare Debian 12, where the checkout does not exist, and its install-hosts builds the hosts
# of Perl and Ruby there. The one for 64-bit ARM serves Lua on an emulated processor. Needs root, and the tarballs in dist/, which
# `make tarball` builds, in a quarter of an hour.
#
# ORIBI_TEST_TARBALL names other processors than the default "x86_64 aarch64".

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use File::Path qw(make_path);
use File::Temp ();
use Test::FreePort qw(free_port);
use Test::Command qw(run write_file);
use Test::Curl;
use Test::FreshDebian qw(folder passes);
use Test::More;
use Test::Oribi;

my $root = Test::Oribi::root();
chdir $root or die "$root: $!";
my %test = (
    x86_64  => sub ($tarball) { passes(12, folder($tarball), 'tarball-install.sh') },
    aarch64 => \&serves_emulated,
);

for my $processor (split q( ), $ENV{ORIBI_TEST_TARBALL} // 'x86_64 aarch64') {
    my $test = $test{$processor} or die "ORIBI_TEST_TARBALL: there is no test for $processor\n";
    my ($tarball, @others) = glob "dist/oribi-*-$processor-linux-gnu.tar.gz";
    die "dist has no tarball, or several, for $processor: make tarball\n" if !$tarball || @others;
    subtest $processor => $test, $tarball;
}
done_testing;

# qemu runs the programs, with the glibc of Debian's cross compilers. It has a thread of its own beside those of the program,
# which forks only while it has a single one; so qemu shows it another folder for /proc/self/task, with one entry. qemu has neither
# io_uring nor filters of system calls.
sub serves_emulated ($tarball) {
    my $folder = File::Temp->newdir;
    run('tar', '-xf', $tarball, '-C', "$folder");
    my ($unpacked) = glob "$folder/oribi-*";
    make_path("$folder/system/proc/self/task/1");
    symlink '/usr/aarch64-linux-gnu/lib', "$folder/system/lib" or die "symlink: $!";
    my @qemu = (qw(qemu-aarch64-static -L), "$folder/system");
    write_file("$folder/app.lua", 'return function(request) return "Hello from " .. _VERSION end');
    for (['oribi', 'Lua 5.1'], ['oribi-lua5.4', 'Lua 5.4']) {
        my ($name, $lua) = @$_;
        my @program = (@qemu, "$unpacked/bin/$name");
        like run(@program, '--version'), qr/\Aoribi \d/, "$name --version";
        like run(@program, 'check', "$folder/app.lua"), qr/^language +Lua: Lua/m, "$name check";
        for my $edge (qw(on off)) {
            my $port   = free_port();
            my $server = Test::Oribi->start_at($port, @program, "$folder/app.lua", '--edge', $edge);
            is body_of($server->url . q(/)), "Hello from $lua", "$name serves with --edge $edge";
            is $server->stop, 0, 'it stops';
            is_deeply [$server->complaints], [], 'without a complaint';
        }
    }
    return;
}
