# Valid and invalid responses of an app.

use strict;
use warnings;
use lib 't/lib';
use File::Temp ();
use IO::File   ();
use IO::Handle ();
use Test::More;
use TestServer ();

# A body that records its calls in a file, because the app is in another process.
package Body {
    sub new { my ($class, %arguments) = @_; return bless {%arguments}, $class }

    sub note {
        my ($self, $what) = @_;
        open my $handle, '>>', $self->{note} or die $!;
        print {$handle} "$what\n";
        close $handle;
    }

    sub getline {
        my ($self) = @_;
        $self->note('$/ is ' . (ref $/ eq 'SCALAR' ? ${$/} : 'not a number')) if !$self->{asked}++;
        my $line = shift @{ $self->{lines} };
        die "getline broke\n" if defined $line && $line eq 'DIE';
        return $line;
    }
    sub close { $_[0]->note('closed'); die "close broke\n" if $_[0]{close_dies}; return }
}

package BodyWithPath {
    our @ISA = ('Body');
    sub path { return $_[0]{path} }
}

# Plack::Util::inline_object makes bodies of this kind.
package ByAutoload {
    our $AUTOLOAD;
    sub DESTROY { }

    sub AUTOLOAD {    ## no critic (ProhibitAutoloading) -- its case is tested
        my ($self, @arguments) = @_;
        my $method = $AUTOLOAD =~ s/.*:://r;
        die qq{Can't locate object method "$method"\n} if !$self->{$method};
        return $self->{$method}->(@arguments);
    }
}

package Exiting {
    sub getline { exit 3 }
    sub close { return }
}

package Upper {
    our @ISA = ('IO::File');
    sub getline { my ($self) = @_; my $line = readline $self; return defined $line ? uc $line : undef }
}

package Words {
    use overload q{""} => sub { "words of $_[0][0]" }, fallback => 1;
}

package BrokenWords {
    use overload q{""} => sub { die "no words\n" };
}

package main;

my $directory = File::Temp->newdir;
my $file      = "$directory/file";
my $note;    # which the app sets, for each request another
{
    open my $handle, '>', $file or die $!;
    print {$handle} join q{}, map {"line $_\n"} 1 .. 1000;
    close $handle;
}
# More than the sockets hold.
my ($large, $large_size) = ("$directory/large", 32 << 20);
my $whole = do { local (@ARGV, $/) = ($file); <> };

sub open_file { my ($mode, $from) = @_; open my $handle, $mode || '<', $from || $file or die $!; return $handle }

my %number = (Half => 2.5, Largest => ~0, Least => -9223372036854775807 - 1, Less => -1, Most => ~0 >> 1, Two => 2, Zero => 0);
my %return = (
    array         => sub { [ 200, [ 'Content-Type' => 'text/plain' ], [ 'a', q{}, 'b', 0, 'c' ] ] },
    many_pieces   => sub { [ 200, [], [ map {"$_,"} 1 .. 300 ] ] },
    many_headers  => sub { [ 200, [ map { ("X-$_" => $_) } 1 .. 80 ], ['x'] ] },
    repeated      => sub { [ 200, [ 'Set-Cookie' => 'a=1', 'Set-Cookie' => 'b=2' ], [] ] },
    status_text   => sub { [ '201', [], ['x'] ] },
    odd_status    => sub { [ 299, [], ['x'] ] },
    no_content    => sub { [ 204, [], [] ] },
    undef_piece   => sub { [ 200, [], [ 'a', undef, 'b' ] ] },
    undef_header  => sub { [ 200, [ 'X-Empty' => undef ], ['x'] ] },
    upgraded      => sub { my $text = "caf\xe9"; utf8::upgrade($text); [ 200, [ 'X-Text' => $text ], [$text] ] },
    overloaded    => sub { [ 200, [ Location => bless(['a place'], 'Words') ], [ bless [1], 'Words' ] ] },
    magical       => sub { "abc" =~ /(b)/; [ 200, [ 'X-Match' => $1 ], [$1] ] },
    numbers       => sub { [ 200, [ 'X-Number' => 42 ], [ 1, 2.5, -3 ] ] },
    many_numbers  => sub { [ 200, [ map { ("X-$_" => $number{$_}) } sort keys %number ], ['x'] ] },
    tied          => sub { require Tie::Array; tie my @array, 'Tie::StdArray'; @array = (200, ['X-Tied' => 1], ['tied']); \@array },
    blessed       => sub { bless [ 200, [], ['blessed'] ], 'Something' },

    glob          => sub { [ 200, [], open_file() ] },
    large         => sub { [ 200, [], open_file('<', $large) ] },
    glob_inside   => sub { my $handle = open_file(); readline $handle; [ 200, [], $handle ] },
    glob_read     => sub { my $handle = open_file(); read $handle, my $start, 5; [ 200, [], $handle ] },
    glob_sysread  => sub { my $handle = open_file(); sysread $handle, my $start, 5; [ 200, [], $handle ] },
    glob_sysseek  => sub { my $handle = open_file(); sysseek $handle, 10, 0; [ 200, [], $handle ] },
    glob_length   => sub { my $handle = open_file(); [ 200, [ 'Content-Length' => -s $handle ], $handle ] },
    io_file       => sub { [ 200, [], IO::File->new($file, 'r') ] },
    io_object     => sub { [ 200, [], *{ open_file() }{IO} ] },
    at_end        => sub { my $handle = open_file(); seek $handle, 0, 2; [ 200, [], $handle ] },
    written       => sub { my $handle = File::Temp->new; print {$handle} 'written'; seek $handle, 0, 0; [ 200, [], $handle ] },
    with_layer    => sub { [ 200, [], open_file('<:crlf') ] },
    in_memory     => sub { open my $handle, '<', \"in\nmemory"; [ 200, [], $handle ] },
    proc_file     => sub { open my $handle, '<', '/proc/self/status'; [ 200, [], $handle ] },
    pipe_handle   => sub { open my $handle, q{-|}, 'echo from a pipe'; [ 200, [], $handle ] },
    subclass      => sub { [ 200, [], Upper->new($file, 'r') ] },
    object        => sub { [ 200, [], Body->new(note => $note, lines => [ 'a', q{}, '0', 'b' ]) ] },
    object_length => sub { [ 200, [ 'Content-Length' => 2 ], Body->new(note => $note, lines => [ 'a', 'b' ]) ] },
    with_path     => sub { [ 200, [], BodyWithPath->new(note => $note, path => $file, lines => ['not used']) ] },
    with_bad_path => sub { [ 200, [], BodyWithPath->new(note => $note, path => "$file.none", lines => ['from getline']) ] },
    close_dies    => sub { [ 200, [], Body->new(note => $note, lines => ['a'], close_dies => 1) ] },
    getline_dies  => sub { [ 200, [], Body->new(note => $note, lines => [ 'a', 'DIE' ]) ] },
    getline_wide  => sub { [ 200, [], Body->new(note => $note, lines => [ 'a', "\x{263a}" ]) ] },
    getline_dies_first  => sub { [ 200, [], Body->new(note => $note, lines => ['DIE']) ] },
    getline_dies_length => sub { [ 200, [ 'Content-Length' => 5 ], Body->new(note => $note, lines => [ q{}, 'DIE' ]) ] },
    getline_wide_first  => sub { [ 200, [], Body->new(note => $note, lines => ["\x{263a}"]) ] },
    getline_wide_length => sub { [ 200, [ 'Content-Length' => 3 ], Body->new(note => $note, lines => ["\x{263a}"]) ] },
    decoding_handle     => sub { [ 200, [], open_file('<:encoding(UTF-16)', \"\xfe\xff\x26\x3a") ] },
    decoding_length     => sub { [ 200, [ 'Content-Length' => 4 ], open_file('<:encoding(UTF-16)', \"\xfe\xff\x26\x3a") ] },
    by_autoload         => sub {
        my $body = Body->new(note => $note, lines => [ 'a', 'b' ]);
        return [ 200, [], bless { map { my $method = $_; $method => sub { $body->$method } } qw(getline close) }, 'ByAutoload' ];
    },
    getline_exits       => sub { [ 200, [], bless {}, 'Exiting' ] },
    never_more    => sub { [ 200, [], Body->new(note => $note, lines => [ 'a', (q{}) x 200, 'b' ]) ] },
    head_object   => sub { [ 200, [], Body->new(note => $note, lines => [ 'a', 'b' ]) ] },

    returns_undef  => sub { return undef },
    returns_empty  => sub { return },
    returns_text   => sub {'text'},
    returns_hash   => sub { { status => 200 } },
    two_elements   => sub { [ 200, [] ] },
    four_elements  => sub { [ 200, [], [], 1 ] },
    bad_status     => sub { [ 'OK', [], [] ] },
    low_status     => sub { [ 42,   [], [] ] },
    high_status    => sub { [ 600, [], [] ] },
    interim_status => sub { [ 150,  [], [] ] },
    undef_status   => sub { [ undef, [], [] ] },
    odd_headers    => sub { [ 200, ['X-One'], [] ] },
    hash_headers   => sub { [ 200, { 'X-One' => 1 }, [] ] },
    undef_name     => sub { [ 200, [ undef, 1 ], [] ] },
    newline_header => sub { [ 200, [ 'X-One' => "a\r\nX-Two: b" ], [] ] },
    wide_header    => sub { [ 200, [ 'X-One' => "\x{263a}" ], [] ] },
    broken_header  => sub { [ 200, [ 'X-One' => bless [], 'BrokenWords' ], [] ] },
    wide_piece     => sub { [ 200, [], [ 'a', "\x{263a}" ] ] },
    broken_piece   => sub { [ 200, [], [ bless [], 'BrokenWords' ] ] },
    text_body      => sub { [ 200, [], 'text' ] },
    hash_body      => sub { [ 200, [], {} ] },
    undef_body     => sub { [ 200, [], undef ] },
    empty_object   => sub { [ 200, [], bless {}, 'Something' ] },
    dies           => sub { die "the reason\n" },
    dies_object    => sub { die bless [3], 'Words' },
    dies_wide      => sub { die "smile \x{263a}\n" },
    dies_broken    => sub { die bless [], 'BrokenWords' },
);

my $shared = "caf\xe9";
utf8::upgrade($shared);
$return{keeps_flag} = sub { [ 200, [ 'X-Flag' => utf8::is_utf8($shared) ? 1 : 0 ], [$shared] ] };

my $server = TestServer->start(
    app => sub {
        my ($name) = $_[0]{PATH_INFO} =~ m{/(\w+)};
        $note = "$directory/note-$name";
        return $return{$name}->();
    }
);
my $connection = $server->connection;

sub get {
    my ($name, $method) = @_;
    my $response = $connection->request($method || 'GET', "/$name");
    # After a response that was cut the connection is gone.
    $connection = $server->connection if !$response->{whole} || (TestServer::Connection::field($response, 'Connection') || q{}) eq 'close';
    return $response;
}

# The body is closed while the response is on its way, so the note may come a moment later.
sub noted {
    my ($name) = @_;
    my $read = sub { open my $handle, '<', "$directory/note-$name" or return q{}; local $/; return scalar readline $handle };
    TestServer::wait_for(sub { $read->() =~ /closed/ }, 10);
    return $read->();
}
sub field { return TestServer::Connection::field(@_) }

subtest 'arrays' => sub {
    my $response = get('array');
    is $response->{status}, 200;
    is $response->{body},   'ab0c', 'pieces are joined; 0 is a piece';
    is field($response, 'Content-Length'), 4, 'the length is added';
    is get('many_pieces')->{body}, join(q{}, map {"$_,"} 1 .. 300), 'many pieces';
    is field(get('many_headers'), 'X-80'), 80, 'many headers';
    is_deeply [ TestServer::Connection::fields(get('repeated'), 'Set-Cookie') ], [ 'a=1', 'b=2' ], 'repeated fields stay apart';
    is get('status_text')->{status}, 201, 'a status may be text';
    is get('odd_status')->{status},  299, 'or of one\'s own';
    is get('no_content')->{status},  204, 'no content';
    is get('undef_piece')->{body},   'ab', 'an undef piece is nothing';
    is field(get('undef_header'), 'X-Empty'), q{}, 'an undef header is empty';
    $response = get('upgraded');
    is $response->{body}, "caf\xe9", 'characters below 256 are bytes';
    is field($response, 'X-Text'), "caf\xe9", 'in fields too';
    $response = get('overloaded');
    is field($response, 'Location'), 'words of a place', 'objects with words';
    is $response->{body}, 'words of 1';
    is get('magical')->{body}, 'b', 'match variables';
    $response = get('numbers');
    is $response->{body}, '12.5-3', 'numbers';
    is field($response, 'X-Number'), 42;
    $response = get('many_numbers');
    is_deeply { map { ($_ => field($response, "X-$_")) } keys %number }, { map { ($_ => "$number{$_}") } keys %number },
        'numbers of any size';
    is get('tied')->{body},    'tied',    'a tied array';
    is get('blessed')->{body}, 'blessed', 'a blessed array';
    get('keeps_flag');
    is field(get('keeps_flag'), 'X-Flag'), 1, 'the app\'s own scalar keeps its representation';
};

subtest 'handles' => sub {
    my $response = get('glob');
    is $response->{body}, $whole, 'a file';
    is field($response, 'Content-Length'), length $whole, 'with its length';
    is get('glob_inside')->{body}, substr($whole, 7), 'a file from its position on';
    is get('glob_read')->{body}, substr($whole, 5), 'a file behind what was read';
    is get('glob_sysread')->{body}, substr($whole, 5), 'or behind what was read past the handle';
    is get('glob_sysseek')->{body}, substr($whole, 10), 'or from a position that the handle does not know';
    is get('glob_length')->{body}, $whole, 'a file whose length is given';
    is get('io_file')->{body},     $whole, 'an IO::File';
    is get('io_object')->{body},   $whole, 'an IO object';
    is get('at_end')->{body},      q{},    'a file at its end';
    is get('written')->{body},     'written', 'what waits in the buffer of a file is sent';
    is get('with_layer')->{body},  $whole, 'a handle with a layer';
    is get('in_memory')->{body},   "in\nmemory", 'a handle in memory';
    like get('proc_file')->{body}, qr/^Name:/, 'a file of /proc, which says it is empty';
    is get('pipe_handle')->{body}, "from a pipe\n", 'a pipe';
    is get('subclass')->{body},    uc $whole, 'a class with a getline of its own';
    my $head = get('glob', 'HEAD');
    is field($head, 'Content-Length'), length $whole, 'HEAD of a file has its length';
    is get('array')->{body}, 'ab0c', 'and nothing follows it';
    my $descriptors = sub { opendir my $handle, '/proc/' . worker($server) . '/fd' or return; return scalar(() = readdir $handle) };
    my $before = $descriptors->();
    get('glob') for 1 .. 50;
    is $descriptors->(), $before, 'files are closed';
};

# Over TLS, the file is read; otherwise, the kernel sends it.
subtest 'a file that grows while it is sent' => sub {
    my $resize = sub { open my $handle, '>>', $large or die $!; truncate $handle, $_[0] or die $!; close $handle };
    $resize->($large_size);
    $connection->send("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
    ok $connection->fill, 'the response has begun';
    $resize->($large_size + 1000);
    my $response = $connection->response('GET');
    is field($response, 'Content-Length'), $large_size, 'the length when the app returned';
    is length $response->{body}, $large_size, 'so many bytes';
    is get('array')->{body}, 'ab0c', 'and nothing follows them';
};

# The one process whose parent is the server.
sub worker {
    my ($of) = @_;
    my $children = qx(ps -o pid= --ppid @{[ $of->pid ]});
    my ($pid) = $children =~ /(\d+)/;
    return $pid;
}

subtest 'objects' => sub {
    is get('object')->{body}, 'a0b', 'getline until undef; an empty line and 0 are no end';
    is noted('object'), "\$/ is 65536\nclosed\n", 'with $/ set, and closed once';
    my $response = get('object_length');
    is $response->{body}, 'ab', 'a given length';
    is field($response, 'Transfer-Encoding'), undef, 'needs no chunks';
    is get('with_path')->{body},     $whole,         'a file by its path';
    is noted('with_path'), "closed\n", 'is closed too';
    is get('by_autoload')->{body}, 'ab', 'an object that answers getline by AUTOLOAD';
    like noted('by_autoload'), qr/closed/, 'and close';
    is get('with_bad_path')->{body}, 'from getline', 'a path that leads nowhere is not used';
    is get('close_dies')->{body},    'a',            'close that dies spoils nothing';
    like $server->log_like(qr/close broke/), qr{GET /close_dies: close of the body died: close broke}, 'but is logged';
    $response = get('getline_dies');
    ok !$response->{whole}, 'getline that dies cuts the response';
    like noted('getline_dies'), qr/closed/, 'and the body is closed';
    like $server->log_like(qr/getline broke/), qr/getline of the body died: getline broke/, 'and the reason logged';
    ok !get('getline_wide')->{whole}, 'wide characters from getline cut the response';
    like noted('getline_wide'), qr/closed/, 'and the body is closed';
    is get('never_more')->{body}, 'ab', 'empty lines are no end, however many';
    is get('head_object', 'HEAD')->{body}, q{}, 'HEAD has no body';
    like noted('head_object'), qr/closed/, 'but the body is closed';
};

subtest 'bodies that fail before their first byte' => sub {
    for my $name (qw(getline_dies_first getline_dies_length getline_wide_first getline_wide_length decoding_handle decoding_length)) {
        my $response = get($name);
        is $response->{status}, 500, "$name: the client gets a 500";
        ok $response->{whole}, "$name: as a whole response";
        like noted($name), qr/closed/, "$name: the body is closed" if $name =~ /getline/;
        like $server->log_like(qr{GET /$name: getline}), qr{GET /$name: getline of the body (?:died|returned a wide character)}, "$name: the log says why";
    }
};

my $shape = 'the app must return an array reference of 3 elements or a code reference, not';
my %wrong = (
    returns_undef  => qr/$shape undef/,
    returns_empty  => qr/$shape undef/,
    returns_text   => qr/$shape the string 'text'/,
    returns_hash   => qr/$shape a hash reference/,
    two_elements   => qr/$shape an array reference of 2 elements/,
    four_elements  => qr/$shape an array reference of 4 elements/,
    bad_status     => qr/the status must be a number from 100 to 599, not the string 'OK'/,
    low_status     => qr/not the number 42/,
    high_status    => qr/not the number 600/,
    interim_status => qr/not a final status/,
    undef_status   => qr/from 100 to 599, not undef/,
    odd_headers    => qr/the headers must be names and values in turn, but there are 1 of them/,
    hash_headers   => qr/the headers must be an array reference, not a hash reference/,
    undef_name     => qr/a header's name is undef/,
    newline_header => qr/newline_header: \S/,
    wide_header    => qr/the header X-One has a wide character/,
    broken_header  => qr/the header X-One cannot be made a string: no words/,
    wide_piece     => qr/piece 1 of the body has a wide character/,
    broken_piece   => qr/piece 0 of the body cannot be made a string: no words/,
    text_body      => qr/the body must be an array reference, a file handle or an object with getline: the string 'text'/,
    hash_body      => qr/with getline: a hash reference/,
    undef_body     => qr/with getline: undef/,
    empty_object   => qr/the body has neither a getline method nor a path: an object of class Something/,
    dies           => qr/the app died: the reason$/m,
    dies_object    => qr/the app died: words of 3$/m,
    dies_wide      => qr/the app died: smile/,
    dies_broken    => qr/the app died: an object of class BrokenWords/,
);
for my $name (sort keys %wrong) {
    subtest $name => sub {
        my $response = get($name);
        is $response->{status}, 500, 'the client gets a 500';
        unlike $response->{body}, qr/reason|wide/, 'and no detail';
        my $log = $server->log_like(qr{GET /$name: });
        my ($line) = $log =~ m{(GET /$name: .*)}s;
        like $line, $wrong{$name}, 'the log says what was wrong';
    };
}

is get('array')->{status}, 200, 'the server goes on';
is get('getline_exits')->{status}, 500, 'exit in the first getline is a 500';
is $server->stop, 0, 'and stops cleanly';

done_testing;
