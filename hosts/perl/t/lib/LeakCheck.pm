package LeakCheck;

# Sends mixed requests, thousands at a time, and watches the memory of the worker that answers them.

use strict;
use warnings;
use TestServer ();

our @kept;

package LeakCheck::Body {
    sub new     { my ($class, @lines) = @_; return bless [@lines], $class }
    sub getline { return shift @{ $_[0] } }
    sub close   { return }
}

package LeakCheck;

my %answer = (
    array     => sub { [ 200, [ 'Content-Type' => 'text/plain' ], [ 'Hello', ' ', 'World' ] ] },
    post      => sub { my ($env) = @_; $env->{'psgi.input'}->read(my $content, 100_000); [ 200, [], [ length $content ] ] },
    stream    => sub { sub { my $writer = $_[0]->([ 200, [] ]); $writer->write('a'); $writer->write('b'); $writer->close } },
    delayed   => sub { sub { $_[0]->([ 200, [], ['delayed'] ]) } },
    file      => sub { open my $handle, '<', __FILE__ or die; [ 200, [], $handle ] },
    memory    => sub { open my $handle, '<', \'from memory' or die; [ 200, [], $handle ] },
    object    => sub { [ 200, [], LeakCheck::Body->new(qw(a b c)) ] },
    dies      => sub { die { reason => ['an object'] } },
    broken    => sub { [ 200, ['odd'], [] ] },
    wide      => sub { [ 200, [], ["\x{263a}"] ] },
    keeps     => sub { push @kept, $_[0]; shift @kept if @kept > 10; [ 200, [], ['kept'] ] },
    adds      => sub { $_[0]{"app.$_"} = { nested => [$_] } for 1 .. 10; [ 200, [], ['added'] ] },
    copies    => sub { my %copy = %{ $_[0] }; push @kept, \%copy; shift @kept if @kept > 10; [ 200, [], ['copied'] ] },
    cleanup   => sub { push @{ $_[0]{'psgix.cleanup.handlers'} }, sub { $_[0]{cleaned}++ }; [ 200, [], ['ok'] ] },
    inform    => sub { $_[0]{'psgix.informational'}->(103, [ Link => '<x>' ]); [ 200, [], ['informed'] ] },
    objects   => sub { push @kept, @{ $_[0] }{qw(psgix.io psgix.informational psgi.input)}; splice @kept, 0, 3 if @kept > 10; [ 200, [], ['ok'] ] },
    upgraded  => sub { my $text = "caf\xe9"; utf8::upgrade($text); [ 200, [ 'X-Text' => $text ], [$text] ] },
    reads_env => sub { my ($env) = @_; my $text = join q{,}, map {"$_=$env->{$_}"} keys %{$env}; [ 200, [], [ length $text ] ] },
);
my @names = sort keys %answer;

sub app {
    return sub { my ($env) = @_; return $answer{ substr $env->{PATH_INFO}, 1 }->($env) };
}

# A round asks for everything once, with fields that differ from round to round.
sub _round {
    my ($number) = @_;
    my $text = q{};
    for my $name (@names) {
        $text .= ($name eq 'post' ? 'POST' : 'GET') . " /$name HTTP/1.1\r\nHost: localhost\r\n";
        $text .= "Cookie: session=$number\r\n" if $number % 2;
        $text .= "X-Custom-$number: value\r\n" if $number % 3 == 0;
        $text .= 'User-Agent: ' . ('x' x ($number % 50)) . "\r\n";
        my $content = $name eq 'post' ? 'c' x ($number % 40 == 0 ? 5000 : 10) : q{};
        $text .= 'Content-Length: ' . length($content) . "\r\n" if length $content;
        $text .= "\r\n$content";
    }
    return $text;
}

sub start {
    my ($class, %options) = @_;
    # Content of more than 4 KiB goes through a file; the errors are not the point here.
    my $server = TestServer->start(app => app(), options => { body_buffer_size => '4k', log_level => 'off', %options });
    return bless { server => $server, connection => $server->connection, rounds => 0 }, $class;
}

sub server { return shift->{server} }

# Sends that many requests, in rounds.
sub run {
    my ($self, $requests) = @_;
    my $connection = $self->{connection};
    my $end        = $self->{rounds} + $requests / @names;
    while ($self->{rounds} < $end) {
        my $number = $self->{rounds}++ % 120;
        $connection->send($self->{texts}[$number] ||= _round($number));
        for my $name (@names) {
            my $response = $connection->response('GET');
            $response = $connection->response('GET') if $response->{status} == 103;
            my $expected = $name =~ /\A(?:dies|broken|wide)\z/ ? 500 : 200;
            die "$name was answered with $response->{status}\n" if $response->{status} != $expected;
        }
    }
    return;
}

# Resident KiB of the worker.
sub memory {
    my ($self) = @_;
    my ($pid) = qx(ps -o pid= --ppid @{[ $self->{server}->pid ]}) =~ /(\d+)/;
    open my $handle, '<', "/proc/$pid/status" or die $!;
    my ($memory) = join(q{}, readline $handle) =~ /^VmRSS:\s+(\d+)/m;
    close $handle;
    return $memory;
}

1;
