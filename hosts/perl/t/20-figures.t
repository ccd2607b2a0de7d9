# Oribi::count and Oribi::observe: metrics that apps count themselves, shown by --metrics.

use strict;
use warnings;
use lib 't/lib';
use utf8;
use File::Temp       ();
use IO::Socket::UNIX ();
use Oribi            ();
use Oribi::Options   ();
use Test::More;
use TestServer ();

# Any process other than a worker.
is eval { Oribi::count('no name', 'no number', 'no value'); Oribi::observe('-', -1); 'nothing' }, 'nothing', 'there is nobody who counts';
ok !eval { Oribi::count(); 1 }, 'without a name it is no call';

# Each is called in a request, and returns the answer.
my %does = (
    counts => sub {
        Oribi::count('orders');
        Oribi::count('orders', 2.5);
        Oribi::count('orders', 1, kind => 'book', by => 'card');
        Oribi::count('orders_total', 1, by => 'card', kind => 'book');
        Oribi::observe('payment_seconds', 0.25, provider => 'x');
        Oribi::observe('pages', 17);
        return 'counted';
    },
    texts => sub {
        my ($bytes, $undefined) = ("caf\xe9");
        local $SIG{__WARN__} = sub { };
        Oribi::count('texts', 1, a => 'über €', b => $bytes, c => 7, d => $undefined, e => "\"\\\n");
        return utf8::is_utf8($bytes) ? 'the app sees that' : 'untouched';
    },
    cleanup => sub { my $env = shift; push @{ $env->{'psgix.cleanup.handlers'} }, sub { Oribi::count('cleanups') }; return 'later' },
    forked  => sub { my $pid = fork // die "fork: $!"; exec 'true' if !$pid; waitpid $pid, 0; Oribi::count('forks'); return 'forked' },
);
my @misuse = (
    [ ['a b'],                    qr/\AOribi::count: a figure cannot be called "a b"/ ],
    [ ['größe'],                  qr/cannot be called "größe"/ ],
    [ [ 'a', -1 ],                qr/finite numbers from 0 on, not -1/ ],
    [ [ 'a', 9**9**9 ],           qr/finite numbers from 0 on, not inf/ ],
    [ [ 'a', 'much' ],            qr/a number is expected after the name/ ],
    [ [ 'a', 1, 'kind' ],         qr/labels are names and values, in turn/ ],
    [ [ 'a', 1, 'a-b' => 1 ],     qr/a label cannot be called "a-b"/ ],
    [ [ 'a', 1, (a => 1) x 2 ],   qr/the label "a" is there twice/ ],
    [ [ 'a', 1, map { ("l$_" => 1) } 1 .. 7 ], qr/at most 6 labels/ ],
    [ [ 'pages', 1 ],             qr/pages is a figure of the other kind already/ ],
);
$does{misuse} = sub {
    my @wrong;
    for my $case (@misuse) {
        my ($arguments, $why) = @$case;
        my $said = eval { Oribi::count(@$arguments); 1 } ? 'nothing' : $@;
        push @wrong, "@$arguments: $said" if $said !~ $why || $said !~ /20-figures/;
    }
    my $text = join "\n", @wrong;
    utf8::encode($text);
    return $text || 'as it should be';
};

my $app = sub {
    my $env = shift;
    my ($name) = $env->{PATH_INFO} =~ m{(\w+)};
    return [ 200, [], [ $does{$name}->($env) ] ];
};

# The current metrics of the server: each series with its value.
sub scrape {
    my ($path) = @_;
    my $socket = IO::Socket::UNIX->new(Peer => $path) or die "$path: $!";
    print {$socket} "GET /metrics HTTP/1.1\r\nHost: test\r\n\r\n";
    my $text = TestServer::within(20, sub { local $/ = undef; scalar readline $socket });
    utf8::decode($text);
    return { $text =~ /^((?:app|oribi)_.*) (\S+)$/mg };
}

for my $edge (qw(off on)) {
    for my $threads (1, Oribi::Options::has_threads() ? 2 : ()) {
        my $label     = "edge $edge, $threads threads";
        my $directory = File::Temp->newdir;
        my $metrics   = "$directory/metrics.sock";
        my $server    = TestServer->start(
            app     => $app,
            options => {
                edge          => $edge,
                threads       => $threads,
                metrics       => $metrics,
                after_fork    => sub { Oribi::count('workers_begun') },
            },
        );
        my %answers = (counts => 'counted', texts => 'untouched', misuse => 'as it should be');
        is $server->get("/$_")->{body}, $answers{$_}, "$label: $_" for sort keys %answers;
        my $told = scrape($metrics);
        my %seen = (
            'app_workers_begun_total'                            => 1,
            'app_orders_total'                                   => 3.5,
            'app_orders_total{by="card",kind="book"}'            => 2,
            'app_payment_seconds_bucket{provider="x",le="0.1"}'  => 0,
            'app_payment_seconds_bucket{provider="x",le="0.25"}' => 1,
            'app_payment_seconds_sum{provider="x"}'              => 0.25,
            'app_pages_bucket{le="16.0"}'                        => 0,
            'app_pages_bucket{le="64.0"}'                        => 1,
            'app_pages_count'                                    => 1,
            'app_texts_total{a="über €",b="café",c="7",d="",e="\"\\\\\n"}' => 1,
            'oribi_perl_interpreters'                            => $threads,
            'oribi_app_figures_refused_total'                    => 0,
        );
        is_deeply { map { $_ => $told->{$_} } keys %seen }, \%seen, "$label: everything is told";
        $server->get('/cleanup');
        ok TestServer::wait_for(sub { scrape($metrics)->{app_cleanups_total} }), "$label: behind a response";
        $server->get('/forked');
        is scrape($metrics)->{app_forks_total}, 1, "$label: after a fork";
        is $server->stop, 0, "$label: it ends well";
    }
}

{
    my $server = TestServer->start(app => $app);
    is $server->get('/counts')->{body}, 'counted', 'without metrics nothing happens';
    like $server->get('/misuse')->{body}, qr/: nothing/, 'and nothing is looked at';
}

done_testing;
