# The environment, key by key.

use strict;
use warnings;
use lib 't/lib';
use JSON::PP   ();
use OverHTTP2  ();
use Test::More;
use TestServer ();

my $json = JSON::PP->new->canonical->latin1;

# The environment as plain data; a value other than a string is replaced by the name of its kind.
sub describe {
    my ($env) = @_;
    return {
        map { $_ => ref $env->{$_} ? ref $env->{$_} : "$env->{$_}" } keys %{$env}
    };
}

my $app = sub {
    my ($env) = @_;
    my $seen = describe($env);
    $seen->{'psgi.version'} = join q{.}, @{ $env->{'psgi.version'} };
    return [ 200, [ 'Content-Type' => 'application/json' ], [ $json->encode($seen) ] ];
};

sub seen { return $json->decode($_[0]{body}) }

my $server = TestServer->start(app => $app);
my $port   = $server->port;
my $http2  = OverHTTP2::is_on();
# A proxy has connections of its own, and makes one of two slashes.
my $path = $http2 ? '/a%20b/c' : '/a%20b//c';

{
    my $connection = $server->connection;
    my $seen = seen($connection->request(GET => "$path?x=%31&y", [ 'User-Agent' => 'test', 'X-One' => 'first', 'x-one' => 'second' ]));
    my $own_port = $http2 ? $seen->{REMOTE_PORT} : $connection->socket->sockport;
    like $own_port, qr/\A[1-9][0-9]*\z/, 'the port of a client';
    is_deeply $seen,
        {
        REQUEST_METHOD           => 'GET',
        SCRIPT_NAME              => q{},
        PATH_INFO                => $path =~ s/%20/ /r,
        REQUEST_URI              => "$path?x=%31&y",
        QUERY_STRING             => 'x=%31&y',
        SERVER_NAME              => 'localhost',
        SERVER_PORT              => '80',
        SERVER_PROTOCOL          => $http2 ? 'HTTP/2.0' : 'HTTP/1.1',
        REMOTE_ADDR              => '127.0.0.1',
        REMOTE_PORT              => $own_port,
        HTTP_HOST                => 'localhost',
        HTTP_USER_AGENT          => 'test',
        HTTP_X_ONE               => 'first, second',
        'psgi.version'           => '1.1',
        'psgi.url_scheme'        => 'http',
        'psgi.input'             => 'GLOB',
        'psgi.errors'            => 'GLOB',
        'psgi.multithread'       => '0',
        'psgi.multiprocess'      => '1',
        'psgi.run_once'          => '0',
        'psgi.nonblocking'       => '0',
        'psgi.streaming'         => '1',
        'psgix.input.buffered'   => '1',
        'psgix.io'               => 'IO::Socket::INET',
        'psgix.harakiri'         => '1',
        'psgix.cleanup'          => '1',
        'psgix.cleanup.handlers' => 'ARRAY',
        'psgix.informational'    => 'CODE',
        'psgix.logger'           => 'CODE',
        },
        'a GET request';

    my $post = seen($connection->request(POST => '/', [ 'content-TYPE' => 'text/plain', 'Proxy' => 'evil' ], 'abc'));
    is $post->{CONTENT_TYPE},   'text/plain', 'the content type, however it is spelled';
    is $post->{CONTENT_LENGTH}, 3,            'the content length';
    ok !exists $post->{$_}, "no $_" for qw(HTTP_CONTENT_TYPE HTTP_CONTENT_LENGTH HTTP_PROXY HTTP_USER_AGENT HTTP_X_ONE);

    my $bytes = seen($connection->request(GET => '/%E3%81%82', [ 'X-Bytes' => "caf\xe9" ]));
    is $bytes->{PATH_INFO},    "/\xe3\x81\x82", 'the path is bytes';
    is $bytes->{HTTP_X_BYTES}, "caf\xe9",       'and so are fields';

    my $options = seen($connection->request(OPTIONS => q{*}));
    is $options->{REQUEST_METHOD}, 'OPTIONS', 'another method';
}

subtest 'HTTP/1.0' => sub {
    my $connection = $server->connection;
    $connection->send("GET /old HTTP/1.0\r\n\r\n");
    my $old = seen($connection->response('GET'));
    is $old->{SERVER_PROTOCOL}, 'HTTP/1.0';
    ok !exists $old->{HTTP_HOST}, 'without a Host there is none';
    is "$old->{SERVER_NAME}:$old->{SERVER_PORT}", "127.0.0.1:$port", 'and name and port are those that were connected to';
};

subtest 'a Unix socket' => sub {
    my $unix = TestServer->start(app => $app, unix => 1);
    my $env  = seen($unix->get('/'));
    is $env->{REMOTE_ADDR}, '127.0.0.1', 'the peer is on this machine';
    is $env->{'psgix.io'},  'IO::Socket::UNIX';
    ok length $env->{SERVER_NAME}, 'there is a SERVER_NAME';
    is $env->{SERVER_PORT}, '80', 'and the port is the one of Host';
};

subtest 'values are plain strings' => sub {
    my $kinds = TestServer->start(
        app => sub {
            my ($env) = @_;
            require B;
            my @odd = grep { !ref $env->{$_} && !(B::svref_2object(\$env->{$_})->FLAGS & (B::SVf_POK() | B::SVf_IOK())) }
                keys %{$env};
            push @odd, grep { utf8::is_utf8($_) || utf8::is_utf8($env->{$_}) } keys %{$env};
            return [ 200, [], ["@odd"] ];
        }
    );
    is $kinds->get('/')->{body}, q{};
};

done_testing;
