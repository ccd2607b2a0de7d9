package Test::Run::Step;

# A step of tests/run: a line of tests/steps. It runs its command, keeps the output in target/test, and counts the tests.

use v5.36;
use Carp        qw(croak);
use File::Path  qw(remove_tree);
use Time::HiRes qw(time);
use Test::Run::Counters;
use Test::Files qw(append_file content_of write_file);

# Test::Run::Step->all(FILE, LOGS): the steps in the table FILE, whose logs belong into the folder LOGS.
sub all ($class, $file, $logs) {
    my @steps;
    for (split /\n/, content_of($file)) {
        next if /\A\s*(?:#|\z)/;
        if (/\A\s+(\S.*)/) { $steps[-1]{command} .= " $1"; next }
        my ($name, $row, $counter, $limit, $sets, $command) = split q{ }, $_, 6;
        defined $command or croak "$file: a step has six columns: $_";
        my $beside = $row =~ s/[+]\z//;
        push @steps, bless {
            name => $name, row => $row, beside => $beside, counter => $counter, limit => $limit,
            sets => { map { $_ => 1 } split /,/, $sets }, command => $command, logs => $logs, log => "$logs/$name.log",
        }, $class;
    }
    return @steps;
}

sub name    ($self) { return $self->{name} }
sub row     ($self) { return $self->{row} }
sub beside  ($self) { return $self->{beside} }
sub command ($self) { return $self->{command} }
sub counter ($self) { return $self->{counter} }
sub log_file ($self) { return $self->{log} }

# Whether a set of steps has this one: `all`, or one that the table names.
sub is_in ($self, $set) {
    return $set eq 'all' ? !grep { $self->{sets}{$_} } qw(check-only by-name) : $self->{sets}{$set} || $self->{sets}{"$set-only"};
}

# Runs the command, shows and keeps its output, and keeps the counts of its tests for `result`.
sub run ($self) {
    my $name = $self->{name};
    say "\n== $name";
    my ($begin, $cpu) = (time, _cpu());
    my $status = $self->_execute($self->{command}, $self->{log}, "tee $self->{log}");
    if ($status == 124 || $status == 137) {
        # cargo and minitest announce tests before they run them.
        my @last = grep { /^ +Running |over 60 seconds/ } split /\n/, content_of($self->{log});
        splice @last, 0, -3 if @last > 3;
        my $line = "tests/run: $name took longer than $self->{limit} seconds, in: @last\n" =~ tr/ //sr;
        append_file($self->{log}, $line);
        print $line;
    }
    my ($passed, $failed, $skipped) = count($self->{counter}, $status, $self->{log}, "$self->{logs}/$name.tap");
    # A runner that failed without a failed test broke down: that is one failure.
    $failed = 1 if $status != 0 && $failed == 0;
    # A runner that found no test at all has proved nothing.
    if ($passed + $failed == 0) {
        $failed = 1;
        append_file($self->{log}, "tests/run: $name ran no test\n");
    }
    $self->keep($passed, $failed, $skipped, int(time - $begin + 0.5), int(_cpu() - $cpu + 0.5));
    return;
}

# Runs one or more of the tests again, and returns whether all of them pass.
sub passes_again ($self, @tests) {
    my $command = $self->{command};
    my %only;
    if ($self->{counter} eq 'cargo') { $command .= ($command =~ / -- / ? ' ' : ' -- ') . "--exact @tests" }
    elsif ($self->{counter} eq 'tap') { $only{ORIBI_TEST_ONLY} = "@tests" }
    else                              { $only{ORIBI_TEST_ONLY} = '--name /^(' . join('|', @tests) . ')$/' }
    local @ENV{keys %only} = values %only;
    my $log    = "$self->{logs}/$self->{name}.again.log";
    my $tap    = "$self->{logs}/$self->{name}.again.tap";
    my $status = $self->_execute($command, $log, "cat >$log", $tap);
    my ($passed, $failed, $skipped) = count($self->{counter}, $status, $log, $tap);
    return $status == 0 && $passed >= @tests && $failed + $skipped == 0;
}

# The file with the output of `passes_again`.
sub again_log ($self) { return "$self->{logs}/$self->{name}.again.log" }

# Keeps the results of a run; rows are processes, so that it is a file.
sub keep ($self, @result) {
    write_file("$self->{logs}/$self->{name}.result", "@result\n");
    return;
}

# The numbers of passed, failed and skipped tests, of seconds, and of seconds of processors; empty if the step has not run.
sub result ($self) {
    my $file = "$self->{logs}/$self->{name}.result";
    return -e $file ? split q{ }, content_of($file) : ();
}

# Runs a command in bash, its output by way of another one, and returns its exit status.
sub _execute ($self, $command, $log, $output, $tap = "$self->{logs}/$self->{name}.tap") {
    remove_tree($tap);
    local $ENV{ORIBI_TEST_TAP} = $tap;
    local $ENV{STEP_COMMAND} = $command;
    my $limit = $ENV{CI} ? "timeout --kill-after=10 $self->{limit}" : q{};
    my $line  = qq({ $limit bash -c "\$STEP_COMMAND"; } </dev/null 2>&1 | $output; exit \${PIPESTATUS[0]});
    my $wait  = system 'bash', '-c', $line;
    return $wait & 127 ? 128 + ($wait & 127) : $wait >> 8;
}

# The seconds of processors that ended children of this process have used.
sub _cpu () {
    my (undef, undef, $user, $system) = times;
    return $user + $system;
}

1;
