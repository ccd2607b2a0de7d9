# The behaviours of the app, one for each path. A target is /BEHAVIOUR?NUMBER&ARGUMENT...; every answer repeats the number, and
# has the id of the answering process in X-Worker. config.ru and app.lua are the same app in their languages.

use v5.36;
use POSIX ();
use Time::HiRes qw(ITIMER_REAL setitimer sleep time);

# The folder for a file for each request that an app has begun, named by its number: tests wait for it.
my $inside = $ENV{ORIBI_TEST_INSIDE};

# Endless behaviours end after so many seconds, or a failed test would leave processes behind.
use constant LONG => 60;

sub enter ($number) {
    open my $out, '>', "$inside/.$number" or die "$inside: $!";
    print {$out} $$;
    close $out                                 or die "$inside: $!";
    rename "$inside/.$number", "$inside/$number" or die "$inside: $!";
    return;
}

sub answer ($text, @fields) {
    return [200, ['Content-Type' => 'text/plain', 'Content-Length' => length $text, 'X-Worker' => $$, @fields], [$text]];
}

# The byte at position I is the letter I + NUMBER of the alphabet, which begins again after z.
sub letters ($number, $length) {
    my $alphabet = join q(), 'a' .. 'z';
    my $first    = $number % 26;
    my $turned   = substr($alphabet, $first) . substr $alphabet, 0, $first;
    return substr $turned x (1 + $length / 26), 0, $length;
}

sub sleep_for ($seconds) {
    my $end = time + $seconds;
    while ((my $left = $end - time) > 0) { sleep $left }
    return;
}

sub loop_for_ever () {
    my $end = time + LONG;
    1 while time < $end;
    return;
}

# Catastrophic: each further letter doubles the work.
sub match_for_ever () { return ('a' x 40) =~ /^(a+)+\1?c/ }

sub read_for_ever () {
    open my $in, '+<', "$inside/.fifo" or die "$inside/.fifo: $!";
    return scalar readline $in;
}

# A hash of 999,999,999 rounds, all within one call of the C library. (Of constants, Perl would compute it while it loads.)
sub compute_for_ever ($word) { return crypt $word, '$6$rounds=999999999$salt$' }

sub content ($env) {
    my ($content, $buffer) = (q(), q());
    $content .= $buffer while $env->{'psgi.input'}->read($buffer, 65_536);
    return $content;
}

# One piece, and trailers that describe it.
sub trailers ($number, $length) {
    return sub ($respond) {
        my $writer = $respond->([200, ['Content-Type' => 'text/plain', 'X-Worker' => $$]]);
        $writer->write(letters($number, $length));
        $writer->close(['X-Number' => $number, 'X-Length' => $length]);
    };
}

# The trailers after the content of a request, and the field of the head that has the name of one of them.
sub behind ($env) {
    my @left = @{ $env->{'oribi.trailers'} // ['none', q()] };
    my %values;
    while (my ($name, $value) = splice @left, 0, 2) { push @{ $values{$name} }, $value }
    my @lines = map { "$_: " . join q(, ), @{ $values{$_} } } sort keys %values;
    return answer(join "\n", @lines, 'head ' . ($env->{HTTP_X_SUM} // q(-)), length(content($env)) . ' bytes');
}

sub stream ($number, $length, $pieces, $fails) {
    return sub ($respond) {
        my $writer = $respond->([200, ['Content-Type' => 'text/plain', 'X-Worker' => $$]]);
        my $text   = letters($number, $length);
        my $step   = POSIX::ceil($length / $pieces);
        for (my $at = 0; $at < $length; $at += $step) { $writer->write(substr $text, $at, $step) }
        die "broken off\n" if $fails;
        $writer->close;
    };
}

# The way in which the boot request is answered, if a test has set one.
sub boot () {
    open my $in, '<', "$inside/boot" or return answer("booted\n");
    chomp(my $word = readline $in);
    return answer("booted\n") if $word eq 'once' && mkdir "$inside/once";
    die "no database\n" if $word =~ /^(?:die|once)$/;
    sleep_for(LONG) if $word eq 'hang';
    return [$word, [], []];
}

# Counts an order and how long it took.
sub count ($number) {
    Oribi::count('orders', 1, kind => $number % 2);
    Oribi::observe('payment_seconds', 0.02, provider => 'x');
    return answer("count $number\n");
}

# The server's error for an impossible figure.
sub misuse ($name, $amount, $label) {
    my %odd = (nan => -sin 9**9**9, inf => 9**9**9);
    return answer(eval { Oribi::count($name, $odd{$amount} // $amount, $label => 'x'); 1 } ? "fine\n" : "error: $@");
}

# Writes nonsense over all that the processes of this server have counted as orders.
sub scribble ($number) {
    open my $maps, '<', '/proc/self/maps'   or die "maps: $!";
    open my $memory, '+<:raw', '/proc/self/mem' or die "mem: $!";
    for my $map (grep {/oribi-board/} readline $maps) {
        my ($from, $to) = map {hex} $map =~ /^(\w+)-(\w+)/;
        seek $memory, $from, 0 or die "mem: $!";
        read $memory, my $bytes, $to - $from or die "mem: $!";
        while ($bytes =~ /\x01\x06orders/g) {
            my $key = $from + $-[0];
            seek $memory, $key - 256, 0 or die "mem: $!";
            print {$memory} "\xff" x 300;
        }
    }
    close $memory or die "mem: $!";
    return answer("scribble $number\n");
}

my @leaked;

# A text that needs itself to be one. Perl's own recursion needs no stack of C; calls of C by Perl and of Perl by C do.
{
    package Endless;
    use overload q("") => sub ($self, @) { return "$self" };
}

sub overflow () {
    my $endless = bless [], 'Endless';
    return "$endless";
}

# Takes that many MiB at most, so that a machine survives a server without a limit.
sub devour ($most) {
    my @taken;
    for (1 .. $most) { push @taken, 'x' x 2**20 }
    return;
}

# Clients that follow something: their answers stay open.
my @followers;

sub follow ($number) {
    return sub ($respond) {
        my $writer = $respond->([200, ['Content-Type' => 'text/event-stream', 'X-Worker' => $$]]);
        $writer->write("data: $number\n\n");
        push @followers, $writer;
    };
}

# Says how many there still are.
sub news () {
    @followers = grep { $_->write("data: news\n\n") } @followers;
    return answer(scalar(@followers) . "\n");
}

# Answers that are put off: a timer continues them until the test lets all of them end.
my @postponed;

sub continue_postponed () {
    my $ends = -e "$inside/end";
    @postponed = grep { $_->($ends) } @postponed;
    setitimer(ITIMER_REAL, 0) if !@postponed;
    return;
}

# `$next` returns whether the answer goes on.
sub postpone ($next) {
    push @postponed, $next;
    $SIG{ALRM} = sub { continue_postponed() };    ## no critic (RequireLocalizedPunctuationVars)
    setitimer(ITIMER_REAL, 0.02, 0.02);
    return;
}

# A piece at each tick.
sub feed ($number) {
    return sub ($respond) {
        my $writer = $respond->([200, ['Content-Type' => 'text/event-stream', 'X-Worker' => $$]]);
        $writer->write("begins $number\n");
        postpone(sub ($ends) {
            return $writer->write("goes on $number\n") if !$ends;
            $writer->write("ends $number\n");
            $writer->close;
            return 0;
        });
    };
}

# The whole answer at the end.
sub later ($number) {
    enter($number);
    return sub ($respond) {
        postpone(sub ($ends) {
            $respond->(answer("later $number\n")) if $ends;
            return !$ends;
        });
    };
}

my %behaviours = (
    q()   => sub ($env)                    { return answer("hello\n") },
    fast  => sub ($env, $number)           { return answer("fast $number\n") },
    mark  => sub ($env, $number)           { enter($number); return answer("mark $number\n") },
    sleep => sub ($env, $number, $seconds) { enter($number); sleep_for($seconds); return answer("sleep $number\n") },
    nap   => sub ($env, $number, $seconds) { sleep_for($seconds); return answer("nap $number\n") },
    stuck => sub ($env, $number)           { enter($number); loop_for_ever(); return answer("stuck $number\n") },
    regex => sub ($env, $number)           { enter($number); match_for_ever(); return answer("regex $number\n") },
    read  => sub ($env, $number)           { enter($number); read_for_ever(); return answer("read $number\n") },
    c     => sub ($env, $number)           { enter($number); compute_for_ever($number); return answer("c $number\n") },
    leak  => sub ($env, $number)           { push @leaked, 'x' x 2**20; return answer("leak $number\n") },
    boot  => sub ($env)                    { return boot() },
    count => sub ($env, $number)           { return count($number) },
    misuse => sub ($env, $number, @what)   { return misuse(@what) },
    odd   => sub ($env, $number)           { Oribi::count('odd', 0.5, text => qq(a"b\\c\n\x{20ac})); return answer("odd $number\n") },
    series => sub ($env, $number, $count)  { Oribi::count('visits', 1, page => $_) for 1 .. $count; return answer("series $number\n") },
    scribble => sub ($env, $number)        { return scribble($number) },
    follow => sub ($env, $number)          { return follow($number) },
    news  => sub ($env, @)                 { return news() },
    feed  => sub ($env, $number)           { return feed($number) },
    later => sub ($env, $number)           { return later($number) },
    exec  => sub ($env, $number)           { enter($number); exec {'sleep'} 'sleep', LONG or die "exec: $!\n" },
    die   => sub ($env, $number)           { die "request $number dies\n" },
    exit  => sub ($env, $number)           { exit 3 },
    kill  => sub ($env, $number)           { kill KILL => $$; sleep_for(LONG); return },
    vanish => sub ($env, $number)          { POSIX::_exit(0) },
    overflow => sub ($env, $number)        { overflow(); return answer("overflow $number\n") },
    devour => sub ($env, $number, $most)   { devour($most); return answer("devour $number\n") },
    segv  => sub ($env, $number)           { kill SEGV => $$; sleep_for(LONG); return },
    big   => sub ($env, $number, $length)  { return answer(letters($number, $length)) },
    stream => sub ($env, $number, $length, $pieces) { return stream($number, $length, $pieces, 0) },
    trailers => sub ($env, $number, $length) { return trailers($number, $length) },
    behind => sub ($env, @) { return behind($env) },
    broken => sub ($env, $number, $length, $pieces) { return stream($number, $length, $pieces, 1) },
    tls => sub ($env, @) { return answer(join q( ), $env->{'psgi.url_scheme'}, map { $env->{$_} // q(-) } qw(HTTPS SSL_PROTOCOL SSL_TLS_SNI SERVER_PORT)) },
    client => sub ($env, @) { return answer(join "\n", map { $env->{"SSL_CLIENT_$_"} // q(-) } qw(VERIFY S_DN I_DN M_SERIAL CERT)) },
    ls => sub ($env, @) { return answer(scalar qx(ls /proc/self/fd)) },
    upload => sub ($env, $number) { return answer(content($env)) },
    unmodified => sub ($env, $number) { return [304, ['X-Worker' => $$, 'ETag' => qq("$number")], []] },
    named => sub ($env, $number) { return answer(q(), 'X-Sendfile' => "$ENV{ORIBI_TEST_FILES}/small") },
    hijack => sub ($env, $number, $length = undef) {
        enter($number);
        return sub ($respond) {
            my $socket = $env->{'psgix.io'};
            my $text   = defined $length ? letters($number, $length) : "hijack $number\n";
            print {$socket} 'HTTP/1.1 200 OK', "\r\nContent-Length: ", length $text, "\r\nConnection: close\r\n\r\n", $text;
            close $socket;
        };
    },
);

sub ($env) {
    my $behaviour = $behaviours{ substr $env->{PATH_INFO}, 1 } or return [404, ['Content-Length' => 0], []];
    return $behaviour->($env, split /&/, $env->{QUERY_STRING});
};
