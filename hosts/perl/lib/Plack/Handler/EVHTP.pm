package Plack::Handler::EVHTP;
use strict;
use warnings;
use parent 'Plack::Handler::Oribi';

our $VERSION = '0.1.0';

# One process with threads, as in the original handler.
sub options {
    my ($self) = @_;
    my %options = %{$self};
    my $number  = 8;
    for my $name (qw(workers max_workers threads)) {
        my $given = delete $options{$name};
        $number = $given if defined $given;
    }
    # 0 and 1 mean the same: no threads.
    $number = 1 if $number eq '0';
    if ($number ne '1' && !Oribi::Options::has_threads()) {
        warn "This perl has no threads: $number worker processes are started instead of $number threads\n";
        $options{workers} = $number;
    } else {
        $options{workers} = 1 if !exists $options{worker_processes};
        $options{threads} = $number;
    }
    $options{host} = '0.0.0.0' if !defined $options{host};
    return %options;
}

1;

__END__

=head1 NAME

Plack::Handler::EVHTP - Oribi with threads, by the name that users of this handler know

=head1 SYNOPSIS

    plackup -s EVHTP --max-workers 8 --max-reqs-per-child 1000000 app.psgi

=head1 DESCRIPTION

The same server as L<Plack::Handler::Oribi>, with one worker process and C<--max-workers> threads, each with a clone of the
interpreter in which the app was loaded. On a perl without threads that many worker processes are started instead, after a
warning.

=head1 OPTIONS

All of L<Plack::Handler::Oribi>, with these defaults:

=over

=item --host (0.0.0.0), --port (5000)

=item --max-workers (8)

Threads; 1 or 0 means that the app runs in the interpreter it was loaded in.

=item --max-reqs-per-child (0)

Replace a thread's interpreter by a new clone after this many requests. Default: never.

=item --max-keepalive-reqs (0)

Requests on one connection. Default: no limit.

=back

=head1 CLONING

C<CLONE> subs run in every new interpreter:

    my $dbh;
    sub CLONE { $dbh = DBI->connect(...) }

=cut
