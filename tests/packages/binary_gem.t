#!/usr/bin/perl
# Property: the binary gem for x86-64 is installed by RubyGems on a bare Debian 13, without a compiler, and serves by its command with
# each Ruby that it is for. That for 64-bit ARM serves on an emulated processor with each of its Rubies. Needs root, and the gems in
# dist/, which `make binary-gem` makes.

use v5.36;
use Cwd qw(realpath);
use FindBin;
use lib "$FindBin::Bin/../lib";
use File::Path qw(make_path);
use File::Temp ();
use Test::Command qw(run write_file);
use Test::Curl;
use Test::FreePort qw(free_port);
use Test::FreshDebian qw(folder passes);
use Test::More;
use Test::Oribi;

my $root = Test::Oribi::root();
chdir $root or die "$root: $!";
my $rubies = realpath('target/tools/rubies') or die "there are no Rubies: make setup-gem\n";

subtest 'x86-64' => \&installs, gem_for('x86_64');
subtest "64-bit ARM, Ruby $_" => \&serves_emulated, $_, gem_for('aarch64') for map {m{/([\d.]+)-arm64\z}} glob "$rubies/*";
done_testing;

sub gem_for ($processor) {
    my ($gem, @others) = glob "dist/oribi-*-$processor-linux-gnu.gem";
    die "dist has no gem, or several, for $processor: make binary-gem\n" if !$gem || @others;
    return $gem;
}

sub installs ($gem) {
    my $folder = folder($gem);
    write_file("$folder/rubies", join "\n", glob "$rubies/*-amd64");
    local $ENV{ORIBI_FRESH_TOOLS} = $rubies;
    passes(13, $folder, 'binary-gem-install.sh');
    return;
}

# By qemu, as in tarball.t: with one entry in what it shows for /proc/self/task.
sub serves_emulated ($version, $gem) {
    my $folder = File::Temp->newdir;
    run('cp', '-R', "$rubies/$version-arm64", "$folder/ruby");
    make_path("$folder/ruby/proc/self/task/1", "$folder/oribi");
    run('tar', '-xf', $gem, '-C', "$folder", 'data.tar.gz');
    run('tar', '-xf', "$folder/data.tar.gz", '-C', "$folder/oribi");
    my $usr   = "$folder/ruby/usr";
    my @paths = (
        "$folder/oribi/lib", "$usr/lib/ruby/$version.0", "$usr/lib/aarch64-linux-gnu/ruby/$version.0",
        "$usr/lib/ruby/vendor_ruby", glob "$usr/share/rubygems-integration/all/gems/rack-*/lib",
    );
    my @ruby = (qw(qemu-aarch64-static -L), "$folder/ruby", '-E', 'RUBYLIB=' . join(q(:), @paths), "$usr/bin/ruby$version");
    my ($release) = $gem =~ /oribi-([\d.]+)-/;
    is run(@ruby, '-r', 'oribi', '-e', 'print RUBY_PLATFORM, " ", Oribi::VERSION'), "aarch64-linux-gnu $release", 'it is loaded';
    my $port = free_port();
    my $code = 'require "oribi"; require "rack"; run = ->(_env) { [200, {}, ["Hello from Ruby #{RUBY_VERSION}"]] }; '
        . 'exit Oribi.run(run, listen: ["127.0.0.1:" + ARGV[0]])';
    my $server = Test::Oribi->run_on_port($port, @ruby, '-e', $code, $port);
    like body_of($server->url . q(/)), qr/\AHello from Ruby \Q$version\E/, 'it serves';
    is $server->stop, 0, 'it stops';
    is_deeply [$server->complaints], [], 'without a complaint';
    return;
}
