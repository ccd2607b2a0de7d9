# An app that waits in the event loop that $ENV{TEST_LOOP} names.

use strict;
use warnings;

my ($loop, %open, $most, @held);
my $gone = 0;

# after(SECONDS, CODE) of each loop.
my %makes = (
    ev => sub {
        require EV;
        return sub { my ($seconds, $code) = @_; my $timer; $timer = EV::timer($seconds, 0, sub { undef $timer; $code->() }) };
    },
    anyevent => sub {
        require AnyEvent;
        return sub { my ($seconds, $code) = @_; my $timer; $timer = AnyEvent->timer(after => $seconds, cb => sub { undef $timer; $code->() }) };
    },
    ioasync => sub {
        require IO::Async::Loop;
        return sub { my ($seconds, $code) = @_; IO::Async::Loop->new->watch_time(after => $seconds, code => $code) };
    },
    mojo => sub {
        require Mojo::IOLoop;
        return sub { my ($seconds, $code) = @_; Mojo::IOLoop->timer($seconds => sub { $code->() }) };
    },
);
my $after = $makes{ $ENV{TEST_LOOP} }->();

sub text { return [200, ['Content-Type' => 'text/plain'], ["@_"]] }

my %answer = (
    '/nonblocking' => sub { text($_[0]{'psgi.nonblocking'} ? 'yes' : 'no') },
    '/process'     => sub { text($$) },
    # Waits until so many requests are here, and then a second.
    '/together' => sub {
        my ($env) = @_;
        return sub {
            my ($respond) = @_;
            push @held, $respond;
            print {*STDERR} "held\n";
            $most = @held if @held > ($most // 0);
            return if @held < $env->{QUERY_STRING};
            my @all = splice @held;
            for my $one (@all) {
                $after->(1, sub { $one->(text('waited')) });
            }
        };
    },
    '/most'  => sub { text($most // 0) },
    '/after' => sub {
        my ($env) = @_;
        return sub { my ($respond) = @_; $after->($env->{QUERY_STRING}, sub { $respond->(text('late')) }) };
    },
    # Block the worker until a file is there: at once, or in a callback.
    '/block' => sub {
        my ($env) = @_;
        print {*STDERR} "blocks $$\n";
        select undef, undef, undef, 0.01 until -e $env->{QUERY_STRING};
        return text('blocked');
    },
    '/block-later' => sub {
        my ($env) = @_;
        return sub {
            my ($respond) = @_;
            $after->(
                0.05,
                sub {
                    print {*STDERR} "blocks $$\n";
                    select undef, undef, undef, 0.01 until -e $env->{QUERY_STRING};
                    $respond->(text('blocked'));
                }
            );
        };
    },
    '/busy'    => sub { 1 while 1 },
    '/compute' => sub { my $sum = 0; $sum += $_ for 1 .. 2_000_000; text($sum) },
    '/leave'   => sub {
        return sub {
            my ($respond) = @_;
            my $key = "$respond";
            $open{$key} = $respond;
            Oribi::on_gone($respond, sub { $gone++; (delete $open{$key})->(text('nobody')) });
        };
    },
    # By the environment, as middleware does it.
    '/leave-below' => sub {
        my ($env) = @_;
        my $key;
        $env->{'oribi.on_gone'}->(sub { $gone++; delete $open{$key} });
        return sub { my ($respond) = @_; $open{ $key = "$respond" } = $respond };
    },
    '/room-dies' => sub {
        my ($env) = @_;
        return sub {
            my ($respond) = @_;
            my $writer = $respond->([200, []]);
            my $times  = 0;
            my $room   = sub { die "no more of this\n" if $times++ == 2; $writer->write('piece') };
            $env->{QUERY_STRING} eq 'poll' ? $writer->poll_cb($room) : $env->{'oribi.on_room'}->($room);
        };
    },
    '/room' => sub {
        my ($env) = @_;
        my ($writer, $left) = (undef, 100);
        $env->{'oribi.on_room'}->(sub { $left-- ? $writer->write('x' x 65_536) : $writer->close });
        return sub { my ($respond) = @_; $after->(0.01, sub { $writer = $respond->([200, []]) }) };
    },
    '/flush' => sub {
        return sub {
            my ($respond) = @_;
            $after->(0.01, sub { my $writer = $respond->([200, ['X-Early' => 'yes']]); $writer->flush for 1 .. 2; push @held, $writer });
        };
    },
    '/release' => sub { $_->close for splice @held; text('released') },
    '/leave-stream' => sub {
        return sub {
            my ($respond) = @_;
            my $writer = $respond->([200, []]);
            $writer->write('begun');
            $open{$writer} = $writer;
            Oribi::on_gone($writer, sub { $gone++; die "it writes\n" if $writer->write('x'); delete $open{$writer}; undef $writer });
        };
    },
    '/open'   => sub { text(scalar keys %open) },
    '/gone'   => sub { text($gone) },
    '/stream' => sub {
        my ($env) = @_;
        return sub {
            my ($respond) = @_;
            my $writer = $respond->([200, []]);
            my ($pieces, $calls) = (0, 0);
            $writer->poll_cb(
                sub {
                    my ($self) = @_;
                    $self->write(chr(97 + $pieces % 26) x 65_536);
                    return if ++$pieces < $env->{QUERY_STRING};
                    $self->poll_cb(undef);
                    $self->close;
                }
            );
        };
    },
    '/dies' => sub {
        return sub { my ($respond) = @_; $after->(0, sub { $respond->(text('answered')); die "the callback dies\n" }) };
    },
    '/drops' => sub { return sub { my ($respond) = @_; $after->(0, sub { undef $respond }) } },
    '/recv'  => sub {
        my $done = AnyEvent->condvar;
        $after->(0.1, sub { $done->send('received') });
        text($done->recv);
    },
    '/await' => sub {
        my $code = eval q{
            use Future::AsyncAwait;
            async sub {
                my ($respond) = @_;
                await(IO::Async::Loop->new->delay_future(after => 0.05));
                $respond->(text('awaited'));
            };
        } or die $@;
        return sub { my $future = $code->(@_); $future->retain };
    },
    '/exit' => sub { return sub { my ($respond) = @_; $after->(0, sub { exit 3 if $respond }) } },
);

sub { my ($env) = @_; return ($answer{ $env->{PATH_INFO} } || sub { [404, [], []] })->($env) };
