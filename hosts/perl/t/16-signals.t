# Signal handlers and timers of an app: while its worker waits for requests or for a slow client, and together with the server's
# own.

use strict;
use warnings;
use lib 't/lib';
use Notes;
use Oribi::Options ();
use Test::More;
use TestServer     ();

# Set before the module that serves is asked for anything, as by an app that plackup loads.
local $SIG{URG} = sub { note_down("loaded URG in $$") };

my $piece = 'x' x 65536;
my $responder;
my %app = (
    pid    => sub { [ 200, [], [$$] ] },
    handle => sub { $SIG{WINCH} = sub { note_down('WINCH') }; [ 200, [], [$$] ] },
    dies   => sub { $SIG{WINCH} = sub { die "in a handler\n" }; [ 200, [], [$$] ] },
    later  => sub {
        return sub {
            $responder = shift;
            $SIG{ALRM} = sub { $responder->([ 200, [], ['late answer'] ]); undef $responder };
            alarm 1;
        };
    },
    # More than a client that does not read takes.
    write => sub {
        return sub {
            my $writer = $_[0]->([ 200, [] ]);
            local $SIG{WINCH} = sub { die "interrupted\n" };
            my $done = eval { $writer->write($piece) for 1 .. 400; 1 };
            note_down('write: ' . ($done ? 'done' : $@));
            $writer->write('the end') if !$done;
            $writer->close;
        };
    },
    go_on => sub {
        return sub {
            my $writer = $_[0]->([ 200, [] ]);
            local $SIG{WINCH} = sub { note_down('while it waits') };
            $writer->write($piece) for 1 .. 400;
            $writer->close;
        };
    },
    local_child => sub {
        { local $SIG{CHLD} = 'DEFAULT'; local $SIG{CHLD} = sub { }; local $SIG{CHLD} }
        $SIG{TERM} = sub { note_down('TERM of the app') };
        { local $SIG{CHLD} = sub { }; local $SIG{CHLD} = 'DEFAULT' }
        kill TERM => $$;
        my $handled = noted() =~ /TERM of the app/;
        $SIG{TERM} = 'DEFAULT';
        [ 200, [], [$handled ? 'handled' : 'not handled'] ];
    },
    exits => sub { $SIG{WINCH} = sub { exit 3 }; [ 200, [], [$$] ] },
    deleted => sub {
        delete $SIG{TERM};
        $SIG{TERM} = sub { };
        $SIG{TERM} = 'DEFAULT';
        kill TERM => $$;
        [ 200, [], ['lives'] ];
    },
    nested_default => sub { { local $SIG{TERM} = sub { }; $SIG{TERM} = 'DEFAULT'; kill TERM => $$; select undef, undef, undef, 0.01 } [ 200, [], ['lives'] ] },
);
my $app = sub { my ($env) = @_; my ($name) = $env->{PATH_INFO} =~ m{/(\w+)}; return $app{$name}->($env) };

sub started { forget_notes(); return TestServer->start(app => $app, @_) }

# The worker's own state of the client's socket shows that it waits, and that nothing more is sent.
sub wait_until_full {
    my ($socket) = @_;
    my $last = -1;
    TestServer::wait_for(sub {
        my $waiting = pack 'i', 0;
        ioctl $socket, 0x541B, $waiting;    # FIONREAD
        my $now  = unpack 'i', $waiting;
        my $same = $now > 0 && $now == $last;
        $last = $now;
        select undef, undef, undef, 0.2;
        return $same;
    });
    return;
}

for my $io (qw(epoll io_uring)) {
    my $server = started(options => { io => $io });
    my $pid    = $server->get('/handle')->{body};
    kill WINCH => $pid;
    like noted_like(qr/WINCH/), qr/WINCH/, "$io: a handler runs while the worker is idle";
    kill URG => $pid;
    like noted_like(qr/URG/), qr/loaded URG in $pid/, "$io: and one that was set before";
    $server->get('/dies');
    kill WINCH => $pid;
    like $server->log_like(qr/in a handler/), qr/a signal handler died: in a handler/, "$io: what it dies of is logged";
    is $server->get('/pid')->{body}, $pid, "$io: and the worker goes on";
    is $server->get('/later')->{body}, 'late answer', "$io: a timer answers an exchange that was kept";
    is $server->stop, 0, 'stopped';
}

for my $how (
    [ write => qr/write: interrupted/, 'a handler that dies ends the write of its app' ],
    [ go_on => qr/while it waits/,     'a handler runs while a write waits' ],
    )
{
    my ($path, $pattern, $what) = @{$how};
    # Without a file, the app waits for its client.
    my $server = started(options => { output_spool_size => 'off' });
    my $pid    = $server->get('/pid')->{body};
    my $client = $server->connection;
    $client->send("GET /$path HTTP/1.1\r\nHost: x\r\n\r\n");
    wait_until_full($client->socket);
    kill WINCH => $pid;
    like noted_like($pattern), $pattern, $what;
    my $response = $client->response('GET');
    ok $response->{whole}, 'and the response is whole';
    if ($path eq 'write') {
        like $response->{body}, qr/\Ax+the end\z/, 'with what was written before and after it';
    } else {
        is length $response->{body}, 400 * 65536, 'with all that was written';
    }
    is $server->stop, 0, 'stopped';
}

{
    my $server = started();
    is $server->get('/local_child')->{body}, 'handled', 'local $SIG{CHLD} leaves the handler of TERM alone';
    is $server->get('/nested_default')->{body}, 'lives', 'the default within a local is the server\'s, too';
    ok TestServer::wait_for(sub { ($server->get('/pid')->{body} || q{}) =~ /\d/ }), 'and the worker is replaced';
    is $server->get('/deleted')->{body}, 'lives', 'and that of an entry that was deleted';
    is $server->stop, 0, 'stopped';
    $server = started();
    my $pid = $server->get('/exits')->{body};
    kill WINCH => $pid;
    like $server->log_like(qr/exit\(3\)/), qr/the app called exit\(3\)/, 'a handler that exits while the worker is idle is told of';
    ok TestServer::wait_for(sub { my $now = $server->get('/pid')->{body} || q{}; $now =~ /\d/ && $now ne $pid }), 'and the worker is replaced';
    is $server->stop, 0, 'stopped';
}

if (Oribi::Options::has_threads()) {
    my $server = started(
        load    => sub {
            return eval q{
                my $responder;
                sub { sub { $responder = shift; $SIG{ALRM} = sub { $responder->([ 200, [], ['late answer'] ]) }; alarm 1 } };
            } || die $@;
        },
        options => { threads => 2 },
    );
    is $server->get('/')->{body}, 'late answer', 'threads: a timer answers an exchange that was kept';
    is $server->stop, 0, 'stopped';
}

done_testing;
