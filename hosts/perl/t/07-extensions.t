# The psgix extensions.

use strict;
use warnings;
use lib 't/lib';
use File::Temp ();
use Notes;
use Test::More;
use IO::Select ();
use Oribi::Options ();
use POSIX          ();
use Socket         qw(MSG_DONTWAIT MSG_PEEK SOL_SOCKET SO_KEEPALIVE);
use TestServer     ();

my $directory = File::Temp->newdir;

our ($later, $kept_inform, $kept_io, @gone);

my %return = (
    plain => sub { [ 200, [], ["pid $$"] ] },

    # ---- cleanup
    cleanup => sub {
        my ($env) = @_;
        push @{ $env->{'psgix.cleanup.handlers'} }, sub {
            my ($given) = @_;
            seek $given->{'psgi.input'}, 0, 0;
            my $content = do { local $/; readline $given->{'psgi.input'} };
            note_down("cleanup of $given->{PATH_INFO} with $content");
            push @{ $given->{'psgix.cleanup.handlers'} }, sub { note_down('a second one') };
        };
        [ 200, [], ['ok'] ];
    },
    cleanup_waits => sub {
        my ($env) = @_;
        push @{ $env->{'psgix.cleanup.handlers'} }, sub { TestServer::wait_for(sub { -e "$directory/go" }, 15); note_down('it waited') };
        [ 200, [], ['answered'] ];
    },
    cleanup_dies => sub {
        my ($env) = @_;
        push @{ $env->{'psgix.cleanup.handlers'} }, sub { die "in cleanup\n" }, sub { note_down('the next one runs') };
        [ 200, [], ['ok'] ];
    },
    cleanup_after_death => sub {
        my ($env) = @_;
        push @{ $env->{'psgix.cleanup.handlers'} }, sub { note_down('cleaned up after death') };
        die "on purpose\n";
    },
    cleanup_of_stream => sub {
        my ($env) = @_;
        sub {
            my $writer = $_[0]->([ 200, [] ]);
            push @{ $env->{'psgix.cleanup.handlers'} }, sub { note_down('cleaned up after a stream') };
            $writer->write('streamed');
            $writer->close;
        };
    },
    cleanup_of_late => sub {
        my ($env) = @_;
        push @{ $env->{'psgix.cleanup.handlers'} }, sub { note_down('cleaned up late') };
        sub { ($later) = @_ };
    },
    answer_late => sub { note_down('before late: ' . (noted() =~ /cleaned up late/ ? 'yes' : 'no')); $later->([ 200, [], ['late'] ]); undef $later; [ 200, [], ['now'] ] },
    cleanup_harakiri => sub {
        my ($env) = @_;
        push @{ $env->{'psgix.cleanup.handlers'} }, sub { note_down("cleanup in $$"); $_[0]{'psgix.harakiri.commit'} = 1 };
        [ 200, [], ["pid $$"] ];
    },

    # ---- harakiri
    harakiri => sub { $_[0]{'psgix.harakiri.commit'} = 1; [ 200, [], ["pid $$"] ] },
    no_harakiri => sub { $_[0]{'psgix.harakiri.commit'} = 0; [ 200, [], ["pid $$"] ] },

    # ---- informational
    inform => sub {
        my ($env) = @_;
        $env->{'psgix.informational'}->(103, [ Link => '</a.css>; rel=preload', 'X-One' => 1 ]);
        $env->{'psgix.informational'}->(102, []);
        [ 200, [], ['final'] ];
    },
    inform_wrong => sub {
        my ($env) = @_;
        for my $arguments ([ 200, [] ], [ 101, [] ], [103], [ 103, ['X'] ], [ 103, [ X => "a\r\nb" ] ]) {
            eval { $env->{'psgix.informational'}->(@{$arguments}) };
            note_down("inform: $@");
        }
        [ 200, [], ['final'] ];
    },
    keep_inform => sub { $kept_inform = $_[0]{'psgix.informational'}; [ 200, [], ['kept'] ] },
    use_inform => sub { eval { $kept_inform->(103, [ 'X-Stale' => 1 ]) }; [ 200, [], ['final'] ] },

    # ---- logger
    logger => sub {
        my ($env) = @_;
        $env->{'psgix.logger'}->({ level => $_, message => "a message of $_" }) for qw(info warn error fatal);
        eval { $env->{'psgix.logger'}->({ level => 'loud', message => 'x' }) };
        note_down("logger: $@");
        eval { $env->{'psgix.logger'}->('text') };
        note_down("logger: $@");
        [ 200, [], ['ok'] ];
    },

    # ---- io
    hijack => sub {
        my ($env) = @_;
        my $socket = $env->{'psgix.io'};
        $socket->syswrite("raw answer\r\n");
        my $line = readline $socket;
        print {$socket} "you said $line";
        close $socket;
        return [];
    },
    hijack_host => sub {
        my ($env) = @_;
        my $socket = $env->{'psgix.io'};
        print {$socket} join q{ }, ref $socket, $socket->peerhost, $socket->peerport == $env->{REMOTE_PORT} ? 'same' : 'other', fileno($socket) > 2 ? 'open' : 'closed';
        sub { };
    },
    hijack_and_return => sub { my ($env) = @_; syswrite $env->{'psgix.io'}, "raw answer\r\n"; [ 200, [], ['a second one'] ] },
    hijack_and_respond => sub {
        my ($env) = @_;
        sub { syswrite $env->{'psgix.io'}, "raw answer\r\n"; my $writer = $_[0]->([ 200, [] ]); $writer->write('a second one'); $writer->close };
    },
    ask_io => sub { my ($env) = @_; my $host = $env->{'psgix.io'}->peerhost; [ 200, [], ["you are $host"] ] },
    hijack_later => sub { my ($env) = @_; $kept_io = $env->{'psgix.io'}; my $number = fileno $kept_io; sub { } },
    hijack_use => sub { syswrite $kept_io, 'later bytes'; undef $kept_io; [ 200, [], ['ok'] ] },
    keep_io => sub { $kept_io = $_[0]{'psgix.io'}; [ 200, [], ['kept'] ] },
    use_io => sub { return [ 200, [], ['elsewhere'] ] if !$kept_io; my $sent = syswrite $kept_io, 'stale bytes'; my $fileno = fileno $kept_io; [ 200, [], [ 'sent ' . (defined $sent && $sent > 0 ? $sent : 'nothing') . ", descriptor $fileno" ] ] },
    look_io => sub {
        my ($env) = @_;
        my %copy = %{$env};
        my $text = "$copy{'psgix.io'}" . (defined $env->{'psgix.io'}) . ref $env->{'psgix.io'};
        $copy{'psgix.io'}->can('peerhost');
        local $env->{'psgix.io'} = 1;
        flush STDOUT;
        my $pid = fork // die;
        POSIX::_exit(0) if !$pid;
        waitpid $pid, 0;
        [ 200, [], ['looked'] ];
    },
    close_io => sub { my ($env) = @_; close $env->{'psgix.io'}; [ 200, [], ['closed'] ] },
    close_io_method => sub { my ($env) = @_; $env->{'psgix.io'}->close; [ 200, [], ['closed'] ] },
    alive => sub { my @notes = @gone; [ 200, [], ["@notes"] ] },
);

# Calls that use no byte of the connection.
my %look = (
    fileno      => sub { fileno $_[0] },
    opened      => sub { $_[0]->opened },
    stat        => sub { my @facts = stat $_[0] },
    file_test   => sub { -S $_[0] },
    can_read    => sub { IO::Select->new($_[0])->can_read(0) },
    can_write   => sub { IO::Select->new($_[0])->can_write(0) },
    peek        => sub { recv $_[0], my $bytes, 100, MSG_PEEK | MSG_DONTWAIT },
    peername    => sub { getpeername $_[0] },
    option      => sub { setsockopt $_[0], SOL_SOCKET, SO_KEEPALIVE, 1 },
    blocking    => sub { $_[0]->blocking(0); $_[0]->blocking(1) },
    finds_none  => sub { $_[0]->blocking(0); sysread $_[0], my $bytes, 100; $_[0]->blocking(1) },
    duplicate   => sub { open my $copy, '+<&', $_[0] or die $! },
    informs     => sub { my $number = fileno $_[0]; $_[1]{'psgix.informational'}->(103, [ 'X-One' => 1 ]) },
);
my %after_look = (
    array   => sub { [ 200, [], ['an answer'] ] },
    handle  => sub { open my $handle, '<', \'an answer'; [ 200, [], $handle ] },
    stream  => sub { sub { my $writer = $_[0]->([ 200, [] ]); $writer->write('an answer'); $writer->close } },
    delayed => sub { sub { $_[0]->([ 200, [], ['an answer'] ]) } },
    forgets => sub { my ($env) = @_; delete $env->{'psgix.io'}; [ 200, [], ['an answer'] ] },
    dies    => sub { die "after a look\n" },
    wrong   => sub { [ 'OK', [], [] ] },
);
for my $look (keys %look) {
    for my $after (keys %after_look) {
        $return{"look_${look}_and_$after"} = sub { my ($env) = @_; $look{$look}->($env->{'psgix.io'}, $env); $after_look{$after}->($env) };
    }
}

my $app = sub { my ($env) = @_; my ($name) = $env->{PATH_INFO} =~ m{/(\w+)}; return $return{$name}->($env) };

# A call that only inspects the socket leaves the answer to the server.
sub look_at {
    my ($server) = @_;
    # A read that does not wait marks a socket without byte counts as read.
    my @looks = grep { $_ ne 'finds_none' || !($server->path || $server->{certificate}) } sort keys %look;
    for my $look (@looks) {
        for my $after (sort keys %after_look) {
            my $raw = $server->connection;
            my $response = $raw->request(GET => "/look_${look}_and_$after");
            $response = $raw->response('GET') if $response->{status} == 103;
            my $expected = $after =~ /dies|wrong/ ? 500 : 200;
            is $response->{status}, $expected, "a look by $look, then $after: it is answered";
            is $response->{body}, 'an answer', "$look, $after: with the app's answer" if $expected == 200;
            ok $response->{whole}, "$look, $after: a whole one";
            is $raw->rest, q{}, "$look, $after: and the connection ends";
        }
    }
    for my $way (qw(close_io close_io_method)) {
        my $raw = $server->connection;
        $raw->send("GET /$way HTTP/1.1\r\nHost: x\r\n\r\n");
        is $raw->rest, q{}, "$way: an app that closes the socket ends the connection";
    }
    return;
}

sub test_with {
    my ($label, %options) = @_;
    forget_notes();
    unlink "$directory/go";
    my $server     = TestServer->start(app => $app, options => { workers => 1, %options });
    my $connection = $server->connection;
    my $get        = sub {
        my $response = $connection->request(GET => "/$_[0]");
        my $closing  = TestServer::Connection::field($response, 'Connection') || q{};
        $connection = $server->connection if !$response->{whole} || $closing eq 'close';
        return $response;
    };

    subtest "$label: cleanup" => sub {
        is $connection->request(POST => '/cleanup', [], 'some content')->{body}, 'ok';
        like noted_like(qr/a second one/), qr{cleanup of /cleanup with some content\na second one}, 'runs with the environment, content included';
        is $get->('cleanup_dies')->{body}, 'ok';
        like noted_like(qr/the next one/), qr/the next one runs/, 'goes on after a handler died';
        like $server->log_like(qr/in cleanup/), qr{GET /cleanup_dies: a cleanup handler died: in cleanup}, 'which is logged';
        is $get->('cleanup_after_death')->{status}, 500;
        like noted_like(qr/after death/), qr/cleaned up after death/, 'runs after the app died';
        is $get->('cleanup_of_stream')->{body}, 'streamed';
        like noted_like(qr/after a stream/), qr/cleaned up after a stream/, 'runs after a stream';
        if ($label eq 'a worker') {
            my $late = $server->connection;
            $late->send("GET /cleanup_of_late HTTP/1.1\r\nHost: x\r\n\r\n");
            select undef, undef, undef, 0.2;
            is $get->('answer_late')->{body}, 'now';
            is $late->response('GET')->{body}, 'late';
            like noted_like(qr/cleaned up late/), qr/before late: no\ncleaned up late/, 'runs after a late answer';
        }
        is $get->('cleanup_waits')->{body}, 'answered', 'the answer does not wait for it';
        unlike noted(), qr/it waited/;
        open my $go, '>', "$directory/go" or die $!;
        close $go;
        like noted_like(qr/it waited/), qr/it waited/;
    };

    subtest "$label: harakiri" => sub {
        my $before = $get->('plain')->{body};
        is $get->('no_harakiri')->{body}, $before, 'a false commit';
        is $get->('plain')->{body},       $before, 'is none';
        is $get->('harakiri')->{status},  200,     'a true one is answered';
        if ($label eq 'a worker') {
            my $other = sub { my ($than) = @_; TestServer::wait_for(sub { $server->get('/plain')->{body} ne $than }, 10) };
            ok $other->($before), 'then another process answers';
            $connection = $server->connection;
            my $second = $get->('cleanup_harakiri')->{body};
            like noted_like(qr/cleanup in/), qr/cleanup in @{[ $second =~ m{(\d+)} ]}/, 'cleanup comes first';
            ok $other->($second), 'and may commit';
            $connection = $server->connection;
        } else {
            is $get->('plain')->{body}, $before, 'with threads the process stays';
        }
    };

    subtest "$label: informational" => sub {
        my $informing = $server->connection;
        my $first     = $informing->request(GET => '/inform');
        is $first->{status}, 103;
        is_deeply $first->{fields}, [ Link => '</a.css>; rel=preload', 'X-One' => 1 ], 'with its fields';
        is $informing->response->{status}, 102;
        is $informing->response('GET')->{body}, 'final';
        my $old = $server->connection;
        $old->send("GET /inform HTTP/1.0\r\n\r\n");
        unlike $old->rest, qr/ 103 /, 'not for HTTP/1.0';
        is $get->('inform_wrong')->{body}, 'final';
        my @told = noted() =~ /^inform: (.+)/mg;
        is scalar @told, 5, 'what is wrong is told';
        is $get->('keep_inform')->{body}, 'kept';
        is $get->('use_inform')->{status}, 200, 'a callback that was kept does nothing for another request';
    };

    subtest "$label: logger" => sub {
        is $get->('logger')->{body}, 'ok';
        my $log = $server->log_like(qr/a message of fatal/);
        like $log, qr/\[info\].*a message of info/;
        like $log, qr/\[warn\].*a message of warn/;
        like $log, qr/\[error\].*a message of error/;
        like $log, qr/\[error\].*a message of fatal/;
        like noted(), qr/logger: psgix.logger knows the levels/;
        like noted(), qr/logger: psgix.logger expects a hash reference/;
    };

    subtest "$label: io" => sub {
        my $raw = $server->connection;
        $raw->send("GET /hijack HTTP/1.1\r\nHost: x\r\n\r\n");
        $raw->fill while $raw->{buffer} !~ /\n/;
        $raw->send("hello\r\n");
        is $raw->rest, "raw answer\r\nyou said hello\r\n", 'the app speaks for itself';
        $raw = $server->connection;
        $raw->send("GET /hijack_host HTTP/1.1\r\nHost: x\r\n\r\n");
        is $raw->rest, 'IO::Socket::INET 127.0.0.1 same open', 'through a socket that knows its peer';
        for my $way (qw(hijack_and_return hijack_and_respond)) {
            $raw = $server->connection;
            $raw->send("GET /$way HTTP/1.1\r\nHost: x\r\n\r\n");
            is $raw->rest, "raw answer\r\n", "$way: what the app answers besides is dropped";
        }
        is $get->('ask_io')->{body}, 'you are 127.0.0.1', 'who only asks for an address answers in the ordinary way';
        # With threads, the second request may reach the interpreter that has kept nothing.
        my $used = 'elsewhere';
        for (1 .. 100) {
            is $get->('keep_io')->{body}, 'kept';
            $used = $get->('use_io')->{body};
            last if $used ne 'elsewhere';
        }
        is $used, 'sent nothing, descriptor -1', 'a handle that was kept reaches no other connection';
        look_at($server);
        is $get->('look_io')->{body}, 'looked';
        my $same = $connection;
        is $get->('plain')->{status}, 200;
        is $connection, $same, 'looking at it, and forking, leave the connection alone';
        if ($label eq 'a worker') {
            $raw = $server->connection;
            $raw->send("GET /hijack_later HTTP/1.1\r\nHost: x\r\n\r\n");
            select undef, undef, undef, 0.2;
            is $get->('hijack_use')->{body}, 'ok';
            is $raw->rest, 'later bytes', 'the socket may be kept';
        }
    };
    # A response that is dropped after the app has written bytes is logged.
    my @dropped = grep {/dropped/} split /\n/, $server->log_text;
    my %told    = map { (/GET (\S+): the app has .* psgix\.io.* so its answer was dropped/ ? $1 : $_) => 1 } @dropped;
    my $is_direct = ($ENV{ORIBI_TEST_HTTP2} || 'off') ne 'on';
    is_deeply [ sort keys %told ], [ $is_direct ? qw(/close_io /close_io_method /hijack_and_respond /hijack_and_return) : () ], "$label: nobody dropped anything else";
    is $server->stop, 0, "$label: stopped";
    return;
}

test_with('a worker');
subtest 'a Unix socket: io' => sub {
    my $server = TestServer->start(app => $app, unix => 1);
    look_at($server);
    is $server->stop, 0;
};
test_with('threads', threads => 2) if Oribi::Options::has_threads();

done_testing;
