package Test::RequestTracker;

# Request Tracker 5 as Debian's package has installed it, with a database and files of its own.

use v5.36;
use File::Temp ();
use Test::Command qw(run write_file);
use Test::Curl    qw(content_of);

# The program that is RT's server if it is run, and an app if it is loaded.
use constant PROGRAM => '/usr/share/request-tracker5/libexec/rt-server';

# Test::RequestTracker->new(PORT, SCHEME): a new Request Tracker, whose address for users has this port and scheme. Its
# administrator is "root", with the password "password".
sub new ($class, $port, $scheme = 'http') {
    my $self = bless { folder => File::Temp->newdir }, $class;
    my $folder = $self->{folder};
    mkdir "$folder/$_" or die "$folder/$_: $!" for qw(var mason sessions);
    write_file("$folder/RT_SiteConfig.pm", _configuration($folder, $port, $scheme));

    # The first one's is everyone's: nothing in it depends on the address.
    state $database = $self->_new_database;
    write_file("$folder/rt.sqlite3", $database);
    return $self;
}

# The content of a database that RT has set up.
sub _new_database ($self) {
    my %environment = $self->environment;
    local @ENV{ keys %environment } = values %environment;
    run(qw(rt-setup-database-5 --action init --skip-create));
    return content_of("$self->{folder}/rt.sqlite3");
}

# The settings that lead RT to its configuration.
sub environment ($self) {
    return (RT_SITE_CONFIG => "$self->{folder}/RT_SiteConfig.pm", RT_SITE_CONFIG_DIR => "$self->{folder}/none");
}

sub _configuration ($folder, $port, $scheme) {
    return <<~"PERL";
        Set(\$rtname, 'rt.test');
        Set(\$Organization, 'rt.test');
        Set(\$WebDomain, '127.0.0.1');
        Set(\$WebPort, $port);
        Set(\$WebBaseURL, '$scheme://127.0.0.1:$port');
        Set(\$DatabaseType, 'SQLite');
        Set(\$DatabaseName, '$folder/rt.sqlite3');
        Set(\$MailCommand, 'testfile');
        Set(\$HTMLFormatter, 'core');
        Set(\$LogToSyslog, undef);
        Set(\$LogToSTDERR, 'warning');
        \$RT::VarPath         = '$folder/var';
        \$RT::MasonDataDir    = '$folder/mason';
        \$RT::MasonSessionDir = '$folder/sessions';
        1;
        PERL
}

1;
