# An app that falls ill on demand; docs/observe.md shows each illness in the figures. sick.ru and sick.lua are the same.
#
#     oribi examples/sick.psgi --workers 2 --metrics 9090 --dashboard on
#
# then ask for one of these. A number may follow a question mark, as in /slow?0.5.
#
#     /       is well
#     /slow   sleeps for 2 seconds, as an app does that waits for a database
#     /busy   computes for 0.5 seconds
#     /leak   keeps 8 MiB for ever
#     /large  answers with 32 MiB, written as fast as the client takes them
#     /fail   answers with a 500
#     /die    kills its worker
#     /stuck  never ends

use strict;
use warnings;
use Time::HiRes qw(sleep time);

my @kept;

sub text {
    my ($status, $text) = @_;
    return [ $status, [ 'Content-Type' => 'text/plain' ], ["$text\n"] ];
}

my %answers = (
    '/' => sub { return text(200, 'well') },

    '/slow' => sub {
        my ($seconds) = @_;
        sleep $seconds;
        return text(200, "slept for $seconds seconds");
    },

    '/busy' => sub {
        my ($seconds) = @_;
        my ($end, $turns) = (time + $seconds, 0);
        $turns++ while time < $end;
        return text(200, "computed for $seconds seconds");
    },

    '/leak' => sub {
        my ($mebibytes) = @_;
        push @kept, "\1" x ($mebibytes << 20);
        return text(200, 'kept ' . @kept . ' pieces');
    },

    '/large' => sub {
        my ($mebibytes) = @_;
        return sub {
            my ($respond) = @_;
            my $writer = $respond->([ 200, [ 'Content-Type' => 'application/octet-stream' ] ]);
            $writer->write("\1" x (1 << 20)) for 1 .. $mebibytes;
            $writer->close;
        };
    },

    '/fail' => sub { return text(500, 'failed') },

    '/die' => sub {
        kill KILL => $$;
        sleep 60;
        return text(500, 'alive');
    },

    '/stuck' => sub { sleep 60 while 1 },
);

# The default of the number, and its maximum.
my %default = ('/slow' => 2,  '/busy' => 0.5, '/leak' => 8,  '/large' => 32);
my %highest = ('/slow' => 60, '/busy' => 60,  '/leak' => 64, '/large' => 256);

my $app = sub {
    my ($env) = @_;
    my $path = $env->{PATH_INFO};
    my $answer = $answers{$path} or return text(404, "There is no $path.");
    my ($number) = $env->{QUERY_STRING} =~ /\A(\d+(?:[.]\d+)?)\z/;
    $number = $default{$path} if !defined $number;
    $number = $highest{$path} if defined $number && $number > $highest{$path};
    return $answer->($number);
};
$app;
