package Test::Curl;

# Runs curl for a test.

use v5.36;
use Exporter   qw(import);
use File::Temp ();
use POSIX      ();
use Test::Files qw(content_of);

our @EXPORT = qw(curl body_of header_of random_file content_of);

# curl(ARGUMENT...): a hash with
#   exit     the exit status of curl: 0 for an answer, whatever its status
#   status   of the last answer
#   connects how many connections were opened
#   head     all heads that were received, interim ones included
#   body     all content that was received
sub curl (@arguments) {
    my ($head, $body) = (File::Temp->new, File::Temp->new);
    my @command = (
        'curl', '--silent', '--max-time', 60, '--dump-header', $head->filename, '--write-out', '%{stderr}%{http_code} %{num_connects}\n',
        @arguments,
    );
    my $report = File::Temp->new;
    my $pid    = fork // die "fork: $!";
    if ($pid == 0) {
        open STDOUT, '>', $body->filename   or POSIX::_exit(126);
        open STDERR, '>', $report->filename or POSIX::_exit(126);
        exec { $command[0] } @command or POSIX::_exit(127);
    }
    waitpid $pid, 0;
    my $exit   = $? >> 8;
    my @report = map { [split] } split /\n/, content_of($report->filename);
    my $connects = 0;
    $connects += $_->[1] for @report;
    return {
        exit     => $exit,
        status   => @report ? $report[-1][0] : '000',
        connects => $connects,
        head     => content_of($head->filename),
        body     => content_of($body->filename),
    };
}

# The content of the answer to curl(ARGUMENT...).
sub body_of (@arguments) { return curl(@arguments)->{body} }

# The value of the field NAME in an answer, undef if it has none.
sub header_of ($answer, $name) { return $answer->{head} =~ /^\Q$name\E:[ ]*(.*?)\r?$/mi ? $1 : undef }

# A temporary file of SIZE bytes that no encoding or truncation leaves as they are.
sub random_file ($size) {
    my $file = File::Temp->new;
    open my $random, '<:raw', '/dev/urandom' or die "/dev/urandom: $!";
    my $bytes = q();
    read $random, $bytes, $size;
    binmode $file;
    print {$file} $bytes;
    $file->flush;
    return $file;
}

1;
