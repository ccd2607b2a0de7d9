package Test::Command;

# Runs other programs for a test.

use v5.36;
use Exporter   qw(import);
use File::Temp ();
use Test::Files qw(content_of write_file);
use Test::More ();

our @EXPORT_OK = qw(run runs write_file);

# run(COMMAND...): runs a command and returns its output. If the status is not 0, dies with the output. The first argument may
# be { folder => where to run the command, input => the file for its standard input }.
sub run (@command) {
    my ($written, $status) = _run(@command);
    die "status $status:\n$written" if $status;
    return $written;
}

# runs(NAME, COMMAND...): a test that is passed if the command ends with status 0. Returns whether it is.
sub runs ($name, @command) {
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my ($written, $status) = _run(@command);
    Test::More::ok(!$status, $name) and return 1;
    Test::More::diag("status $status:\n$written");
    return 0;
}

sub _run (@command) {
    my %options = ref $command[0] ? %{ shift @command } : ();
    my $folder  = $options{folder} // q(.);
    my $input   = $options{input}  // '/dev/null';
    my $log     = File::Temp->new;
    my $pid     = fork // die "fork: $!";
    if ($pid == 0) {
        open STDIN,  '<', $input      or die "$input: $!";
        open STDOUT, '>', "$log"      or die "$log: $!";
        open STDERR, '>&', \*STDOUT   or die "$log: $!";
        chdir $folder                 or die "$folder: $!";
        exec { $command[0] } @command or die "$command[0]: $!";
    }
    waitpid $pid, 0;
    return (content_of("$log"), $?);
}

1;
