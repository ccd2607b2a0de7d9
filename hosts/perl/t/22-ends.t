# However a request ends, what PSGI promises is kept, once: the body is closed, the cleanup handlers run, the environment is freed.

use strict;
use warnings;
use lib 't/lib';
use File::Temp ();
use Notes;
use Oribi::Options ();
use Test::More;
use TestServer ();

package Body {
    sub new { my ($class, $name, @lines) = @_; return bless { name => $name, lines => \@lines }, $class }

    sub getline {
        my ($self) = @_;
        my $line = shift @{ $self->{lines} };
        return ref $line ? $line->($self) : $line;
    }
    sub close { my ($self) = @_; main::note_down("$self->{name}: closed"); return }
}

package Guard {
    sub DESTROY { my ($self) = @_; main::note_down("$self->{name}: freed"); return }
}

package main;

our ($late_writer, $late_responder);

my $endless;
$endless = sub { my ($self) = @_; unshift @{ $self->{lines} }, $endless; return 'x' x 100_000 };
my $waits = sub { sleep 1 while 1 };

# Each end: the action of the app, and whether there is a body to close.
my %end = (
    'array'              => [ sub { [ 200, [], ['whole'] ] }, 0 ],
    'body'               => [ sub { [ 200, [], Body->new($_[0], 'a', 'b') ] } ],
    'HEAD'               => [ sub { [ 200, [], Body->new($_[0], 'a', 'b') ] } ],
    '204'                => [ sub { [ 204, [], Body->new($_[0]) ] } ],
    '304'                => [ sub { [ 304, [], Body->new($_[0]) ] } ],
    'empty'              => [ sub { [ 200, [], Body->new($_[0]) ] } ],
    'dies'               => [ sub { die "on purpose\n" }, 0 ],
    'getline_dies'       => [ sub { [ 200, [], Body->new($_[0], sub { die "on purpose\n" }) ] } ],
    'getline_dies_later' => [ sub { [ 200, [], Body->new($_[0], 'a', sub { die "on purpose\n" }) ] } ],
    'getline_wide'       => [ sub { [ 200, [], Body->new($_[0], 'a', "\x{263a}") ] } ],
    'too_long'           => [ sub { [ 200, [ 'Content-Length' => 1 ], Body->new($_[0], 'a', 'b', 'c') ] } ],
    'too_short'          => [ sub { [ 200, [ 'Content-Length' => 9 ], Body->new($_[0], 'a') ] } ],
    'wrong_status'       => [ sub { [ 'OK', [], Body->new($_[0], 'a') ] } ],
    'wrong_fields'       => [ sub { [ 200, ['X-One'], Body->new($_[0], 'a') ] } ],
    'wrong_value'        => [ sub { [ 200, [ 'X-One' => "a\nb" ], Body->new($_[0], 'a') ] } ],
    'client_leaves_body' => [ sub { [ 200, [], Body->new($_[0], $endless) ] } ],
    'client_leaves_idle' => [ sub { my $idle; $idle = sub { unshift @{ $_[0]{lines} }, $idle; q{} }; [ 200, [], Body->new($_[0], $idle) ] } ],
    'client_leaves_stream' => [ sub { sub { my $writer = $_[0]->([ 200, [] ]); 1 while $writer->write('x' x 100_000) } }, 0 ],
    'late_in_app'        => [ sub { $waits->() }, 0 ],
    'late_in_getline'    => [ sub { [ 200, [], Body->new($_[0], 'a', $waits) ] } ],
    'late_in_stream'     => [ sub { sub { my $writer = $_[0]->([ 200, [] ]); $writer->write('a'); $waits->() } }, 0 ],
    'delayed'            => [ sub { my ($name) = @_; sub { $_[0]->([ 200, [], Body->new($name, 'a') ]) } } ],
    'delayed_wrong'      => [ sub { my ($name) = @_; sub { $_[0]->([ 'OK', [], Body->new($name, 'a') ]) } } ],
    'delayed_dies'       => [ sub { sub { die "on purpose\n" } }, 0 ],
    'stream'             => [ sub { sub { my $writer = $_[0]->([ 200, [] ]); $writer->write('a'); $writer->close } }, 0 ],
    'stream_dies'        => [ sub { sub { my $writer = $_[0]->([ 200, [] ]); $writer->write('a'); die "on purpose\n" } }, 0 ],
    'responder_dropped'  => [ sub { sub { } }, 0 ],
    'writer_dropped'     => [ sub { sub { my $writer = $_[0]->([ 200, [] ]) } }, 0 ],
    'later_answered'     => [ sub { sub { ($late_responder) = @_ } }, 0, sub { $late_responder->([ 200, [], [] ]); $late_responder = undef } ],
    'later_dropped'      => [ sub { sub { ($late_responder) = @_ } }, 0, sub { $late_responder // die; $late_responder = undef } ],
    'later_writer_dropped' => [ sub { sub { $late_writer = $_[0]->([ 200, [] ]) } }, 0, sub { $late_writer // die; $late_writer = undef } ],
    'taken'              => [ sub { my ($name, $env) = @_; syswrite $env->{'psgix.io'}, 'raw'; [ 200, [], Body->new($name, 'a') ] } ],
    'commits_harakiri'   => [ sub { my ($name, $env) = @_; $env->{'psgix.harakiri.commit'} = 1; [ 200, [], Body->new($name, 'a') ] } ],
    'exits'              => [ sub { exit 3 }, 0 ],
    'exits_in_getline'   => [ sub { [ 200, [], Body->new($_[0], 'a', sub { exit 3 }) ] }, 0 ],
    'exits_in_stream'    => [ sub { sub { my $writer = $_[0]->([ 200, [] ]); $writer->write('a'); exit 3 } }, 0 ],
    'taken_delayed'      => [
        sub { my ($name, $env) = @_; sub { syswrite $env->{'psgix.io'}, 'raw'; $_[0]->([ 200, [], Body->new($name, 'a') ]) } }
    ],
);

my $app = sub {
    my ($env) = @_;
    my ($name) = $env->{PATH_INFO} =~ m{/(\w+)};
    if ($env->{QUERY_STRING} eq 'then') {
        $end{$name}[2]->();
        return [ 200, [], ['done'] ];
    }
    $env->{'test.guard'} = bless { name => $name }, 'Guard';
    push @{ $env->{'psgix.cleanup.handlers'} }, sub { my ($given) = @_; note_down("$name: cleaned up"); return };
    return $end{$name}[0]->($name, $env);
};

sub test_with {
    my (%options) = @_;
    my $server = TestServer->start(app => $app, options => { request_timeout => '500ms', request_kill => '60s', %options });
    for my $name (sort keys %end) {
        my (undef, $has_body, $then) = @{ $end{$name} };
        # Another interpreter would get the request that ends it.
        next if $then && $options{threads};
        forget_notes();
        my $connection = $server->connection;
        if ($name =~ /\Aclient_leaves/) {
            $connection->send("GET /$name HTTP/1.1\r\nHost: x\r\n\r\n");
            $connection->fill if $name !~ /idle/;
            $connection->socket->close;
        } elsif ($then) {
            $connection->send("GET /$name HTTP/1.1\r\nHost: x\r\n\r\n");
            # One worker answers in the order of arrival, once it has the first.
            TestServer::wait_for(sub { $server->get("/$name?then")->{status} == 200 });
            $connection->response('GET');
        } else {
            $connection->request($name eq 'HEAD' ? 'HEAD' : 'GET', "/$name", [ Connection => 'close' ]);
        }
        like noted_like(qr/$name: freed/), qr/$name: freed/, "$name: the environment is freed";
        # `exit` ends the app, as it ends any program: destructors and END blocks are all that runs.
        is times_noted(qr/^$name: cleaned up$/m), $name =~ /\Aexits/ ? 0 : 1, "$name: the cleanup handlers run once";
        is times_noted(qr/^$name: closed$/m), $has_body // 1, "$name: the body is closed once" if ($has_body // 1) || noted() =~ /closed/;
        is times_noted(qr/^$name: freed$/m), 1, "$name: once";
    }
    is $server->stop, 0, 'stopped';
    return;
}

# A server that stops answers the requests that it has, and keeps its promises.
sub test_stop {
    my (%options) = @_;
    my $directory = File::Temp->newdir;
    my $waits     = sub { select undef, undef, undef, 0.01 while !-e "$directory/go"; return 'b' };
    my $server    = TestServer->start(
        options => {%options},
        app     => sub {
            my ($env) = @_;
            my ($name) = $env->{PATH_INFO} =~ m{/(\w+)};
            $env->{'test.guard'} = bless { name => $name }, 'Guard';
            push @{ $env->{'psgix.cleanup.handlers'} }, sub { note_down("$name: cleaned up"); return };
            return [ 200, [], Body->new($name, 'a', sub { $waits->() }) ];
        },
    );
    forget_notes();
    my $connection = $server->connection;
    $connection->send("GET /stopped HTTP/1.1\r\nHost: x\r\n\r\n");
    $connection->fill while $connection->{buffer} !~ /\r\n\r\n.*a/s;
    kill TERM => $server->pid;
    open my $go, '>', "$directory/go" or die $!;
    close $go;
    ok $connection->response('GET')->{whole}, 'a request that a server has when it stops is answered';
    is $server->wait_end, 0, 'and it stops';
    is times_noted(qr/^stopped: $_$/m), 1, "once: $_" for 'closed', 'cleaned up', 'freed';
    return;
}

my @shapes = ({}, Oribi::Options::has_threads() ? { threads => 2 } : ());
for my $shape (@shapes) {
    test_with(%$shape);
    test_stop(%$shape);
}

done_testing;
