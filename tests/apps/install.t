#!/usr/bin/perl
# Property: what `make install` puts somewhere works from there without the checkout, and `make uninstall` leaves nothing.

use v5.36;
use Config;
use FindBin;
use lib "$FindBin::Bin/../lib";
use File::Find ();
use File::Temp ();
use Test::FreePort qw(free_port);
use Test::Curl;
use Test::More;
use Test::Oribi;

# This may run below `make test`, whose flags are not for this make.
delete @ENV{qw(MAKEFLAGS MFLAGS MAKELEVEL)};
chdir Test::Oribi::root() or die "chdir: $!";
my $folder = File::Temp->newdir;

sub make ($target) {
    my $built = Test::Oribi::built();
    return system "make $target BUILT=$built PREFIX=/opt/oribi DESTDIR=$folder >$folder/make.log 2>&1";
}

sub files () {
    my @files;
    File::Find::find({ no_chdir => 1, wanted => sub { push @files, $_ if !-d && !/make[.]log\z/ } }, "$folder");
    return @files;
}

is make('install'), 0, 'make install' or diag content_of("$folder/make.log");
my $installed = "$folder/opt/oribi";
ok -x "$installed/bin/oribi", 'the command is there';
ok -f "$installed/share/doc/oribi/README.md", 'and what there is to read';

# Nothing but the installed files: neither the folder nor the environment leads to the checkout.
chdir '/' or die "chdir: $!";
delete @ENV{qw(PERL5LIB ORIBI_PERL_LIB RUBYLIB ORIBI_RUBY_LIB)};

sub answers ($what, $port, @command) {
    my $server = Test::Oribi->run_on_port($port, @command);
    is curl($server->url . '/')->{status}, 200, "$what answers";
    is $server->stop, 0, 'and ends';
    return;
}

for my $app (qw(hello.psgi hello.ru hello.lua)) {
    my $port = free_port();
    my $path = "$installed/share/doc/oribi/examples/$app";
    answers("the installed server with $app", $port, "$installed/bin/oribi", $path, '--host', '127.0.0.1', '--port', $port);
}

for my $version (qw(jit 5.4)) {
    my $port = free_port();
    my $path = "$installed/share/doc/oribi/examples/hello.lua";
    answers("the installed server with Lua $version", $port, "$installed/bin/oribi", $path, '--lua', $version, '--port', $port);
}
like qx("$installed/bin/luafcgid" --help), qr/luafcgid/, 'the name luafcgid leads to the command';

chdir Test::Oribi::root() or die "chdir: $!";
is make('install-gem'), 0, 'make install-gem' or diag content_of("$folder/make.log");
my ($gems) = map { m{\A(.*)/specifications/oribi-[^/]*[.]gemspec\z} } files();
{
    my $port = free_port();
    local $ENV{GEM_PATH} = "$gems:";
    local $ENV{RACK_ENV} = 'production';
    chdir '/' or die "chdir: $!";
    answers('rackup with the installed gem', $port, qw(rackup -s oribi -o 127.0.0.1 -p), $port, "$installed/share/doc/oribi/examples/hello.ru");
}
is scalar(grep { m{/gems/oribi-[^/]*/README[.]md\z} } files()), 1, 'the gem says what it is';

chdir Test::Oribi::root() or die "chdir: $!";
is make('install-perl'), 0, 'make install-perl' or diag content_of("$folder/make.log");
{
    my ($modules, $objects) = map { "$folder$_" } @Config{qw(installsitelib installsitearch)};
    my $port = free_port();
    local $ENV{PERL5LIB} = "$modules:$objects";
    chdir '/' or die "chdir: $!";
    answers('plackup with the installed modules', $port, qw(plackup -s Oribi --host 127.0.0.1 --port), $port, "$installed/share/doc/oribi/examples/hello.psgi");
}

chdir Test::Oribi::root() or die "chdir: $!";
is make('uninstall'), 0, 'make uninstall' or diag content_of("$folder/make.log");
is_deeply [files()], [], 'nothing is left';

done_testing;
