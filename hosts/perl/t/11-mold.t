# The code that the oribi command runs.

use strict;
use warnings;
use lib 't/lib';
use File::Temp      ();
use IPC::Open3      qw(open3);
use POSIX           ();
use Symbol          qw(gensym);
use Test::FreePort  qw(free_port);
use Test::More;
use TestServer      ();

my $directory = File::Temp->newdir;

sub write_file {
    my ($name, $text) = @_;
    open my $handle, '>', "$directory/$name" or die $!;
    print {$handle} $text;
    close $handle;
    return "$directory/$name";
}

my @mold = TestServer::mold();

# Runs the mold to its end: its status and its output.
sub run_mold {
    my (@words) = @_;
    my $pid = open3(my $in, my $out, my $error = gensym, @mold, @words);
    close $in;
    my ($output, $errors) = map { local $/; scalar readline $_ } $out, $error;
    waitpid $pid, 0;
    return ($? >> 8, $output // q{}, $errors // q{});
}

my $good = write_file('good.psgi', <<'END');
my $environment = $ENV{PLACK_ENV};
my $arguments   = @ARGV;
sub { [ 200, [], ["good in $environment with $arguments"] ] };
END
my $dying  = write_file('dying.psgi',  qq{die "the reason\\n";\n});
my $syntax = write_file('syntax.psgi', "sub { ;\n");
my $number = write_file('number.psgi', qq{42;\n});
my $false  = write_file('false.psgi',  qq{0;\n});

subtest 'check' => sub {
    is_deeply [ run_mold('--check', $good) ], [ 0, q{}, q{} ], 'an app that loads: nothing is said';
    my %wrong = ($dying => qr/the reason/, $syntax => qr/syntax|Missing/, $number => qr/no code reference/, $false => qr/\S/, "$directory/none.psgi" => qr/No such file/);
    for my $file (sort keys %wrong) {
        my ($status, $output, $errors) = run_mold('--check', $file);
        is $status, 1,   "$file: status";
        is $output, q{}, 'nothing on standard output';
        like $errors, qr/\Acannot load \Q$file\E: /, 'which file';
        like $errors, $wrong{$file}, 'and why';
    }
};

subtest 'words that do not fit' => sub {
    my ($status, undef, $errors) = run_mold();
    is $status, 1;
    like $errors, qr/usage/;
    ($status, undef, $errors) = run_mold($good, 'workers=many');
    is $status, 1;
    like $errors, qr{many.*workers};
};

for my $without_plack (0, 1) {
    subtest $without_plack ? 'without Plack' : 'serving' => sub {
        my $port = free_port();
        my $log  = "$directory/log-$without_plack";
        my $pid  = fork // die $!;
        if (!$pid) {
            open STDERR, '>', $log or POSIX::_exit(99);
            my @words = @mold;
            # A module that cannot be found counts as not installed.
            splice @words, 2, 0, '-e', 'BEGIN { unshift @INC, sub { die "Plack is hidden\n" if $_[1] =~ m{^Plack/} } }' if $without_plack;
            exec(@words, $good, "listen=127.0.0.1:$port", 'workers=1', 'max-requests=1000', 'keepalive-timeout=5')
                or POSIX::_exit(99);
        }
        my $server = bless { port => $port, owner => 0 }, 'TestServer';
        ok TestServer::wait_for(sub { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) }), 'listens';
        is $server->get('/')->{body}, 'good in deployment with 0', 'the app sees a deployment, and no arguments';
        kill TERM => $pid;
        TestServer::within(20, sub { waitpid $pid, 0 });
        is $?, 0, 'stops cleanly';
    };
}

subtest 'exceptions in development' => sub {
    my $file = write_file('dies.psgi', <<'END');
sub buy { die "no stock of <b>books</b>\n" }
sub { my ($env) = @_; $env->{PATH_INFO} eq '/ok' ? [ 200, [], ['ok'] ] : buy() };
END
    my $server   = TestServer->start_mold($file, { PLACK_ENV => 'development' });
    ok $server->listens, 'listens';
    my $response = $server->get('/');
    is $response->{status}, 500;
    like $response->{body}, qr/no stock of <b>books/, 'a program sees the exception';
    like $response->{body}, qr/dies\.psgi line 1/, 'and where it was';
    $response = $server->get('/', Accept => 'text/html');
    like TestServer::Connection::field($response, 'Content-Type'), qr{text/html}, 'a browser gets a page';
    like $response->{body}, qr/no stock of &lt;b&gt;books/, 'that quotes it';
    like $server->log_like(qr/no stock/), qr/no stock of .*at \S+dies\.psgi line 1/s, 'the log has it, too';
    is $server->get('/ok')->{body}, 'ok', 'others are answered';
    is $server->stop, 0;
    $server = TestServer->start_mold($file, { PLACK_ENV => 'production' });
    ok $server->listens, 'listens';
    unlike $server->get('/')->{body}, qr/stock/, 'elsewhere nobody sees it';
    like $server->log_like(qr/no stock/), qr/the app died: no stock/, 'but the log';
    is $server->stop, 0;
};

subtest 'titles' => sub {
    my $file = write_file('named.psgi', <<'END');
use FindBin;
my $name = $0;
sub { [ 200, [], ["$name $FindBin::Bin $0"] ] };
END
    my ($folder) = $file =~ m{\A(.*)/};
    my $server = TestServer->start_mold($file, {}, 'proctitle=off');
    ok $server->listens, 'listens';
    my ($name, $bin, $later) = split / /, $server->get('/')->{body};
    is $name, $file,   'while the app is loaded, $0 is its path, as under plackup';
    is $bin,  $folder, 'and FindBin finds its folder';
    unlike $later, qr/oribi/, 'there are no titles';
    is $server->stop, 0;
};

subtest 'PERLIO' => sub {
    my $file = write_file('echo.psgi', <<'END');
sub {
    my ($env) = @_;
    my $content = do { local $/; readline $env->{'psgi.input'} };
    return [ 200, [], [$content] ] if $env->{PATH_INFO} eq '/echo';
    syswrite $env->{'psgix.io'}, q{};
    print { $env->{'psgix.io'} } "raw\n" . readline $env->{'psgix.io'};
    return [];
};
END
    my $server = TestServer->start_mold($file, { PERLIO => ':crlf' }, 'body-buffer-size=1000');
    ok $server->listens, 'listens';
    for my $lines (1, 1000) {
        my $content = "a\r\nb\nc\r\n" x $lines;
        ok $server->request(POST => '/echo', [], $content)->{body} eq $content, "content of $lines lines is as it was sent";
    }
    my $raw = $server->connection;
    # Only after such a request do the bytes that arrive with it belong to the app.
    $raw->send("GET /io HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: raw\r\n\r\n");
    $raw->send("a line\r\n");
    is $raw->rest, "raw\na line\r\n", 'and so is what passes by psgix.io';
    is $server->stop, 0;
};

SKIP: {
    skip 'Mojolicious is not installed', 1 if !eval { require Mojolicious; 1 };
    my $file = write_file('mojolicious.psgi', <<'END');
use Mojolicious::Lite;
use Mojo::IOLoop;
get '/now' => sub { shift->render(text => 'now') };
get '/later' => sub { my ($c) = @_; $c->render_later; Mojo::IOLoop->timer(0.1 => sub { $c->render(text => 'late') }) };
get '/chunks' => sub { my ($c) = @_; $c->write_chunk('first' => sub { my ($c) = @_; $c->write_chunk('second' => sub { shift->finish }) }) };
get '/slow' => sub { my ($c) = @_; $c->write_chunk('first' => sub { Mojo::IOLoop->timer(0.1 => sub { $c->finish }) }) };
app->start;
END
    my $server = TestServer->start_mold($file, { MOJO_LOG_LEVEL => 'fatal' }, 'loop=none');
    ok $server->listens, 'listens';
    is $server->get('/now')->{body},         'now',         'an action that renders';
    is $server->get('/none')->{status},      404,           'a page that is not there';
    is $server->get('/chunks')->{body},      'firstsecond', 'content in pieces';
    is $server->get('/later')->{status},     500,           'render_later is an error';
    like $server->log_like(qr{GET /later}), qr{GET /later: the Mojolicious app has rendered nothing: the event loop}, 'and the log says why';
    ok !$server->get('/slow')->{whole}, 'content that waits for a timer is cut';
    like $server->log_like(qr{GET /slow}), qr{GET /slow: the Mojolicious app waits before the rest of its response: the event loop}, 'and the log says why';
    is $server->stop, 0;
}

done_testing;
