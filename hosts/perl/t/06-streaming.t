# Responders and writers: now, later, never, twice.

use strict;
use warnings;
use lib 't/lib';
use Notes;
use OverHTTP2  ();
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

    trailers => sub {
        my $writer = $_[0]->([ 200, [] ]);
        $writer->write('text');
        $writer->close([ 'Grpc-Status' => 0, 'X-Sum' => Loud->new('a'), 'X-Sum' => 'b' ]);
        $writer->close([ 'X-Late' => 1 ]);
    },
    trailers_only => sub { $_[0]->([ 200, [] ])->close([ 'Grpc-Status' => 5 ]) },
    no_trailers   => sub { my $writer = $_[0]->([ 200, [] ]); $writer->write('text'); $writer->close($_[1]) },
    with_length   => sub {
        my $writer = $_[0]->([ 200, [ 'Content-Length' => 4 ] ]);
        $writer->write('text');
        $writer->close([ 'X-Sum' => 1 ]);
    },
    bad_trailers  => sub {
        my $writer = $_[0]->([ 200, [] ]);
        $writer->write('text');
        for my $wrong ('text', ['X-One'], [ 'X-One' => "\x{263a}" ]) {
            eval { $writer->close($wrong) };
            note_down("wrong: $@");
        }
        $writer->write(' more');
        $writer->close;
    },
    forbidden_trailers => sub {
        my $writer = $_[0]->([ 200, [] ]);
        $writer->write('text');
        eval { $writer->close([ 'Set-Cookie' => 'a=b' ]) };
        note_down("forbidden: $@");
    },

    keep_responder => sub { ($kept_responder) = @_ },
    use_responder  => sub { $kept_responder->([ 200, [], ['late'] ]); undef $kept_responder; $_[0]->([ 200, [], ['now'] ]) },
    keep_writer    => sub { $kept_writer = $_[0]->([ 200, [] ]); $kept_writer->write('first ') },
    open_writer    => sub { $kept_writer = $_[0]->([ 200, [ 'X-Early' => 1 ] ]) },
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
    dies_started   => sub { my $writer = $_[0]->([ 200, [] ]); $writer->write(q{}); die "started\n" },
    dies_length    => sub { my $writer = $_[0]->([ 200, [ 'Content-Length' => 5 ] ]); die "length\n" },
    drops_started  => sub { my $writer = $_[0]->([ 200, [] ]); return },
    changes_head   => sub {
        my @fields = ('X-Text' => 'as it was');
        my $writer = $_[0]->([ 200, \@fields ]);
        $fields[1] =~ s/was/is/;
        undef @fields;
        $writer->write('text');
        $writer->close;
    },
    only_head      => sub { $_[0]->([ 200, [ 'X-One' => 1 ] ])->close },
    bad_field      => sub { eval { $_[0]->([ 200, [ 'X-One' => "a\r\nb" ] ]) }; note_down("bad field: $@") },
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

# A string that is an object, and a body with trailers.
{
    package Loud;
    use overload q{""} => sub { ${ $_[0] } }, fallback => 1;
    sub new { my ($class, $text) = @_; return bless \$text, $class }

    package Endless;
    sub new { return bless { count => 0 }, $_[0] }
    sub getline { return $_[0]{count}++ >= 100_000 ? undef : 'a piece' }
    sub close { main::note_down("endless getline: $_[0]{count}, closed"); return }

    package Body;
    sub new { my ($class, @pieces) = @_; return bless { pieces => \@pieces }, $class }
    sub getline { return shift @{ $_[0]{pieces} } }
    sub close { return }
    sub trailers { my ($self) = @_; die "no sum\n" if $self->{dies}; return $self->{none} ? undef : [ 'X-Left' => scalar @{ $self->{pieces} } ] }
}

my $app = sub {
    my ($env) = @_;
    my ($name) = $env->{PATH_INFO} =~ m{/(\w+)};
    if ($name eq 'body') {
        my $body = Body->new('one ', 'two');
        $body->{ $env->{QUERY_STRING} } = 1;
        return [ 200, [], $body ];
    }
    if ($name =~ /^endless/) {
        my @head = ($env->{QUERY_STRING} || 200, [ $env->{PATH_INFO} =~ m{/sized} ? ('Content-Length' => 10) : () ]);
        return [ @head, Endless->new ] if $name eq 'endless_body';
        return sub {
            my $writer = $_[0]->(\@head);
            my $count  = 0;
            while ($writer->write('a piece')) { last if ++$count >= 100_000 }
            note_down("endless writer: $count, " . ($writer->write('more') ? 'true' : 'false'));
            $writer->close;
        };
    }
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

subtest 'a stream without end' => sub {
    my %promise = (endless => 'endless writer: %d, false', endless_body => 'endless getline: %d, closed');
    for my $name (sort keys %promise) {
        for my $case ([ HEAD => q{} ], [ GET => '?204' ], [ GET => '?304' ]) {
            my ($method, $query) = @$case;
            is get("$name$query", $method)->{body}, q{}, "$method /$name$query has no content";
            my $noted = sprintf $promise{$name}, $name eq 'endless' ? 0 : 1;
            like noted_like(qr/^\Q$noted\E$/m), qr/^\Q$noted\E$/m, 'it is stopped at its first piece';
            forget_notes();
        }
        get("$name/sized");
        my $noted = $promise{$name} =~ s/%d/\\d+/r;
        like noted_like(qr/^$noted$/m), qr/^$noted$/m, 'and behind its Content-Length';
        unlike noted(), qr{: 10000\d,}, q{at once};
        forget_notes();
    }
};

# The bytes of a connection until the server closes it, without the head.
sub behind_head {
    my ($target, $version) = @_;
    my $connection = $server->connection;
    $connection->send("GET /$target HTTP/" . ($version || '1.1') . "\r\nHost: x\r\nConnection: close\r\n\r\n");
    my (undef, $rest) = split /\r\n\r\n/, $connection->rest, 2;
    return $rest;
}

subtest 'trailers' => sub {
    is behind_head('trailers'), "4\r\ntext\r\n0\r\nGrpc-Status: 0\r\nX-Sum: a\r\nX-Sum: b\r\n\r\n", 'behind the last chunk';
    is behind_head('trailers', '1.0'), 'text', 'not for HTTP/1.0';
    is behind_head('trailers_only'), "0\r\nGrpc-Status: 5\r\n\r\n", 'without content';
    is behind_head('no_trailers'), "4\r\ntext\r\n0\r\n\r\n", 'undef is none';
    is behind_head('with_length'), 'text', 'not behind content of known length';
    is behind_head('bad_trailers'), "4\r\ntext\r\n5\r\n more\r\n0\r\n\r\n", 'a mistake leaves the writer open';
    like noted_like(qr/reference.*in turn.*wide/s), qr/in the trailers:.*array reference.*in the trailers:.*in turn.*in the trailers:.*wide/s, 'the app is told';
    OverHTTP2::is_cut(behind_head('forbidden_trailers'), "4\r\ntext\r\n", 'what cannot be a trailer cuts the response');
    like noted_like(qr/^forbidden/m), qr/^forbidden: Set-Cookie cannot be a trailer/m, 'the app is told';
    my $chunks = "4\r\none \r\n3\r\ntwo\r\n";
    is behind_head('body'), $chunks . "0\r\nX-Left: 0\r\n\r\n", 'of a body, once it is empty';
    is behind_head('body?none'), $chunks . "0\r\n\r\n", 'of a body that has none this time';
    OverHTTP2::is_cut(behind_head('body?dies'), $chunks, 'a body that dies there');
    like $server->log_like(qr/no sum/), qr/trailers of the body died: no sum/, 'is logged';
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

    $waiting->send("GET /open_writer HTTP/1.1\r\nHost: x\r\n\r\n");
    $waiting->fill while $waiting->{buffer} !~ /\r\n\r\n/;
    like $waiting->{buffer}, qr/X-Early: 1/i, 'a head is sent when the app has returned';
    is get('use_writer')->{body}, 'now';
    is $waiting->response('GET')->{body}, 'second', 'and the content later';
    is $waiting->request(GET => '/array')->{body}, 'ab', 'the connection goes on';
};

subtest 'never' => sub {
    is get('drop_responder')->{status}, 500, 'a responder that is dropped is a 500';
    like $server->log_like(qr/dropped the responder/), qr/the app dropped the responder without calling it/, 'and logged';
    my $response = get('drop_writer');
    OverHTTP2::is_cut($response->{body}, 'part', 'a writer that is dropped');
    ok !$response->{whole}, 'does not look whole';
    is get('dies_before')->{status}, 500, 'dying before is a 500';
    like $server->log_like(qr/before$/m), qr{GET /dies_before: the app died: before};
    for my $name (qw(dies_started dies_length drops_started)) {
        $response = get($name);
        is $response->{status}, 500, "$name: nothing was sent before the first piece";
        ok $response->{whole}, "$name: so the client gets a whole response";
    }
    like $server->log_like(qr/started$/m), qr{GET /dies_started: the app died: started};
    $response = get('changes_head');
    is field($response, 'X-Text'), 'as it was', 'a head stays as it was given';
    is $response->{body}, 'text';
    $response = get('only_head');
    is field($response, 'X-One'), 1, 'a head without content is sent with its end';
    ok $response->{whole};
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
    is get('bad_field')->{status}, 500;
    like noted_like(qr/bad field: \S/), qr/bad field: \S.* at /, 'a wrong head is told where it is given';
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
