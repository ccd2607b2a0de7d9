#!/usr/bin/perl
# Property: what `make install` puts somewhere works from there without the checkout, and `make uninstall` leaves nothing.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use File::Find ();
use File::Temp ();
use Net::EmptyPort qw(empty_port);
use Test::Curl;
use Test::More;
use Test::Oribi;

# This may run below `make test`, whose flags are not for this make.
delete @ENV{qw(MAKEFLAGS MFLAGS MAKELEVEL)};
chdir Test::Oribi::root() or die "chdir: $!";
my $folder = File::Temp->newdir;

sub make ($target) {
    return system "make $target PREFIX=/opt/oribi DESTDIR=$folder >$folder/make.log 2>&1";
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

my $port = empty_port();
# Nothing but the installed files: neither the folder nor the environment leads to the checkout.
chdir '/' or die "chdir: $!";
delete @ENV{qw(PERL5LIB ORIBI_PERL_LIB)};
my $server = Test::Oribi->run_on_port(
    $port, "$installed/bin/oribi", "$installed/share/doc/oribi/examples/hello.psgi", '--host', '127.0.0.1', '--port', $port,
);
is curl($server->url . '/')->{status}, 200, 'the installed server answers';
is $server->stop, 0, 'and ends';

chdir Test::Oribi::root() or die "chdir: $!";
is make('uninstall'), 0, 'make uninstall' or diag content_of("$folder/make.log");
is_deeply [files()], [], 'nothing is left';

done_testing;
