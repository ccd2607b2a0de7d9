# Runs all of Plack's own tests, under Lint, for each handler, each kind of parallelism and each kind of socket.

use strict;
use warnings;
use lib 't/lib';
use Config;
use HTTP::Response ();
use Test::More;
use Plack::Middleware::Lint ();
use Plack::Test::Suite      ();
use OverHTTP2               ();
use TestServer              ();

# The handlers of threads mean those by their workers; processes they are asked for by another name of that setting.
my @ways = (
    [ '1 worker',  { workers => 1 }, { max_workers => 1 } ],
    [ '4 workers', { workers => 4 }, { max_workers => 1, worker_processes => 4 } ],
    [ '4 threads', { workers => 1, threads => 4 }, { max_workers => 4 } ],
);
@ways = grep { $_->[0] !~ /threads/ } @ways if !$Config{useithreads};

# A client for Plack's tests that speaks over any socket: they want to be given HTTP::Response objects.
sub client {
    my ($server, $number) = @_;
    return sub {
        my ($request) = @_;
        # SERVER_NAME and SERVER_PORT are those of Host, which is sent without a port.
        $request->uri->port(80);
        my @fields = (Host => $request->uri->host, 'X-Plack-Test' => $number, Connection => 'close');
        for my $name ($request->headers->header_field_names) {
            next if lc $name eq 'host' || lc $name eq 'content-length';
            push @fields, $name => $_ for $request->header($name);
        }
        my $content  = $request->method eq 'POST' || length $request->content ? $request->content : undef;
        my $answer   = $server->request($request->method, $request->uri->path_query, \@fields, $content);
        my $response = HTTP::Response->new($answer->{status}, $answer->{reason}, $answer->{fields}, $answer->{body});
        $response->request($request);
        return $response;
    };
}

# The others differ in how they are asked for, not in the protocol.
for my $handler (OverHTTP2::is_on() ? 'Oribi' : qw(Oribi EVHTP Cacilheiro)) {
    for my $way (@ways) {
        my ($label, $of_oribi, $of_others) = @{$way};
        for my $unix (0, 1) {
            subtest "$handler, $label, " . ($unix ? 'Unix socket' : 'TCP') => sub {
                my %options = $handler eq 'Oribi' ? %{$of_oribi} : %{$of_others};
                my $server = TestServer->start(
                    handler => $handler,
                    options => \%options,
                    unix    => $unix,
                    app     => Plack::Middleware::Lint->wrap(Plack::Test::Suite->test_app_handler),
                );
                ok $server->started, 'started' or diag $server->log_text;
                for my $number (0 .. $#Plack::Test::Suite::TEST) {
                    my ($name, $test) = @{ $Plack::Test::Suite::TEST[$number] };
                    next if !OverHTTP2::has_test($name);
                    note $name;
                    $test->(client($server, $number));
                }
                is $server->stop, 0, 'stopped cleanly';
            };
        }
    }
}

done_testing;
