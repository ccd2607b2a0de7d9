# What the oribi command runs.

use strict;
use warnings;
use lib 't/lib';
use File::Temp      ();
use IPC::Open3      qw(open3);
use Net::EmptyPort  ();
use POSIX            ();
use Symbol          qw(gensym);
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

my @mold = ($^X, '-Mblib', '-MOribi::Mold', '-e', 'exit Oribi::Mold->main(@ARGV)', q{--});

# Runs the mold to its end: its status and what it wrote.
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
        my $port = Net::EmptyPort::empty_port();
        my $log  = "$directory/log-$without_plack";
        my $pid  = fork // die $!;
        if (!$pid) {
            open STDERR, '>', $log or POSIX::_exit(99);
            my @words = @mold;
            # A module that cannot be found is as good as one that is not installed.
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

done_testing;
