# Responders and writers: now, later, never, twice.

use strict;
use warnings;
use lib 't/lib';
use Notes;
use Test::More;
use TestServer ();

# Between two requests of one worker.
our ($kept_responder, $kept_writer, %kept_env);

my %return = (
    array   => sub { my ($respond) = @_; $respond->([ 200, [ 'X-One' => 1 ], [ 'a', 'b' ] ]) },
    handle  => sub { my ($respond) = @_; open my $handle, '<', __FILE__; $respond->([ 200, [], $handle ]) },
    stream  => sub {
        my ($respond) = @_;
        my $writer = $respond->([ 200, [ 'Content-Type' => 'text/plain' ] ]);
        note_down(join q{,}, map { $writer->write($_) ? 'true' : 'false' } 'a', q{}, 'b', 0);
        $writer->close;
        $writer->close;
    },
    length  => sub {
        my ($respond) = @_;
        my $writer = $respond->([ 200, [ 'Content-Length' => 3 ] ]);
        $writer->write('abc');
        $writer->close;
    },
    many    => sub { my $writer = $_[0]->([ 200, [] ]); $writer->write("$_,") for 1 .. 2000; $writer->close },
    large   => sub { my $writer = $_[0]->([ 200, [] ]); $writer->write('x' x 100_000) for 1 .. 50; $writer->close },
    upgraded => sub { my $text = "caf\xe9"; utf8::upgrade($text); my $writer = $_[0]->([ 200, [] ]); $writer->write($text); $writer->close },

    keep_responder => sub { ($kept_responder) = @_ },
    use_responder  => sub { $kept_responder->([ 200, [], ['late'] ]); undef $kept_responder; $_[0]->([ 200, [], ['now'] ]) },
    keep_writer    => sub { $kept_writer = $_[0]->([ 200, [] ]); $kept_writer->write('first ') },
    use_writer     => sub {
        $kept_writer->write('second');
        $kept_writer->close;
        undef $kept_writer;
        $_[0]->([ 200, [], ['now'] ]);
    },

    drop_responder => sub { },
    drop_writer    => sub { my $writer = $_[0]->([ 200, [] ]); $writer->write('part') },
    dies_before    => sub { die "before\n" },
    dies_after     => sub { my $writer = $_[0]->([ 200, [] ]); $writer->write('part'); die "after\n" },
    dies_answered  => sub { $_[0]->([ 200, [], ['whole'] ]); die "too late\n" },
    twice          => sub {
        $_[0]->([ 200, [], ['once'] ]);
        eval { $_[0]->([ 200, [], ['twice'] ]) };
        note_down("twice: $@");
    },
    twice_stream   => sub {
        my $writer = $_[0]->([ 200, [] ]);
        eval { $_[0]->([ 200, [], ['twice'] ]) };
        note_down("twice: $@");
        $writer->write('stream');
        $writer->close;
    },
    write_after    => sub {
        my $writer = $_[0]->([ 200, [] ]);
        $writer->close;
        eval { $writer->write('more') };
        note_down("after: $@");
    },
    wide           => sub {
        my $writer = $_[0]->([ 200, [] ]);
        eval { $writer->write("\x{263a}") };
        note_down("wide: $@");
        $writer->write('narrow');
        $writer->close;
    },
    no_array       => sub { eval { $_[0]->('text') }; note_down("no array: $@"); $_[0]->([ 200, [], ['right'] ]) },
    nothing        => sub { eval { $_[0]->() }; note_down("nothing: $@"); $_[0]->([ 200, [], ['right'] ]) },
    one_element    => sub { eval { $_[0]->([200]) }; note_down("one: $@"); $_[0]->([ 200, [], ['right'] ]) },
    bad_headers    => sub { eval { $_[0]->([ 200, ['X-One'] ]) }; note_down("headers: $@") },
    too_long       => sub {
        my $writer = $_[0]->([ 200, [ 'Content-Length' => 2 ] ]);
        eval { $writer->write('abc'); $writer->close; 1 } or note_down("long: $@");
    },
    too_short      => sub {
        my $writer = $_[0]->([ 200, [ 'Content-Length' => 20 ] ]);
        $writer->write('abc');
        eval { $writer->close };
    },
    client_gone    => sub {
        my $writer = $_[0]->([ 200, [] ]);
        my ($count, $result) = (0, 1);
        while ($result && $count++ < 100_000) { $result = $writer->write('x' x 10_000) }
        note_down('gone: ' . ($result ? 'never' : 'noticed') . ', then ' . ($writer->write('more') ? 'true' : 'false'));
        $writer->close;
    },
    self_reference => sub { my ($respond) = @_; $kept_env{self} = 1; $respond->([ 200, [], ['ok'] ]) },
);

my $app = sub {
    my ($env) = @_;
    my ($name) = $env->{PATH_INFO} =~ m{/(\w+)};
    # An environment that holds its responder, and is never answered through it.
    if ($name eq 'cycle') {
        return sub { $env->{responder} = $_[0]; $_[0]->([ 200, [], ['cycle'] ]) };
    }
    return $return{$name};
};

my $server = TestServer->start(app => $app);

sub get { my ($name, $method) = @_; return $server->request($method || 'GET', "/$name") }
sub field { return TestServer::Connection::field(@_) }

is get('array')->{body}, 'ab', 'a whole response';
is field(get('array'), 'Content-Length'), 2, 'with its length';
like get('handle')->{body}, qr/\A# Responders/, 'a handle';

subtest 'a stream' => sub {
    my $response = get('stream');
    is $response->{body}, 'ab0';
    ok $response->{whole}, 'is ended';
    is field($response, 'Transfer-Encoding'), 'chunked', 'in chunks';
    like noted_like(qr/^true,true,true,true$/m), qr/^true,true,true,true$/m, 'write says that the client is there';
    is field(get('length'), 'Content-Length'), 3, 'or of a given length';
    is get('many')->{body}, join(q{}, map {"$_,"} 1 .. 2000), 'many pieces';
    is length get('large')->{body}, 5_000_000, 'large pieces';
    is get('upgraded')->{body}, "caf\xe9", 'characters below 256 are bytes';
    my $old = $server->connection;
    $old->send("GET /stream HTTP/1.0\r\n\r\n");
    my $bytes = $old->rest;
    like $bytes, qr/\r\n\r\nab0\z/, 'no chunks for HTTP/1.0';
    my $connection = $server->connection;
    is $connection->request(HEAD => '/stream')->{body}, q{}, 'HEAD';
    is $connection->request(GET => '/stream')->{body}, 'ab0', 'and the connection goes on';
};

subtest 'later' => sub {
    my $waiting = $server->connection;
    $waiting->send("GET /keep_responder HTTP/1.1\r\nHost: x\r\n\r\n");
    # The other request is only sent once this one has reached the app: both go through one worker in the order of arrival.
    select undef, undef, undef, 0.2;
    is get('use_responder')->{body}, 'now';
    is $waiting->response('GET')->{body}, 'late', 'a responder that was kept';
    is $waiting->request(GET => '/array')->{body}, 'ab', 'the connection goes on';

    $waiting->send("GET /keep_writer HTTP/1.1\r\nHost: x\r\n\r\n");
    $waiting->fill while $waiting->{buffer} !~ /first/;
    is get('use_writer')->{body}, 'now';
    is $waiting->response('GET')->{body}, 'first second', 'a writer that was kept';
    is $waiting->request(GET => '/array')->{body}, 'ab', 'the connection goes on';
};

subtest 'never' => sub {
    is get('drop_responder')->{status}, 500, 'a responder that is dropped is a 500';
    like $server->log_like(qr/dropped the responder/), qr/the app dropped the responder without calling it/, 'and logged';
    my $response = get('drop_writer');
    is $response->{body}, 'part', 'a writer that is dropped';
    ok !$response->{whole}, 'does not look whole';
    is get('dies_before')->{status}, 500, 'dying before is a 500';
    like $server->log_like(qr/before$/m), qr{GET /dies_before: the app died: before};
    ok !get('dies_after')->{whole}, 'dying after the start is no whole response';
    like $server->log_like(qr/after$/m), qr{GET /dies_after: the app died: after};
    is get('dies_answered')->{body}, 'whole', 'dying after the answer changes nothing';
    like $server->log_like(qr/too late/), qr/the app died: too late/, 'but is logged';
};

subtest 'misuse' => sub {
    is get('twice')->{body}, 'once', 'a second call';
    like noted_like(qr/twice: the responder was called twice at/), qr/twice: the responder was called twice at/, 'is told';
    is get('twice_stream')->{body}, 'stream', 'also while streaming';
    ok get('write_after')->{whole};
    like noted_like(qr/after: the writer has been closed at/), qr/after: the writer has been closed at/, 'writing after close is told';
    is get('wide')->{body}, 'narrow';
    like noted_like(qr/wide: Wide character in write/), qr/wide: Wide character in write/, 'wide characters are told';
    is get('no_array')->{body}, 'right';
    like noted_like(qr/no array: the responder must be called with an array reference of 2 or 3 elements, not the string 'text'/), qr/no array: the responder must be called with an array reference of 2 or 3 elements, not the string 'text'/;
    is get('nothing')->{body}, 'right';
    like noted_like(qr/nothing: the responder must be called .* not nothing/), qr/nothing: the responder must be called .* not nothing/;
    is get('one_element')->{body}, 'right';
    like noted_like(qr/one: .* not an array reference of 1 elements/), qr/one: .* not an array reference of 1 elements/;
    is get('bad_headers')->{status}, 500;
    like noted_like(qr/headers: the headers must be names and values in turn/), qr/headers: the headers must be names and values in turn/;
    my $long = get('too_long');
    ok length $long->{body} <= 2, 'what is too long is cut';
    ok !get('too_short')->{whole}, 'what is too short does not look whole';
};

subtest 'a client that goes' => sub {
    my $connection = $server->connection;
    $connection->send("GET /client_gone HTTP/1.1\r\nHost: x\r\n\r\n");
    $connection->fill;
    $connection->socket->close;
    TestServer::wait_for(sub { noted() =~ /gone/ });
    like noted_like(qr/gone: noticed, then false/), qr/gone: noticed, then false/, 'write returns false';
};

subtest 'no leak' => sub {
    my $memory = sub {
        my ($pid) = qx(ps -o pid= --ppid @{[ $server->pid ]}) =~ /(\d+)/;
        open my $handle, '<', "/proc/$pid/statm" or die $!;
        return (split q{ }, readline $handle)[1] * 4;
    };
    my $connection = $server->connection;
    my $mix        = sub {
        for (1 .. $_[0]) {
            $connection->request(GET => "/$_") for qw(array stream cycle length twice);
            $server->request(GET => "/$_") for qw(drop_responder);
        }
    };
    $mix->(300);
    my $before = $memory->();
    $mix->(1000);
    my $growth = $memory->() - $before;
    cmp_ok $growth, '<', 200, "6000 requests grew the worker by $growth KiB";
};

is $server->stop, 0, 'stopped';

done_testing;
