# psgi.input: read, seek, getline and eof work as on Perl's own handles, over content in memory and in a file. And
# oribi.trailers: the fields after the content.

use strict;
use warnings;
use lib 't/lib';
use Digest::MD5 qw(md5_hex);
use JSON::PP    ();
use Test::More;
use TestServer  ();

my $json = JSON::PP->new->canonical->latin1;

my %actions = (
    read => sub {
        my ($input) = @_;
        my $count = $input->read(my $buffer, 4);
        return [ $count, $buffer ];
    },
    # Reading to an offset beyond what the buffer holds pads it with NUL bytes.
    read_with_padding => sub {
        my ($input) = @_;
        my $buffer = 'A';
        my $count  = $input->read($buffer, 4, 3);
        return [ $count, $buffer ];
    },
    read_inside => sub {
        my ($input) = @_;
        my $buffer = 'ABCDEF';
        my $count  = read $input, $buffer, 4, 2;
        return [ $count, $buffer ];
    },
    read_at_end => sub {
        my ($input) = @_;
        1 while $input->read(my $rest, 8192);
        my $count = $input->read(my $buffer, 10);
        return [ $count, $buffer, $input->eof ? 1 : 0 ];
    },
    seeks => sub {
        my ($input) = @_;
        my @seen;
        for my $step ([ 2, 0 ], [ 1, 1 ], [ -2, 2 ], [ 0, 0 ], [ -1, 1 ], [ 0, 2 ]) {
            my $moved = seek $input, $step->[0], $step->[1];
            $input->read(my $buffer, 2);
            push @seen, $moved ? 1 : 0, $buffer, tell $input;
        }
        return \@seen;
    },
    lines => sub {
        my ($input) = @_;
        my @lines = ($input->getline);
        push @lines, readline $input;
        return \@lines;
    },
    twice => sub {
        my ($input) = @_;
        my $first = do { local $/; <$input> };
        $input->seek(0, 0);
        my $second = do { local $/; <$input> };
        return [ md5_hex($first), md5_hex($second), length $first ];
    },
    records => sub {
        my ($input) = @_;
        local $/ = \4;
        return [ scalar(<$input>), scalar(<$input>) ];
    },
    eof => sub { return [ $_[0]->eof ? 1 : 0 ] },
    trailers => sub {
        my ($input, $env) = @_;
        my $content = do { local $/; <$input> };
        my @sums = map { $env->{$_} } grep {/X_SUM/} keys %{$env};
        return [ $content, \@sums, exists $env->{'oribi.trailers'} ? @{ $env->{'oribi.trailers'} } : 'none' ];
    },
    # The next request must not see the changes that this one leaves.
    keep_trailers => sub { push @{ $_[1]{'oribi.trailers'} }, 'kept'; our $trailers = $_[1]{'oribi.trailers'}; return [] },
    kept_trailers => sub { return our $trailers },
);

my $kept;
my $app = sub {
    my ($env)    = @_;
    my ($action) = $env->{PATH_INFO} =~ m{/(\w+)};
    my $input    = $env->{'psgi.input'};
    if ($action eq 'keep') {
        $kept = $input;
        return [ 200, [], ['kept'] ];
    }
    return [ 200, [], [ $json->encode($actions{$action}->($action eq 'late' ? $kept : $action eq 'kept' ? $kept : $input, $env)) ] ];
};
$actions{kept} = sub { my $all = do { local $/; readline $_[0] }; return [$all] };

my $server     = TestServer->start(app => $app, options => { body_buffer_size => '64k' });
my $connection = $server->connection;

sub ask {
    my ($action, $content) = @_;
    my $response = $connection->request((defined $content ? 'POST' : 'GET'), "/$action", [], $content);
    return $json->decode($response->{body});
}

is_deeply ask('read', 'abcdefgh'), [ 4, 'abcd' ], 'read';
is_deeply ask('read', 'ab'),       [ 2, 'ab' ],   'a short read';
is_deeply ask('read_with_padding', 'bcdefgh'), [ 4, "A\0\0bcde" ], 'read with an offset beyond the end pads with NUL';
is_deeply ask('read_inside', 'wxyz'), [ 4, 'ABwxyz' ], 'read with an offset inside';
is_deeply ask('read_at_end', 'abc'), [ 0, q{}, 1 ], 'read at the end';
is_deeply ask('seeks', 'abcdefgh'),
    [ 1, 'cd', 4, 1, 'fg', 7, 1, 'gh', 8, 1, 'ab', 2, 1, 'bc', 3, 1, q{}, 8 ], 'seek from the start, here and the end';
is_deeply ask('lines', "one\ntwo\r\nthree"), [ "one\n", "two\r\n", 'three' ], 'getline and readline';
is_deeply ask('records', 'abcdefgh'), [ 'abcd', 'efgh' ], 'records of a size';
is_deeply ask('eof', q{}), [1], 'empty content is at its end';

my $small = join q{}, map { chr } 0 .. 255;
is_deeply ask('twice', $small), [ md5_hex($small), md5_hex($small), 256 ], 'content is bytes, and can be read again';

subtest 'content in a file' => sub {
    my $large = 'abcdefghij' x 100_000;
    is_deeply ask('twice', $large), [ md5_hex($large), md5_hex($large), 1_000_000 ], 'read twice';
    is_deeply ask('read_with_padding', 'b' . $large), [ 4, "A\0\0babc" ], 'padding';
    is_deeply ask('seeks', $large),
        [ 1, 'cd', 4, 1, 'fg', 7, 1, 'ij', 1_000_000, 1, 'ab', 2, 1, 'bc', 3, 1, q{}, 1_000_000 ], 'seek';
};

subtest 'a request without content' => sub {
    is_deeply ask('read'), [ 0, q{} ], 'nothing to read';
    is_deeply ask('eof'), [1], 'at the end';
    is_deeply ask('read_at_end'), [ 0, q{}, 1 ], 'still nothing';
};

for my $content ('kept content', 'k' x 100_000) {
    $connection->request(POST => '/keep', [], $content);
    $connection->request(POST => '/read', [], 'other content') for 1 .. 3;
    is_deeply ask('kept'), [$content], 'a handle that was kept can be read later';
}

subtest 'chunked content' => sub {
    $connection->send("POST /twice HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    is_deeply $json->decode($connection->response('POST')->{body}), [ md5_hex('abcde'), md5_hex('abcde'), 5 ];
};

sub ask_with_trailers {
    my ($action, $content, $trailers) = @_;
    my $size = sprintf '%x', length $content;
    $connection->send("POST /$action HTTP/1.1\r\nHost: x\r\nX-Sum: head\r\nTransfer-Encoding: chunked\r\n\r\n"
        . "$size\r\n$content\r\n0\r\n$trailers\r\n");
    return $json->decode($connection->response('POST')->{body});
}

subtest 'trailers' => sub {
    my $trailers = "X-Sum: 1\r\nHost: y\r\nempty:\r\nx-sum: \xe9  2 \r\n";
    my @told     = ('x-sum', 1, 'empty', q{}, 'x-sum', "\xe9  2");
    is_deeply ask_with_trailers('trailers', 'text', $trailers), [ 'text', ['head'], @told ], 'apart from the fields of the head';
    is_deeply ask('trailers', 'text'), [ 'text', [], 'none' ], 'and not in the next request';
    my $large = 'abcdefghij' x 10_000;
    is_deeply ask_with_trailers('trailers', $large, $trailers), [ $large, ['head'], @told ], 'behind content in a file';
    is_deeply ask_with_trailers('trailers', 'text', q{}), [ 'text', ['head'], 'none' ], 'none';
    is_deeply ask_with_trailers('keep_trailers', 'text', "A: b\r\n"), [], 'an app keeps them';
    is_deeply ask_with_trailers('trailers', 'text', "C: d\r\n"), [ 'text', ['head'], 'c', 'd' ], 'the next request has its own';
    is_deeply ask('kept_trailers', 'text'), [ 'a', 'b', 'kept' ], 'and they are still what they were';
};

done_testing;
