# Apps that frame their content in chunks themselves, by the modules that do so.

use strict;
use warnings;
use lib 't/lib';
use Plack::Middleware::Chunked ();
use Test::More;
use TestServer ();

my $pieces = sub { return map {"piece $_\n"} 1 .. 3 };
my %app    = (
    'an array' => sub { [ 200, [ 'Content-Type' => 'text/plain' ], [ $pieces->() ] ] },
    'a stream' => sub {
        return sub {
            my $writer = $_[0]->([ 200, [ 'Content-Type' => 'text/plain' ] ]);
            $writer->write($_) for $pieces->();
            $writer->close;
        };
    },
);

for my $name (sort keys %app) {
    my $server = TestServer->start(app => Plack::Middleware::Chunked->wrap($app{$name}));
    subtest "Plack::Middleware::Chunked around $name" => sub {
        my $connection = $server->connection;
        for (1 .. 2) {
            my $response = $connection->request(GET => '/');
            is $response->{status}, 200, 'the status is the app\'s';
            is $response->{body}, join(q{}, $pieces->()), 'the content is framed once';
        }
        my $old = $server->connection;
        $old->send("GET / HTTP/1.0\r\nHost: a\r\n\r\n");
        my $response = $old->response('GET');
        is $response->{body}, join(q{}, $pieces->()), 'and to HTTP/1.0 clients not at all';
    };
    is $server->stop, 0;
}

subtest 'write_chunk of Mojolicious' => sub {
    plan skip_all => 'Mojolicious is not installed' if !eval { require Mojolicious };
    my $load = sub {
        require Mojolicious::Lite;
        my $app = eval <<'APP' or die $@;    ## no critic (ProhibitStringyEval) -- the module is a language of its own
            package Chunky;
            use Mojolicious::Lite -signatures;
            app->log->level('fatal');
            get '/' => sub ($c) {
                my @pieces = map {"piece $_\n"} 1 .. 3;
                my $next;
                $next = sub ($c, @) { $c->write_chunk(@pieces ? (shift @pieces, $next) : '') };
                $c->$next;
            };
            app;
APP
        require Mojo::Server::PSGI;
        return Mojo::Server::PSGI->new(app => $app)->to_psgi_app;
    };
    my $server = TestServer->start(load => $load);
    is $server->get('/')->{body}, join(q{}, $pieces->()), 'is framed once';
    is $server->stop, 0;
};

subtest 'chunks that are none' => sub {
    my $server = TestServer->start(app => sub { [ 200, [ 'Transfer-Encoding' => 'chunked' ], ['hello'] ] });
    is $server->get('/')->{status}, 500, 'are a failure of the app';
    like $server->log_like(qr/chunks that Transfer/), qr/chunks that Transfer-Encoding announces/, 'which the log explains';
    is $server->stop, 0;
};

done_testing;
