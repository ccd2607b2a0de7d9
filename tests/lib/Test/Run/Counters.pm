package Test::Run::Counters;

# The formats in which each kind of test runner reports the numbers of tests that passed, failed and were skipped, and the
# failed ones.

use v5.36;
use Carp       qw(croak);
use Exporter   qw(import);
use File::Find ();
use Test::Files qw(content_of);

our @EXPORT = qw(count failed_tests has_crashed reasons);

my %COUNTERS = (
    # The step is one check.
    one => sub ($status, @) { return $status == 0 ? (1, 0, 0) : (0, 1, 0) },
    # Each test program ends with "test result: ok. 3 passed; 0 failed; 0 ignored; ...".
    cargo => sub ($status, $log, $) {
        my @counts = (0, 0, 0);
        while ($log =~ /^test result: \w+[.] (\d+) passed; (\d+) failed; (\d+) ignored/gm) {
            $counts[0] += $1;
            $counts[1] += $2;
            $counts[2] += $3;
        }
        return @counts;
    },
    # A folder holds the output of the test scripts. Failures of TODO tests count as skips.
    tap => sub ($status, $log, $folder) {
        my @counts = (0, 0, 0);
        my $read = sub {
            return if !-f;
            for (split /\n/, content_of($_)) {
                # A subtest that died before its first test also has a plan of none: it has failed.
                if    (/^\s*(?:1[.][.]0|(?:not )?ok)\b.*#\s*(?:skip|todo)\b/i) { $counts[2]++ }
                elsif (/^ok\b/)                                                { $counts[0]++ }
                elsif (/^not ok\b/)                                            { $counts[1]++ }
            }
        };
        File::Find::find({ wanted => $read, no_chdir => 1 }, $folder) if -d $folder;
        return @counts;
    },
    # A run ends with "3 runs, 8 assertions, 1 failures, 0 errors, 0 skips".
    minitest => sub ($status, $log, $) {
        my @counts = (0, 0, 0);
        while ($log =~ /^(\d+) runs, \d+ assertions, (\d+) failures, (\d+) errors, (\d+) skips/gm) {
            $counts[0] += $1 - $2 - $3 - $4;
            $counts[1] += $2 + $3;
            $counts[2] += $4;
        }
        return @counts;
    },
);

# Of a runner that ended with STATUS: how many tests passed, failed and were skipped, as LOG says, or the files in the folder TAP.
sub count ($counter, $status, $log, $tap) {
    my $of = $COUNTERS{$counter} // croak "no counter is called $counter";
    return $of->($status, content_of($log), $tap);
}

# The names of the tests that failed; for prove, of the scripts.
sub failed_tests ($counter, $log) {
    my $text = content_of($log);
    my %names;
    if ($counter eq 'cargo') {
        for my $list ($text =~ /^failures:\n((?:    \S+\n)+)/gm) {
            @names{ split q{ }, $list } = ();
        }
    }
    elsif ($counter eq 'tap')      { @names{ $text =~ /^(\S+[.]t) +\(Wstat: /gm } = () }
    elsif ($counter eq 'minitest') { @names{ $text =~ /^([A-Z][A-Za-z0-9]*#test_[a-z0-9_]+)/gm } = () }
    my @names = sort keys %names;
    return @names;
}

# Whether a test program of cargo ended without naming the failed tests.
sub has_crashed ($counter, $log) {
    return 0 if $counter ne 'cargo';
    my $text = content_of($log);
    my ($targets) = $text =~ /^error: (\d+) targets? failed:$/m;
    my $said = () = $text =~ /^test result: FAILED/gm;
    return $said != ($targets // ($text =~ /^error: test failed/m ? 1 : 0));
}

# The first tests that failed, as cargo, prove and minitest name them, and their messages; without such, the last lines.
sub reasons ($log) {
    my @lines = split /\n/, content_of($log);
    my $name  = qr/^test .* FAILED$|^ *# +Failed test|^[A-Z][A-Za-z0-9]*#test_|\(Wstat: |^tests\/run: /;
    my $begin = qr/ panicked at |^[A-Z][A-Za-z0-9]*#test_| +# +got: | +# +expected: |^# Looks like |^ *# Child | died|Error: /;
    my @names = grep { /$name/ } @lines;
    splice @names, 6;
    @names = @lines > 3 ? @lines[-3 .. -1] : @lines if !@names;
    my (@said, $more);
    for (@lines) {
        $more = 8 if /$begin/;
        push @said, $_ if $more && $more-- > 0;
    }
    splice @said, 40;
    return map { substr $_, 0, 400 } @names, @said;
}

1;
