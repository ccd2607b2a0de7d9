#!/usr/bin/perl
# Property: for every action of an app while the server calls it, the hosts touch no memory that is no longer theirs. The apps
# are odd.psgi, odd.ru and odd.lua; the address sanitizer and valgrind look on.
#
# prove tests/sanitize/hosts.t [:: RUN...]: some of the runs below. ORIBI_SANITIZE=long: all of them, each oddity many times.

use v5.36;
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/../lib";
use IO::Select ();
use Test::More;
use Test::Oribi;
use Time::HiRes qw(time);

# The time that an answer may take before it counts as missing: everything is many times slower here.
use constant PATIENCE => 20;

my $long   = ($ENV{ORIBI_SANITIZE} // q{}) eq 'long';
my $rounds = $long ? 12 : 1;
my $root   = Test::Oribi::root();
my $built  = "$root/target/sanitize";

# Each run: its app, whether it belongs to the short form, and further arguments of oribi.
my @runs = (
    ['perl-asan',             'odd.psgi', 1],
    ['ruby-asan',             'odd.ru',   1],
    ['lua-valgrind',          'odd.lua',  1, '--lua', '5.4', '--state-memory', '32MiB'],
    ['luajit-valgrind',       'odd.lua',  1, '--state-memory', '32MiB'],
    ['perl-threads-asan',     'odd.psgi', 0, '--threads', 2],
    ['ruby-threads-asan',     'odd.ru',   0, '--threads', 3],
    ['perl-valgrind',         'odd.psgi', 1],
    ['ruby-valgrind',         'odd.ru',   0],
    ['lua-threads-valgrind',  'odd.lua',  0, '--lua', '5.4', '--state-memory', '32MiB', '--threads', 2],
    ['luajit-threads-valgrind', 'odd.lua', 0, '--state-memory', '32MiB', '--threads', 2],
);

# The names that the short form leaves out, because they take nine tenths of the time: `input-lines` compacts the heap for each
# of many lines, and `stream-not-closed` waits until a garbage collection has found that the stream is unused.
my %left_out = $long ? () : ('odd.ru' => { map { $_ => 1 } qw(input-lines stream-not-closed) });

# The path for the reports of the run NAME, and the environment that makes it write them.
sub instrumented ($name, $folder) {
    my ($language) = $name =~ /\A([a-z]+)/;
    return asan_environment($language, $folder) if $name =~ /asan/;
    return valgrind_environment($language, $folder);
}

sub asan_environment ($language, $folder) {
    chomp(my $library = `gcc -print-file-name=libasan.so`);
    return (
        LD_PRELOAD   => $library,
        # Languages free nothing when they end. Everything else ends the process at the first report.
        ASAN_OPTIONS    => "detect_leaks=0:use_sigaltstack=0:log_path=$folder/report",
        ORIBI_PERL_LIB  => "$built/perl/blib",
        ORIBI_RUBY_LIB  => "$built/ruby/lib",
    );
}

sub valgrind_environment ($language, $folder) {
    # Ruby looks for references on its stacks, where there is also uninitialized memory, and below their ends.
    my @stacks = $language eq 'ruby' ? ('--undef-value-errors=no', '--ignore-range-below-sp=8192-1') : ();
    my @valgrind = (
        'valgrind', '--quiet', '--error-exitcode=66', '--leak-check=no', '--num-callers=30', @stacks,
        "--suppressions=$FindBin::Bin/interpreters.supp", "--log-file=$folder/report.%p",
    );
    my $oribi   = Test::Oribi::command();
    my %program = (perl => $ENV{PERL} // '/usr/bin/perl', ruby => $ENV{RUBY} // '/usr/bin/ruby', lua => "$oribi-lua5.4", luajit => $oribi);
    my $wrapper = "$folder/$language";
    open my $out, '>', $wrapper or die "$wrapper: $!";
    print {$out} qq{#!/bin/sh\nexec @valgrind $program{$language} "\$\@"\n};
    close $out or die "$wrapper: $!";
    chmod 0755, $wrapper or die "$wrapper: $!";
    return (ORIBI_PERL => $wrapper) if $language eq 'perl';
    return (ORIBI_RUBY => $wrapper) if $language eq 'ruby';
    return (ORIBI => $wrapper);
}

# The reports so far.
sub reports ($folder) {
    my $all = q{};
    for my $file (glob "$folder/report*") {
        open my $in, '<', $file or die "$file: $!";
        local $/ = undef;
        $all .= readline($in) // q{};
    }
    # The sanitizer says once that it does not know the stack of a fiber. Nothing of stacks is looked at in Ruby anyway.
    $all =~ s/^==\d+==WARNING: ASan is ignoring requested __asan_handle_no_return.*\nFalse positive .*\nFor details .*\n//gm;
    # Valgrind reports unknown system calls, in lines that begin with dashes.
    return $all =~ s/^--.*\n//gmr;
}

# Sends BYTES and returns all received bytes until the server ends the connection; undef if it does not.
sub exchange ($server, $bytes) {
    my $socket = $server->connection or return;
    $socket->blocking(0);
    local $SIG{PIPE} = 'IGNORE';
    my ($answer, $end) = (q{}, time + PATIENCE);
    while (time < $end) {
        my ($readable, $writable) = IO::Select->select(IO::Select->new($socket), length $bytes ? IO::Select->new($socket) : undef, undef, 1);
        if ($writable && @$writable) {
            my $sent = syswrite $socket, $bytes;
            # A server may answer without having taken all of it.
            $bytes = defined $sent ? substr $bytes, $sent : $!{EAGAIN} ? $bytes : q{};
        }
        next if !$readable || !@$readable;
        my $count = sysread $socket, my $piece, 65_536;
        return $answer if defined $count ? $count == 0 : !$!{EAGAIN};
        $answer .= $piece if defined $count;
    }
    return;
}

# Sends BYTES and goes away.
sub abort ($server, $bytes) {
    my $socket = $server->connection or return;
    syswrite $socket, $bytes;
    return close $socket;
}

# Sends the requests for an oddity, one client each: with content, with further requests after it, by HTTP/1.0, and by a client
# that does not wait for the answer.
sub visit ($server, $path) {
    my $content = join q{}, map { "line $_ of the content\n" } 1 .. 1500;
    my $host    = "Host: sanitize.example\r\nCookie: a=1; b=2\r\n";
    my $get     = "GET $path?query HTTP/1.1\r\n$host\r\n";
    my @asked   = (
        "POST $path HTTP/1.1\r\n${host}Content-Length: " . length($content) . "\r\nConnection: close\r\n\r\n$content",
        $get . $get . "GET / HTTP/1.1\r\n${host}Connection: close\r\n\r\n",
        "GET $path HTTP/1.0\r\n\r\n",
    );
    abort($server, $get);
    return map { exchange($server, $_) } @asked;
}

sub run ($name, $app, @arguments) {
    my $folder      = File::Temp->newdir;
    my %environment = instrumented($name, "$folder");
    local @ENV{ keys %environment } = values %environment;
    my @deadlines = ('--request-warning', 1, '--request-timeout', 3, '--request-kill', 20);
    my $server = Test::Oribi->start("$FindBin::Bin/$app", '--workers', 1, '--max-requests', 300, '--err-respawn-interval', '10ms', '--graceful-timeout', 5, @deadlines, @arguments);
    my $list   = exchange($server, "GET / HTTP/1.0\r\n\r\n") // q{};
    my @paths  = grep { $_ ne 'stuck' && !$left_out{$app}{$_} } $list =~ /^([a-z-]+)$/gm;
    cmp_ok @paths, '>', 40, 'the app lists its oddities';

    my $answered = 0;
    for my $path (@paths) {
        my $before   = length reports($folder);
        my @answers  = map { visit($server, "/$path") } 1 .. $rounds;
        my $missing  = grep { !defined } @answers;
        my $reported = substr reports($folder), $before;
        ok($missing == 0 && $reported eq q{}, "$path: every request comes to an end, and nothing is reported")
            || diag("$missing requests had no end\n", substr $reported, 0, 6000);
        $answered++ if ($answers[0] // q{}) =~ m{\AHTTP/1.1 200 };
    }
    # An app that is broken as a whole would prove nothing.
    cmp_ok $answered, '>', @paths / 2, 'most oddities are answered';

    like exchange($server, "GET /stuck HTTP/1.0\r\n\r\n"), qr/\AHTTP\S+ 504 /, 'an app that is stuck is interrupted';
    like exchange($server, "GET / HTTP/1.0\r\n\r\n"), qr/\AHTTP\S+ 200 /, 'the server serves on';
    is $server->stop, 0, 'TERM ends it with status 0';
    my $log = $server->log_text;
    is join(q{}, grep { /killed by signal|panicked|does not react/ } $log =~ /^.*\n/gm), q{}, 'no worker was lost';
    is reports($folder), q{}, 'nothing is reported in the end';
    return;
}

for my $run (@runs) {
    my ($name, $app, $short, @arguments) = @$run;
    next if @ARGV ? !grep { $_ eq $name } @ARGV : !$short && !$long;
    subtest $name => sub { run($name, $app, @arguments) };
}

done_testing;
