package Test::RailsApp;

# The Rails app of tests/apps/rails, as tests/lib/rails_app.rb generates it, for a test in Perl.

use v5.36;
use File::Temp ();
use JSON::PP   ();
use Test::Command qw(run);
use Test::Oribi;

my $describe = <<~'RUBY';
    environment = RailsApp::ENVIRONMENT.merge(RailsApp.database_in(ARGV[0]), "RAILS_ENV" => "production")
    scripts = Gem::Specification.find_by_name("actioncable").full_gem_path + "/app/assets/javascripts"
    puts JSON.generate({ folder: RailsApp.folder, environment:, scripts: })
    RUBY

# Generates the app, and makes a database for it.
sub new ($class) {
    my $database = File::Temp->newdir;
    my @ruby = ($ENV{RUBY} // '/usr/bin/ruby', '-I' . Test::Oribi::root() . '/tests/lib', map { "-r$_" } qw(json server_process rails_app));
    my $described = run(@ruby, '-e', $describe, "$database");
    return bless { JSON::PP::decode_json($described)->%*, database => $database }, $class;
}

# A command that runs it, with more variables such as `NAME=VALUE`, to which options can be added.
sub command ($self, @variables) {
    my %environment = $self->{environment}->%*;
    my @unset = map { ('--unset', $_) } grep { !defined $environment{$_} } sort keys %environment;
    my @set   = map { "$_=$environment{$_}" } grep { defined $environment{$_} } sort keys %environment;
    return ('env', '--chdir', $self->{folder}, @unset, @set, @variables, Test::Oribi::command(), 'config.ru');
}

# The folder of Action Cable's scripts for pages.
sub scripts ($self) { return $self->{scripts} }

1;
