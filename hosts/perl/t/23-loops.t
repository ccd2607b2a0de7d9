# Apps that wait in an event loop of Perl, many at a time in one worker.

use strict;
use warnings;
use lib 't/lib';
use File::Temp ();
use OverHTTP2  ();
use Plack::Util ();
use Test::More;
use TestServer ();

plan skip_all => 'connections of HTTP/1' if OverHTTP2::is_on();

my %module = (ev => 'EV', anyevent => 'AnyEvent', ioasync => 'IO::Async::Loop', mojo => 'Mojo::IOLoop');

# The modules must not be loaded in this process, in which no loop runs.
sub is_there {
    my ($loop) = @_;
    return system($^X, "-M$module{$loop}", '-e', '1') == 0;
}

sub start {
    my ($loop, %options) = @_;
    local $ENV{TEST_LOOP} = $loop;
    return TestServer->start(load => sub { Plack::Util::load_psgi('t/lib/waiting.psgi') }, options => {%options});
}

# Sends a request on a connection of its own, and does not wait for the answer.
sub ask {
    my ($server, $target) = @_;
    my $connection = $server->connection;
    $connection->send("GET $target HTTP/1.1\r\nHost: localhost\r\n\r\n");
    return $connection;
}

sub leaves {
    my ($connection) = @_;
    # The end of the connection without its data being read is a reset.
    setsockopt $connection->socket, Socket::SOL_SOCKET(), Socket::SO_LINGER(), pack 'll', 1, 0;
    return close $connection->socket;
}

for my $case ('ev', 'anyevent', 'anyevent over EV', 'ioasync', 'mojo') {
    my ($loop, undef, $over) = split / /, $case;
    subtest $case => sub {
        plan skip_all => "$module{$loop} is not installed" if !is_there($loop);
        local $ENV{PERL_ANYEVENT_MODEL} = $over || 'Perl';
        my $server = start($loop, concurrency => 1000);
        ok $server->started, 'it starts' or return diag($server->log_text);
        is $server->get('/nonblocking')->{body}, 'yes', 'the loop that the app has loaded runs';
        my $count   = $case eq 'ev' ? 999 : 60;
        my @waiting = map { ask($server, "/together?$count") } 2 .. $count;
        is $server->get('/compute')->{status}, 200, 'a request that computes is answered meanwhile';
        push @waiting, ask($server, "/together?$count");
        is scalar(grep { $_->response->{body} eq 'waited' } @waiting), $count, "$count requests are answered";
        is $server->get('/most')->{body}, $count, 'all were open at the same time, in one worker';
        is $server->get('/dies')->{body}, 'answered', 'a callback that dies';
        is $server->get('/after?0.01')->{body}, 'late', 'harms no other';
        is $server->get('/drops')->{status}, 500, 'a responder that is dropped';
        if ($loop eq 'anyevent') {
            my $late = ask($server, '/after?0.05');
            is $server->get('/recv')->{body}, 'received', 'an app may wait within a request';
            is $late->response->{body}, 'late', 'and others are answered meanwhile';
        }
        if ($loop eq 'ioasync' && system($^X, '-MFuture::AsyncAwait', '-e', '1') == 0) {
            is $server->get('/await')->{body}, 'awaited', 'async and await';
        }
        is length $server->get('/stream?100')->{body}, 100 * 65_536, 'a writer that is polled';
        is $server->stop, 0, 'it ends';
    };
}

subtest 'exit in a callback' => sub {
    plan skip_all => 'AnyEvent is not installed' if !is_there('anyevent');
    local $ENV{PERL_ANYEVENT_MODEL} = 'Perl';
    my $server = start('anyevent');
    my $late   = ask($server, '/after?0.5');
    is $server->get('/exit')->{status}, 500, 'its client gets a 500';
    like $server->log_like(qr/called exit/), qr/the app called exit\(3\); its interpreter is replaced/, 'the log has it';
    is $late->response->{body}, 'late', 'others are answered';
    is $server->get('/after?0.01')->{body}, 'late', 'and a new worker serves';
    is $server->stop, 0;
};

sub stops_with_open_answers {
    my ($signal, $what, %options) = @_;
    my $server  = start('ev', %options);
    my @waiting = map { ask($server, '/after?1') } 1 .. 5;
    is $server->get('/nonblocking')->{body}, 'yes', 'the app has all requests';
    kill $signal => $server->pid;
    is scalar(grep { $_->response->{body} eq 'late' } @waiting), 5, "$what: open answers are finished";
    return $server;
}

SKIP: {
    skip 'EV is not installed', 1 if !is_there('ev');

    subtest 'clients that leave' => sub {
        my $server = start('ev');
        for my $target ('/leave', '/leave-stream', '/leave-below') {
            my @connections = map { ask($server, $target) } 1 .. 3;
            ok TestServer::wait_for(sub { $server->get('/open')->{body} == 3 }), "$target: three clients wait";
            my $before = $server->get('/gone')->{body};
            leaves($_) for @connections;
            ok TestServer::wait_for(sub { $server->get('/gone')->{body} == $before + 3 }), 'the app learns that they have gone';
            is $server->get('/open')->{body}, 0, 'and lets them go';
        }
        unlike $server->log_text, qr/it writes|dropped/, 'without an error';
        is $server->stop, 0;
    };

    subtest 'a slow client stops no other' => sub {
        my $server = start('ev');
        my $slow   = ask($server, '/stream?1600');
        is length $server->get('/stream?50')->{body}, 50 * 65_536, 'another stream is sent meanwhile';
        my $content = $slow->response->{body};
        is length $content, 1600 * 65_536, 'and the slow client gets everything';
        is $server->stop, 0;
    };

    subtest 'room by the environment' => sub {
        my $server = start('ev');
        is length $server->get('/room')->{body}, 100 * 65_536, 'a callback that is set before the response';
        for my $way (qw(poll environment)) {
            my $cut = ask($server, "/room-dies?$way")->response;
            is_deeply [@{$cut}{qw(status body whole)}], [200, 'piecepiece', 0], "$way: the response is cut off if the callback dies";
        }
        my $log = $server->log_text;
        is scalar(() = $log =~ /a callback for room died, so its response is cut off: no more of this/g), 2, 'the log has it';
        my $early = ask($server, '/flush');
        1 while $early->{buffer} !~ /\r\n\r\n/ && $early->fill;
        like $early->{buffer}, qr/^X-Early: yes\r$/m, 'a head before its content';
        is $server->get('/release')->{body}, 'released';
        ok $early->response->{whole}, 'which ends';
        is $server->stop, 0;
    };

    subtest 'a worker that is busy keeps no request from another' => sub {
        my $server = start('ev', workers => 2);
        my $folder = File::Temp->newdir;
        for my $target ('/block', '/block-later') {
            my $blocked = ask($server, "$target?$folder$target");
            my ($busy) = $server->log_like(qr/blocks (\d+)\n\z/) =~ /blocks (\d+)\n\z/;
            my %others = map { $server->get('/process')->{body} => 1 } 1 .. 40;
            is scalar(keys %others), 1, "$target: the other worker answers all requests";
            ok !$others{$busy}, 'while this one is busy';
            open my $file, '>', "$folder$target" or die $!;
            is $blocked->response->{body}, 'blocked', 'and answers later';
            truncate $server->{log_path}, 0;
        }
        is $server->stop, 0;
    };

    subtest 'deadlines' => sub {
        my $server  = start('ev', request_timeout => 1);
        my $edge    = ($ENV{ORIBI_EDGE} // 'off') eq 'on';
        my $waiting = ask($server, '/after?100');
        is $server->get('/busy')->{status}, 504, 'a request that computes is interrupted';
        is $server->get('/after?0.01')->{body}, 'late', 'and the worker serves';
        is $waiting->response->{status}, 504, 'behind an edge one that waits, too' if $edge;
        is $server->stop($edge ? 'TERM' : 'KILL'), $edge ? 0 : 9;
    };

    subtest 'the most open answers' => sub {
        my $server  = start('ev', concurrency => 3);
        my @waiting = map { ask($server, '/after?0.2') } 1 .. 20;
        is scalar(grep { $_->response->{body} eq 'late' } @waiting), 20, 'the others wait for their turn';
        my @stuck = map { ask($server, '/together?4') } 1 .. 3;
        like $server->log_like(qr/(?:held.*){3}/s), qr/(?:held.*){3}/s, 'three are open';
        push @stuck, ask($server, '/together?4');
        leaves(shift @stuck);
        is scalar(grep { $_->response->{body} eq 'waited' } @stuck), 3, 'a client that leaves makes room';
        is $server->stop, 0;
    };

    subtest 'ends' => sub {
        my $server = stops_with_open_answers(TERM => 'stop');
        is $server->wait_end, 0, 'and the server ends';
        $server = stops_with_open_answers(HUP => 'reload');
        is $server->get('/after?0.01')->{body}, 'late', 'and the new worker serves';
        is $server->stop, 0;
        $server = start('ev', max_requests => 3);
        my @waiting = map { ask($server, '/after?0.5') } 1 .. 9;
        is scalar(grep { $_->response->{body} eq 'late' } @waiting), 9, 'a worker that is replaced finishes its answers';
        is $server->stop, 0;
    };

    subtest 'a boot request waits in the loop' => sub {
        my $server = start('ev', boot_request => '/after?0.1');
        is $server->get('/after?0.01')->{body}, 'late';
        is $server->stop, 0;
    };

    subtest 'no loop' => sub {
        my $server = start('ev', loop => 'none');
        is $server->get('/nonblocking')->{body}, 'no', 'psgi.nonblocking is false';
        is $server->get('/stream?1')->{status}, 500, 'a writer cannot be polled';
        is $server->get('/leave')->{status},    500, 'nor a client be observed';
        like $server->log_like(qr/on_gone/), qr/poll_cb needs an event loop: see --loop.*Oribi::on_gone needs an event loop/s, 'and the log says why';
        is $server->stop, 0;
        for my $wrong ([{ loop => 'glib' }, qr/expected auto, none, ev/], [{ loop => 'ev', threads => 2 }, qr/--loop ev needs --threads 1/]) {
            my ($options, $message) = @{$wrong};
            $server = start('ev', %{$options});
            isnt $server->wait_end, 0, "$options->{loop} is an error";
            like $server->log_text, $message, 'and the message says why';
        }
    };
}

done_testing;
