# The environment hash is reused for the next request. Nothing of one request may be visible in another, however an app changes
# the hash. Each change below (an abuse) is followed by requests with other fields, whose environments must be exactly right.

use strict;
use warnings;
use lib 't/lib';
use Hash::Util   ();
use JSON::PP     ();
use Scalar::Util qw(weaken);
use Test::More;
use Oribi::Options ();
use TestServer   ();

my $json = JSON::PP->new->canonical->latin1;

# State that an abuse leaves on purpose, and code that reports how that state has changed since: nothing of a later request may
# get into it.
our (@kept, $iterated);
my @audits;
my $swaps = 0;

sub audit {
    my ($check) = @_;
    push @audits, $check;
    shift @audits if @audits > 40;
    return;
}

sub audit_hash {
    my ($env, $hold) = @_;
    my %copy = map { $_ => "$env->{$_}" } keys %{$env};
    weaken $env if $hold eq 'weakly';
    audit(sub { return $env ? join q{,}, grep { !defined $env->{$_} || $env->{$_} ne $copy{$_} } sort keys %copy : q{} });
    return;
}

# The app's argument itself, not a copy.
sub audit_argument {
    my ($argument, $hold) = @_;
    my %copy = map { $_ => "${$argument}->{$_}" } keys %{ ${$argument} };
    weaken $argument if $hold eq 'weakly';
    audit(
        sub {
            my $env = $argument ? ${$argument} : return q{};
            return join q{,}, grep { !defined $env->{$_} || $env->{$_} ne $copy{$_} } sort keys %copy;
        }
    );
    return;
}

sub audit_value {
    my ($reference, $hold) = @_;
    my $copy = ${$reference};
    weaken $reference if $hold eq 'weakly';
    audit(sub { return !$reference || ${$reference} eq $copy ? q{} : "value $copy became ${$reference}" });
    return;
}

sub audit_objects {
    my ($env, $hold) = @_;
    my %object  = map { $_ => $env->{$_} } qw(psgi.input psgix.io psgix.informational psgix.cleanup.handlers);
    my $content = content_of($object{'psgi.input'});
    if ($hold eq 'weakly') { weaken $_ for values %object }
    audit(
        sub {
            my @changed;
            push @changed, 'input' if $object{'psgi.input'} && content_of($object{'psgi.input'}) ne $content;
            push @changed, 'handlers' if $object{'psgix.cleanup.handlers'} && @{ $object{'psgix.cleanup.handlers'} };
            # Using one of these objects would access the connection of the current request.
            push @changed, 'io' if $object{'psgix.io'} && fileno $object{'psgix.io'} != -1;
            eval { $object{'psgix.informational'}->(103, [ 'X-Stale' => 1 ]) } if $object{'psgix.informational'};
            return join q{,}, @changed;
        }
    );
    return;
}

sub content_of {
    my ($input) = @_;
    seek $input, 0, 0;
    # Not by readline, which leaves its line number in the handle.
    read $input, my $content, 100_000;
    return $content;
}

my %abuse = (
    nothing           => sub { },
    adds_keys         => sub { $_[0]{"plack.request.$_"} = "secret $_" for 1 .. 3; $_[0]{HTTP_X_SECRET} = 'secret' },
    adds_many         => sub { $_[0]{"secret.$_"} = 'secret' for 1 .. 500 },
    adds_unicode      => sub { $_[0]{"secret.\x{263a}"} = 'secret' },
    deletes_keys      => sub { delete @{ $_[0] }{qw(REMOTE_ADDR HTTP_COOKIE psgi.input psgix.io psgi.version)} },
    deletes_and_adds  => sub { delete $_[0]{HTTP_COOKIE}; $_[0]{HTTP_COOKIE} = 'secret'; $_[0]{secret} = 1 },
    swaps_keys        => sub { delete $_[0]{PATH_INFO}; $_[0]{ 'secret' . $swaps++ } = 1 },
    clears            => sub { %{ $_[0] } = () },
    undefines         => sub { undef %{ $_[0] } },
    refills           => sub { my %copy = %{ $_[0] }; %{ $_[0] } = (%copy, secret => 1) },
    changes_values    => sub { $_[0]{$_} = "secret $_" for grep { !/^psgi/ } keys %{ $_[0] } },
    changes_constants => sub { $_[0]{$_} = 'secret' for grep {/^psgi/} keys %{ $_[0] } },
    modifies_in_place => sub { s/\A/secret/ for grep { !ref } values %{ $_[0] } },
    chops_in_place    => sub { s/\A.// for grep { !ref } values %{ $_[0] } },
    numbers           => sub { my $sum = 0; no warnings; $sum += $_ for grep { !ref } values %{ $_[0] } },
    strings           => sub { my $all = join q{,}, map {"$_"} values %{ $_[0] } },
    upgrades          => sub { utf8::upgrade($_[0]{PATH_INFO}); utf8::upgrade($_[0]{HTTP_COOKIE} //= q{}) },
    wide              => sub { $_[0]{PATH_INFO} = "\x{263a} secret" },
    references        => sub { $_[0]{HTTP_COOKIE} = { secret => [ 1, 2, 3 ] }; $_[0]{PATH_INFO} = \'secret' },
    globs             => sub { $_[0]{PATH_INFO} = *STDOUT },
    long              => sub { $_[0]{PATH_INFO} = 'secret' x 100_000 },
    undef_values      => sub { undef $_ for values %{ $_[0] } },
    positions         => sub { $_[0]{PATH_INFO} =~ /./g; $_[0]{QUERY_STRING} =~ /./gc },
    keeps_hash        => sub { audit_hash($_[0], 'firmly') },
    keeps_value       => sub { audit_value(\$_[0]{$_}, 'firmly') for qw(QUERY_STRING psgi.multiprocess psgi.url_scheme) },
    keeps_closure     => sub { my $env = $_[0]; push @kept, sub {$env} },
    keeps_copy        => sub { push @kept, { %{ $_[0] } } },
    keeps_objects     => sub { audit_objects($_[0], 'firmly') },
    weak_hash         => sub { audit_hash($_[0], 'weakly') },
    weak_value        => sub { audit_value(\$_[0]{$_}, 'weakly') for qw(QUERY_STRING PATH_INFO psgi.multiprocess) },
    weak_objects      => sub { audit_objects($_[0], 'weakly') },
    weakens_values    => sub { weaken $_[0]{'psgi.errors'}; weaken $_[0]{'psgi.version'} },
    aliases           => sub { our $alias; *alias = \$_[0]{PATH_INFO} },
    iterates          => sub { $iterated = each %{ $_[0] } },
    iterates_deleting => sub { my ($key) = each %{ $_[0] }; delete $_[0]{$key} },
    weak_version      => sub { my $version = $_[0]{'psgi.version'}; weaken $version; push @kept, \$version },
    foreach_alias     => sub { for my $value (values %{ $_[0] }) { push @kept, \$value; last } },
    localises         => sub { local $_[0]{PATH_INFO} = 'secret'; local $_[0]{secret} = 1; local $_[0]{HTTP_COOKIE}; 1 },
    deletes_local     => sub { delete local $_[0]{PATH_INFO}; 1 },
    blesses           => sub { bless $_[0], 'Secret' },
    ties              => sub { require Tie::Hash; tie %{ $_[0] }, 'Tie::StdHash' },
    locks             => sub { Hash::Util::lock_keys(%{ $_[0] }) },
    locks_hash        => sub { Hash::Util::lock_hash(%{ $_[0] }) },
    locks_value       => sub { Internals::SvREADONLY($_[0]{PATH_INFO}, 1) },
    nested            => sub { $_[0]{'plack.session'} = { user => 'secret' }; $_[0]{secret}{deep}{er} = [1] },
    cycle             => sub { $_[0]{self} = $_[0] },
    dies              => sub { $_[0]{secret} = 1; die "on purpose\n" },
    handle_state      => sub { ${ *{ $_[0]{'psgi.input'} } }{secret} = 1; *{ $_[0]{'psgix.io'} }->{secret} = 1 },
    handle_ungetc     => sub { $_[0]{'psgi.input'}->ungetc(65) },
    handle_closed     => sub { close $_[0]{'psgi.input'} },
    handle_layer      => sub { binmode $_[0]{'psgi.input'}, ':crlf'; binmode $_[0]{'psgi.input'}, ':utf8' },
    handle_blessed    => sub { bless $_[0]{'psgi.input'}, 'Secret'; bless $_[0]{'psgix.io'}, 'Secret' },
    handle_eof        => sub { my @lines = readline $_[0]{'psgi.input'}; eof $_[0]{'psgi.input'} },
    version_array     => sub { eval { $_[0]{'psgi.version'}[0] = 'secret' }; eval { push @{ $_[0]{'psgi.version'} }, 'secret' } },
    version_elements  => sub { eval { $_ = 'secret' } for @{ $_[0]{'psgi.version'} } },
    handlers_replaced => sub { $_[0]{'psgix.cleanup.handlers'} = ['secret'] },
    handlers_pushed   => sub { push @{ $_[0]{'psgix.cleanup.handlers'} }, sub { $_[0]{secret} = 1 } },
    handlers_blessed  => sub { bless $_[0]{'psgix.cleanup.handlers'}, 'Secret' },
    argument_kept     => sub { audit_argument(\$_[1], 'firmly') },
    argument_weak     => sub { audit_argument(\$_[1], 'weakly') },
    argument_alias    => sub { our $argument; *argument = \$_[1] },
    argument_weakened => sub { weaken $_[1] },
    argument_set      => sub { $_[1] = 'secret' },
    argument_undef    => sub { undef $_[1] },
    argument_other    => sub { $_[1] = { %{ $_[1] }, secret => 1 } },
    argument_blessed  => sub { my $argument = \$_[1]; bless $argument, 'Secret' },
    argument_locked   => sub { Internals::SvREADONLY($_[1], 1) },
    argument_list     => sub { push @kept, \@_ },
);

my $app = sub {
    my ($env) = @_;
    my $count = 0;
    $count++ while defined each %{$env};
    my %seen = map { $_ => ref $env->{$_} ? ref $env->{$_} : "$env->{$_}" } keys %{$env};
    $seen{'psgi.version'} = join q{.}, @{ $env->{'psgi.version'} };
    $seen{handlers}       = scalar @{ $env->{'psgix.cleanup.handlers'} };
    $seen{state}          = grep { defined *{ $env->{$_} }{HASH} } qw(psgi.input psgix.io);
    $seen{content}        = content_of($env->{'psgi.input'});
    $seen{wide}           = join q{,}, grep { utf8::is_utf8($env->{$_}) } keys %{$env};
    $seen{class}          = ref $env;
    $seen{each}           = $count == keys %{$env} ? 'all' : "only $count";
    $seen{audit}          = join q{;}, grep {length} map { $_->() } @audits;
    my $abuse = $env->{PATH_INFO} =~ m{/(\w+)} ? $1 : 'nothing';
    $abuse{$abuse}->($env, $_[0]);
    return [ 200, [], [ $json->encode(\%seen) ] ];
};

my @always = qw(SCRIPT_NAME SERVER_NAME SERVER_PORT SERVER_PROTOCOL REMOTE_ADDR REMOTE_PORT HTTP_HOST
    psgi.version psgi.url_scheme psgi.input psgi.errors psgi.multithread psgi.multiprocess psgi.run_once psgi.nonblocking
    psgi.streaming psgix.input.buffered psgix.io psgix.harakiri psgix.cleanup psgix.cleanup.handlers psgix.informational
    psgix.logger REQUEST_METHOD PATH_INFO REQUEST_URI QUERY_STRING);

my @shapes = (
    { fields => [ Cookie => 'user=alice', 'User-Agent' => 'first' ] },
    { fields => [ 'X-Custom' => 'one', 'X-Other' => 'two' ] },
    { fields => [] },
    { fields => [ 'X-Other' => 'three', 'X-Custom' => 'four', Accept => q{*/*}, Cookie => 'user=bob' ], content => 'some content' },
    { fields => [ map { ("X-Many-$_" => $_) } 1 .. 40 ] },
    { fields => [ 'User-Agent' => 'x' x 2000, Referer => 'y' ] },
    { fields => [ Accept => 'text/html', 'X-Custom' => 'five' ], content => 'ab' },
);

sub check {
    my ($connection, $path, $shape, $label) = @_;
    my @fields   = @{ $shape->{fields} };
    my $method   = defined $shape->{content} ? 'POST' : 'GET';
    my $response = $connection->request($method, "$path?q=$label", \@fields, $shape->{content});
    my $died     = $path eq '/dies';
    return is $response->{status}, 500, "$label: dies" if $died;
    return fail "$label: status $response->{status}" if $response->{status} != 200;
    my $seen   = $json->decode($response->{body});
    my %expect = (
        REQUEST_METHOD           => $method,
        PATH_INFO                => $path,
        REQUEST_URI              => "$path?q=$label",
        QUERY_STRING             => "q=$label",
        'psgi.version'           => '1.1',
        'psgi.url_scheme'        => 'http',
        'psgi.input'             => 'GLOB',
        'psgi.errors'            => 'GLOB',
        'psgi.multithread'       => '0',
        'psgi.multiprocess'      => '1',
        'psgi.streaming'         => '1',
        'psgix.io'               => 'IO::Socket::INET',
        'psgix.cleanup.handlers' => 'ARRAY',
        'psgix.informational'    => 'CODE',
        'psgix.logger'           => 'CODE',
        handlers                 => 0,
        state                    => 0,
        class                    => 'HASH',
        each                     => 'all',
        audit                    => q{},
        wide                     => q{},
        content                  => $shape->{content} // q{},
    );
    my @pairs = @fields;
    while (my ($name, $value) = splice @pairs, 0, 2) {
        (my $key = 'HTTP_' . uc $name) =~ tr/-/_/;
        $expect{$key} = $value;
    }
    $expect{CONTENT_LENGTH} = length $shape->{content} if defined $shape->{content};
    my @wrong = grep { !defined $seen->{$_} || $seen->{$_} ne $expect{$_} } sort keys %expect;
    my %known = map  { $_ => 1 } keys %expect, @always;
    push @wrong, grep { !$known{$_} } sort keys %{$seen};
    push @wrong, grep { !exists $seen->{$_} } @always;
    return is join(q{ }, map { "$_=" . ($seen->{$_} // 'nothing') } @wrong), q{}, $label;
}

for my $options ({ workers => 1 }, { workers => 1, threads => 2 }) {
    next if $options->{threads} && !Oribi::Options::has_threads();
    my $server = TestServer->start(app => $app, options => $options);
    my $seed   = 12345;
    # A small generator of our own, so that a failure repeats.
    my $random = sub { $seed = ($seed * 1_103_515_245 + 12_345) % 2**31; return int($seed / 65536) % $_[0] };
    my $label  = $options->{threads} ? 'threads' : 'one interpreter';

    subtest "$label: each abuse, then each shape" => sub {
        my $connection = $server->connection;
        for my $abuse (sort keys %abuse) {
            my $shape = $shapes[ $random->(scalar @shapes) ];
            check($connection, "/$abuse", $shape, "$abuse");
            check($connection, '/nothing', $_, "after-$abuse") for @shapes[ $random->(7), $random->(7) ];
        }
    };

    subtest "$label: a key in the place of another" => sub {
        my $connection = $server->connection;
        # The new key gets the place and the memory of the old one, when both are in one of 64 buckets.
        check($connection, '/swaps_keys', $shapes[0], "swap-$_") or last for 1 .. 400;
    };

    subtest "$label: a random sequence" => sub {
        my $connection = $server->connection;
        my @names      = sort keys %abuse;
        for my $number (1 .. 600) {
            my $abuse = $names[ $random->(scalar @names) ];
            check($connection, "/$abuse", $shapes[ $random->(7) ], "$number-$abuse") or last;
        }
    };
    is $server->stop, 0, "$label: stopped";
}

done_testing;
