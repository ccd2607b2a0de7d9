# Options: the names of other servers, warnings for unknown ones, errors for those that do not fit.

use strict;
use warnings;
use lib 't/lib';
use Oribi          ();
use Oribi::Options ();
use Plack::Handler::Cacilheiro ();
use Plack::Handler::EVHTP      ();
use Plack::Handler::Oribi      ();
use Test::FreePort qw(free_port);
use Test::More;
use TestServer ();

my $app = sub { [ 200, [], ["pid $$"] ] };

sub options_with {
    my (%options) = @_;
    my @warnings;
    local $SIG{__WARN__} = sub { push @warnings, @_ };
    my $made = eval { Oribi::Options->new(%options); 1 };
    return { warnings => \@warnings, error => $made ? undef : $@ };
}

subtest 'known by the names of other servers' => sub {
    my %known = (
        workers              => 3,
        max_workers          => 3,
        max_requests         => 100,
        max_reqs_per_child   => 100,
        min_reqs_per_child   => 50,
        timeout              => 30,
        read_timeout         => 5,
        keepalive_timeout    => 2,
        max_keepalive_reqs   => 10,
        backlog              => 1024,
        spawn_interval       => 1,
        err_respawn_interval => 1,
        pid                  => '/tmp/oribi.pid',
        error_log            => q{-},
        keepalive            => q{},
        disable_keepalive    => 1,
    );
    for my $name (sort keys %known) {
        (my $dashed = $name) =~ tr/_/-/;
        for my $spelling ($name, $dashed) {
            my $result = options_with($spelling => $known{$name});
            is_deeply $result, { warnings => [], error => undef }, "$spelling => $known{$name}";
        }
    }
};

subtest 'what plackup passes for itself' => sub {
    is_deeply options_with(
        env => 'production', app => 'x.psgi', loader => 'Delayed', reload => 1, preload_app => 1, version => 1,
        psgi_app_builder => sub { }, host => undef, port => 5000, socket => undef, listen => [':5000'],
        server_ready => sub { }, default_middleware => 0, path => '/'
        ),
        { warnings => [], error => undef };
};

subtest 'unknown' => sub {
    my $result = options_with(max_wokers => 3, no_such_thing => 1);
    is $result->{error}, undef, 'is no error';
    is scalar @{ $result->{warnings} }, 2, 'but a warning each';
    like $result->{warnings}[0], qr/\Aplackup: unknown setting `max_wokers`/, 'that says who said what';
    like $result->{warnings}[0], qr/max.workers/, 'and what was probably meant';
    is scalar @{ options_with(no_such_list => [ 1, 2, 3 ])->{warnings} }, 1, 'once only';
};

subtest 'what would have protected' => sub {
    for my $pair ([ ssl_ca_path => 'ca' ], [ ssl_crl => 'crl.pem' ], [ chroot => '/srv' ], [ cidr_allow => '10.0.0.0/8' ]) {
        my ($name, $value) = @{$pair};
        like options_with($name => $value)->{error}, qr/\Aplackup: cannot do what `$name` asks for: /, "$name ends the start";
    }
    is options_with(ssl_crl => 0)->{error}, undef, 'but not if it is turned off';
    my $server = TestServer->start(app => $app, options => { enable_ssl => 1 });
    ok !$server->started, 'nothing is served in clear text that should be encrypted';
    like $server->log_text, qr/it needs a certificate/, 'and without a certificate nothing is encrypted';
    $server = TestServer->start(app => $app, options => { ssl_key_file => 'k.pem' });
    ok !$server->started, 'nor with a key alone';
    like $server->log_text, qr/there is no certificate for this key/;
};

subtest 'another user' => sub {
    is $>, 0, 'these tests run as root' or return;
    my $who    = sub { [ 200, [], [ join q{ }, $<, $>, ( split q{ }, $) )[0] ] ] };
    my $user   = getpwnam 'nobody';
    my $group  = getgrnam 'daemon';
    my $server = TestServer->start(app => $who, options => { user => 'nobody', group => 'daemon' });
    is $server->get('/')->{body}, "$user $user $group", 'workers are who they are told to be';
    is $server->stop, 0;
    $server = TestServer->start(app => $who, options => { user => 'no-such-user' });
    ok !$server->started, 'and nobody serves as root in place of a user that is not there';
    is $server->wait_end >> 8, 1, 'which the status says';
    like $server->log_text, qr/there is no user/, 'and the log';
};

subtest 'bad values' => sub {
    for my $pair ([ workers => 'many' ], [ workers => -1 ], [ port => 'http' ], [ timeout => 'soon' ], [ backlog => 'x' ],
        [ listen => ['127.0.0.1:99999'] ], [ child_exit => 'this is no { Perl' ], [ server_ready => 'die' ], [ child_exit => {} ])
    {
        my ($name, $value) = @{$pair};
        my $result = options_with($name => $value);
        like $result->{error}, qr/$name|listen/, "$name => $value: " . ($result->{error} || q{});
    }
};

# Whether an option is known or not, and its value right or wrong, no message quotes a secret.
subtest 'secrets' => sub {
    my %secret = (
        "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMhunter2\n-----END PRIVATE KEY-----\n" => 'hunter2',
        'postgres://shop:hunter2@db.internal/shop'                                 => 'hunter2',
        'DB_PASSWORD=hunter2'                                                      => 'hunter2',
        'ghp_4f1c0b6e8d7a49d2b3c5e6f708192a3b'                                     => '8d7a49d2',
    );
    for my $name (qw(workers threads port host listen socket timeout ssl_key metrics frobnicate frobnicate_key user interface loop)) {
        for my $text (sort keys %secret) {
            my $result = options_with($name => $text);
            unlike "@{ $result->{warnings} }" . ($result->{error} // q{}), qr/$secret{$text}/, "$name => " . substr $text, 0, 20;
        }
    }
};

subtest 'an app that is none' => sub {
    for my $app (undef, 'text', {}, []) {
        eval { Oribi->run($app, port => 1) };
        is $@, "the app must be a code reference\n";
    }
};

subtest 'an app that is an object' => sub {
    my $server = TestServer->start(
        load => sub {
            eval q{package Callable; use overload '&{}' => sub { my ($self) = @_; sub { [200, [], ["object $self->[0]"]] } }; 1} or die $@;
            return bless [7], 'Callable';
        }
    );
    is $server->get('/')->{body}, 'object 7';
};

subtest 'handlers of threads' => sub {
    no warnings 'redefine';
    local *Oribi::Options::has_threads = sub {1};
    my %told = Plack::Handler::EVHTP->new(port => 7)->options;
    is_deeply \%told, { host => '0.0.0.0', port => 7, workers => 1, threads => 8 }, 'EVHTP has 8 threads in one process';
    %told = Plack::Handler::Cacilheiro->new(max_workers => 2, max_reqs_per_child => 5)->options;
    is_deeply \%told, { host => '0.0.0.0', workers => 1, threads => 2, max_reqs_per_child => 5 }, 'or as many as it is told';
    %told = Plack::Handler::EVHTP->new(max_workers => 0, host => '127.0.0.1')->options;
    is_deeply \%told, { host => '127.0.0.1', workers => 1, threads => 1 }, '0 means none';
    local *Oribi::Options::has_threads = sub {0};
    my @warnings;
    local $SIG{__WARN__} = sub { push @warnings, @_ };
    %told = Plack::Handler::EVHTP->new(max_workers => 4)->options;
    is_deeply \%told, { host => '0.0.0.0', workers => 4 }, 'on a perl without threads they are processes';
    like $warnings[0], qr/This perl has no threads: 4 worker processes/, 'as a warning says';
    %told = Plack::Handler::Oribi->new(workers => 2)->options;
    is_deeply \%told, { workers => 2 }, 'Oribi takes what it is given';
};

subtest 'threads that this perl does not have' => sub {
    no warnings 'redefine';
    local *Oribi::Options::has_threads = sub {0};
    is options_with(threads => 1)->{error}, undef, 'one is no thread';
    for my $number (2, 12, 100) {
        like options_with(threads => $number)->{error}, qr/no threads.*--workers $number/, "$number: an error says what to do";
    }
};

subtest 'listening' => sub {
    my $port   = free_port();
    my $server = TestServer->start(app => $app, options => { listen => ["127.0.0.1:$port"] }, unix => 0);
    # The options of the test server name another port: the list wins, as plackup says one thing in several ways.
    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port);
    ok $socket, 'the list of listeners wins';
    ok !defined IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $server->port), 'over host and port';
    undef $socket;
    is $server->stop, 0;

    my $directory = File::Temp->newdir;
    my $second    = free_port();
    $server = TestServer->start(app => $app, options => { listen => [ "127.0.0.1:$port", "127.0.0.1:$second", "$directory/app.sock?mode=600" ] });
    for my $number ($port, $second) {
        ok(IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $number), "port $number");
    }
    ok(IO::Socket::UNIX->new(Peer => "$directory/app.sock"), 'and a Unix socket');
    is sprintf('%o', (stat "$directory/app.sock")[2] & 07777), '600', 'with its mode';
    is $server->stop, 0;
    ok !-e "$directory/app.sock", 'which is removed';
};

subtest 'a port that is taken' => sub {
    my $taken  = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => 0, Listen => 1) or die $!;
    my $server = TestServer->start(app => $app, options => { listen => [ '127.0.0.1:' . $taken->sockport ] });
    ok !$server->started, 'the server does not start';
    is $server->wait_end >> 8, 1, 'and ends with a status that says so';
    like $server->log_text, qr/@{[ $taken->sockport ]}/, 'and why';
};

subtest 'plackup' => sub {
    my $port = free_port();
    my $log  = File::Temp->new;
    my $pid  = fork // die $!;
    if (!$pid) {
        open STDOUT, '>&', $log;
        open STDERR, '>&', $log;
        exec($^X, '-Mblib', '-S', 'plackup', qw(-s Oribi --host 127.0.0.1 --port), $port,
            qw(--max-workers 2 --max-reqs-per-child 100 --unknown-thing 1 -e), 'sub { [200, [], ["from plackup"]] }')
            or POSIX::_exit(99);
    }
    my $text = sub { open my $handle, '<', "$log" or die $!; local $/; return scalar readline $handle };
    ok TestServer::wait_for(sub { $text->() =~ /Accepting connections/ }), 'starts' or diag $text->();
    my $server = bless { port => $port, owner => 0 }, 'TestServer';
    is $server->get('/')->{body}, 'from plackup', 'and serves';
    kill TERM => $pid;
    TestServer::within(20, sub { waitpid $pid, 0 });
    is $?, 0, 'stops';
    like $text->(), qr{Oribi: Accepting connections at http://127.0.0.1:$port/}, 'says where it is';
    like $text->(), qr/unknown.thing/, 'and what it does not know';
};

done_testing;
