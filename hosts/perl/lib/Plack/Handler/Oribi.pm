package Plack::Handler::Oribi;
use strict;
use warnings;
use Oribi ();

our $VERSION = '0.1.0';

sub new {
    my ($class, %options) = @_;
    return bless {%options}, $class;
}

# Subclasses override this.
sub options {
    my ($self) = @_;
    my %options = %{$self};
    # Programs written for Plack's FCGI pass the title itself; here the setting of that name is a switch.
    delete $options{proc_title} if ($options{proc_title} // q{}) !~ /\A(?:on|off|yes|no|true|false|[01])?\z/i;
    return %options;
}

sub run {
    my ($self, $app) = @_;
    my $status = Oribi->run($app, $self->options);
    # plackup itself always exits with 0.
    exit $status if $status;
    return;
}

1;

__END__

=head1 NAME

Plack::Handler::Oribi - run PSGI apps on Oribi

=head1 SYNOPSIS

    plackup -s Oribi app.psgi
    plackup -s Oribi -E production --host 127.0.0.1 --port 8080 --workers 4 --max-requests 10000 app.psgi
    plackup -s Oribi --listen :5000 --listen '/run/app.sock?mode=660' app.psgi

=head1 OPTIONS

Every setting of the server is an option, under any of its names, including those of Starman, Starlet and Gazelle.
C<oribi --help> lists them all. An unknown name gets a warning, an invalid value is an error.

=over

=item --host, --port, --listen, --socket

The address to listen on; by default port 5000 of all interfaces. C<--listen> may be given several times, and takes
C<HOST:PORT>, C<:PORT>, C<[IPV6]:PORT> or the path of a Unix socket, which may end in C<?mode=660>.

=item --workers, --max-workers

Worker processes. Default: the CPUs that the process may use.

=item --threads

Threads of each worker, each with a clone of the interpreter. Default: 1, which clones nothing. More needs a perl with threads.

=item --max-requests, --max-reqs-per-child

Replace a worker (with threads: an interpreter) after this many requests. Default: never.

=item --min-requests, --min-reqs-per-child

Each worker draws its limit between this number and C<--max-requests>.

=item --timeout, --read-timeout, --keepalive-timeout, --max-keepalive-reqs, --disable-keepalive

The options for clients: how long they may take, and how many requests a connection may carry.

=item --spawn-interval, --err-respawn-interval, --backlog, --pid-file, --access-log-format, --error-log

As in the servers named above. C<--access-log> belongs to plackup and adds a middleware; with the C<oribi> command the server writes
the access log.

=item before_fork, after_fork, child_exit, server_ready

Code references, or on a command line strings of Perl code. C<before_fork> is called in the process that loaded the app, with the
number of the worker; C<after_fork> in the new worker, C<child_exit> in the worker before it ends; C<server_ready> when
connections are accepted. With threads they are called in the interpreter that loaded the app; use C<CLONE> subs for what each
thread needs.

=item --daemonize

Run the server in the background.

=back

The app is always loaded before workers are forked, so C<--preload-app> changes nothing.

=head1 SEE ALSO

L<Oribi>, L<plackup>

=cut
