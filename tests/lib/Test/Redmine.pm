package Test::Redmine;

# Redmine as Debian's packages have installed it, copied to a folder of its own with a database, files and logs there. Its
# administrator is "admin" with the password "admin", which Redmine wants changed when he first logs in.

use v5.36;
use File::Copy qw(copy);
use File::Temp ();
use Test::Command qw(run write_file);
use Test::Curl    qw(content_of);

# Test::Redmine->new: a new one.
sub new ($class) {
    my $self = bless { folder => File::Temp->newdir }, $class;
    my $root = $self->root;
    run('cp', '-r', '--no-dereference', '/usr/share/redmine', $root);
    # Links to the places of the one Redmine that Debian's package sets up for the machine.
    unlink "$root/instances", "$root/Gemfile.lock", "$root/config/database.yml";
    my $place = "$root/instances/default";
    for my $name ("$root/instances", $place, map { "$place/$_" } qw(config files log tmp)) {
        mkdir $name or die "$name: $!";
    }
    write_file("$place/config/database.yml", "production:\n  adapter: sqlite3\n  database: $self->{folder}/redmine.sqlite3\n");
    write_file("$place/config/secret_key.txt", 'only a test' x 8);
    # ImageMagick by itself wants Helvetica. This font is part of Request Tracker.
    write_file("$place/config/configuration.yml", "default:\n  minimagick_font_path: /usr/share/fonts/truetype/droid/DroidSansFallbackFull.ttf\n");
    # Debian's Gemfile takes the database's gem from the configuration of the machine's Redmine, if that is set up.
    write_file("$root/Gemfile", content_of("$root/Gemfile") =~ s{/usr/share/redmine/}{$root/}gr);

    # The first one's is everyone's.
    state $database = $self->_new_database;
    my $own = "$self->{folder}/redmine.sqlite3";
    if (!-e $own) {
        copy("$database", $own) or die "$own: $!";
    }
    return $self;
}

# The folder of the application.
sub root ($self) { return "$self->{folder}/redmine" }

# Has the server send the files that users have attached.
sub leave_files_to_server ($self) {
    write_file($self->root . '/config/additional_environment.rb', qq{config.action_dispatch.x_sendfile_header = "X-Sendfile"\n});
    return;
}

# The folder of these files.
sub files ($self) { return $self->root . '/instances/default/files' }

# The content of its log.
sub log_text ($self) { return content_of($self->root . '/instances/default/log/production.log') }

# A file with a database that Redmine has set up.
sub _new_database ($self) {
    local @ENV{qw(RAILS_ENV REDMINE_LANG SCHEMA)} = ('production', 'en', '/dev/null');
    # In a process of its own, since it knows no column that was added after it has asked for them.
    for my $task ('db:migrate', 'redmine:load_default_data') {
        run({ folder => $self->root }, qw(bundle exec rake), $task);
    }
    my $kept = File::Temp->new;
    copy("$self->{folder}/redmine.sqlite3", "$kept") or die "$kept: $!";
    return $kept;
}

1;
