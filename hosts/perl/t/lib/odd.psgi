# Apps that free, change and tie values, die, fork and exit wherever the server calls them, or where it reads the values that
# they have returned. GET /NAME calls the app of that name. `/probe` shows the environment of a request, in which no earlier
# request may have left a trace.
#
# `do` of this file returns the app. Under the address sanitizer or valgrind, request each name in @Odd::EXPECTED, compare the
# answer with the status (0 if the connection ends without an answer) and the body there, and request /probe after each.

package Odd;
use strict;
use warnings;
use Scalar::Util ();

our (%APPS, @EXPECTED);

# A likely content of memory that was freed too early.
my $secret = 'SECRET ' x 715;
my @hoard;
sub fill_memory { @hoard = map { my $copy = "$secret$_"; $copy } 1 .. 200; return }

# Runs code when it is read as a string.
package Odd::Text {
    use overload q{""} => sub { my ($self) = @_; $self->{code}->($self) if $self->{code}; return $self->{text} }, fallback => 1;
    sub new { my ($class, $text, $code) = @_; return bless { text => $text, code => $code }, $class }
}

package Odd::Number {
    use overload q{0+} => sub { $_[0]{code}->(); 103 }, q{""} => sub { $_[0]{code}->(); '200' }, fallback => 1;
    sub new { my ($class, $code) = @_; return bless { code => $code }, $class }
}

# A body of methods.
package Odd::Body {
    sub new     { my ($class, %code) = @_; return bless {%code}, $class }
    sub getline { my ($self) = @_; return $self->{getline} ? $self->{getline}->($self) : undef }
    sub close   { my ($self) = @_; $self->{close}->($self) if $self->{close}; return 1 }
    sub DESTROY { my ($self) = @_; $self->{destroy}->($self) if $self->{destroy}; return }
}

package Odd::Path {
    our @ISA = ('Odd::Body');
    sub path { my ($self) = @_; return $self->{path}->($self) }
}

package Odd::List {
    sub TIEARRAY  { my ($class, %code) = @_; return bless {%code}, $class }
    sub FETCHSIZE { my ($self) = @_; return $self->{size}->() }
    sub FETCH     { my ($self, $index) = @_; return $self->{fetch}->($index) }
}

package Odd::Scalar {
    sub TIESCALAR { my ($class, $code) = @_; return bless { code => $code }, $class }
    sub FETCH     { return $_[0]{code}->() }
}

package Odd::Hash {
    sub TIEHASH { return bless {}, shift }
    sub FETCH   { die "FETCH\n" }
    sub EXISTS  { die "EXISTS\n" }
    sub FIRSTKEY { die "FIRSTKEY\n" }
}

package Odd::Handle {
    sub TIEHANDLE { return bless {}, shift }
    sub READLINE  { return $secret }
    sub READ      { $_[1] = $secret; return length $secret }
}

package Odd;

# A piece of 5000 bytes without another reference.
sub piece { my ($letter) = @_; return join q{}, map {$letter} 1 .. 5000 }

sub odd {
    my ($name, $status, $body, $app) = @_;
    $APPS{$name} = $app;
    push @EXPECTED, [ $name, $status, $body ];
    return;
}

sub child_ends {
    my $pid = fork;
    die "fork: $!" if !defined $pid;
    exit 0 if !$pid;
    waitpid $pid, 0;
    return;
}

# ---- what is read while later parts run code

odd piece_freed => 200, 'a' x 5000 . 'text' => sub {
    my $body = [ piece('a') ];
    push @{$body}, Odd::Text->new('text', sub { $#{$body} = -1; fill_memory() });
    return [ 200, [], $body ];
};
odd pieces_changed => 200, 'a' x 5000 . 'text' . 'z' => sub {
    my $body = [ piece('a') ];
    push @{$body}, Odd::Text->new('text', sub { $body->[0] = 'changed'; fill_memory() }), 'z';
    return [ 200, [], $body ];
};
odd headers_freed_by_header => 200, 'ok' => sub {
    my $headers = [ 'X-Long' => piece('h') ];
    push @{$headers}, 'X-Text' => Odd::Text->new('text', sub { $#{$headers} = -1; fill_memory() });
    return [ 200, $headers, ['ok'] ];
};
odd headers_freed_by_piece => 200, 'ok' => sub {
    my $headers = [ 'X-Long' => piece('h') ];
    return [ 200, $headers, [ Odd::Text->new('ok', sub { $#{$headers} = -1; fill_memory() }) ] ];
};
odd headers_freed_by_path => 200, qr/^package Odd;/m => sub {
    my $headers = [ 'X-Long' => piece('h') ];
    return [ 200, $headers, Odd::Path->new(path => sub { $#{$headers} = -1; fill_memory(); return __FILE__ }) ];
};
odd headers_freed_by_can => 200, q{} => sub {
    my $headers = [ 'X-Long' => piece('h') ];
    return [ 200, $headers, Odd::Body->new(getline => sub { $#{$headers} = -1; fill_memory(); return }) ];
};
odd response_freed_by_status => 200, 'ok' => sub {
    my $response = [ undef, [ 'X-Long' => piece('h') ], ['ok'] ];
    $response->[0] = Odd::Text->new(200, sub { $#{$response} = -1; fill_memory() });
    return $response;
};
odd tied_response => 200, 'ok' => sub {
    tie my @response, 'Odd::List', size => sub {3}, fetch => sub { (200, [ 'X-Long' => piece('h') ], ['ok'])[ $_[0] ] };
    return \@response;
};
odd tied_response_dies => 500, qr/Internal/ => sub {
    tie my @response, 'Odd::List', size => sub { die "no size\n" }, fetch => sub { };
    return \@response;
};
odd tied_length => 500, qr/Internal/ => sub {
    tie my @response, 'Odd::List', size => sub {5}, fetch => sub {1};
    return \@response;
};
odd tied_piece => 200, 'a' x 5000 . 'tied' => sub {
    my $body = [ piece('a'), undef ];
    tie $body->[1], 'Odd::Scalar', sub { $#{$body} = -1; fill_memory(); 'tied' };
    return [ 200, [], $body ];
};
odd wide_after_text => 500, qr/Internal/ => sub {
    my $body = [ piece('a') ];
    push @{$body}, Odd::Text->new("\x{263a}", sub { $#{$body} = -1; fill_memory() });
    return [ 200, [], $body ];
};
odd text_dies => 500, qr/Internal/ => sub { return [ 200, [ 'X-Text' => Odd::Text->new('x', sub { die "no text\n" }) ], ['ok'] ] };
odd text_forks => 200, 'text' => sub { return [ 200, [], [ Odd::Text->new('text', \&child_ends) ] ] };

# ---- methods of bodies

odd getline_dies  => 500, qr/Internal/ => sub { return [ 200, [], Odd::Body->new(getline => sub { die "no line\n" }) ] };
odd getline_forks => 200, 'line' => sub {
    my @lines = ('line');
    return [ 200, [], Odd::Body->new(getline => sub { child_ends(); return shift @lines }) ];
};
odd getline_text => 200, 'a' x 5000 => sub {
    my @lines = Odd::Text->new(piece('a'), \&fill_memory);
    return [ 200, [], Odd::Body->new(getline => sub { return shift @lines }) ];
};
odd close_dies   => 200, q{} => sub { return [ 200, [], Odd::Body->new(close => sub { die "no end\n" }) ] };
odd destroy_dies => 200, q{} => sub { return [ 200, [], Odd::Body->new(destroy => sub { die "no peace\n" }) ] };
odd path_dies    => 200, q{} => sub { return [ 200, [], Odd::Path->new(path => sub { die "no way\n" }) ] };
odd handle_closed => 200, q{} => sub { open my $handle, '<', __FILE__ or die $!; close $handle; return [ 200, [], $handle ] };

# ---- leaving by other ways than return

{
    no warnings 'exiting';
    odd last_in_app => 500, qr/Internal/ => sub { last };
    odd next_in_app => 500, qr/Internal/ => sub { next };
    odd goto_in_app => 500, qr/Internal/ => sub { goto NOWHERE };
    odd last_in_stream => 500, qr/Internal/ => sub {
        return sub { last }
    };
    odd next_in_getline => 500, qr/Internal/ => sub { return [ 200, [], Odd::Body->new(getline => sub { next }) ] };
    odd last_in_text => 500, qr/Internal/ => sub { return [ 200, [], [ Odd::Text->new('x', sub { last }) ] ] };
    odd next_in_cleanup => 200, 'ok' => sub {
        push @{ $_[0]{'psgix.cleanup.handlers'} }, sub { next };
        return [ 200, [], ['ok'] ];
    };
}

# ---- responders and writers that are dropped or closed by what is given to them

odd write_closes => 200, 'one' => sub {
    return sub {
        my $writer = $_[0]->([ 200, [] ]);
        $writer->write('one');
        my $done = eval { $writer->write(Odd::Text->new('two', sub { $writer->close; undef $writer; fill_memory() })); 1 };
    };
};
odd respond_twice => 500, qr/Internal/ => sub {
    return sub {
        my ($responder) = @_;
        my $headers = [ 'X-Text' => Odd::Text->new('x', sub { $responder->([ 200, [], ['inner'] ]) }) ];
        eval { $responder->([ 200, $headers, ['outer'] ]) };
    };
};
odd respond_dropped => 200, 'ok' => sub {
    return sub {
        my $responder = shift;
        my $response;
        $response = [ 200, [ 'X-Text' => Odd::Text->new('x', sub { undef $responder; undef $response; fill_memory() }) ], ['ok'] ];
        $responder->($response);
    };
};
odd inform_frees => 200, 'ok' => sub {
    my ($env) = @_;
    my $headers = [ Link => piece('l') ];
    eval { $env->{'psgix.informational'}->(Odd::Number->new(sub { delete $env->{'psgix.informational'}; $#{$headers} = -1; fill_memory() }), $headers) };
    return [ 200, [], ['ok'] ];
};
odd drop_responder => 500, qr/Internal/ => sub {
    return sub { my $responder = shift; return }
};

# ---- environments

odd env_cleared => 200, 'ok' => sub { my ($env) = @_; %{$env} = (); return [ 200, [], ['ok'] ] };
odd env_undefined => 200, 'ok' => sub { my ($env) = @_; undef %{$env}; return [ 200, [], ['ok'] ] };
odd env_tied => 200, 'ok' => sub { my ($env) = @_; tie %{$env}, 'Odd::Hash'; return [ 200, [], ['ok'] ] };
odd env_tied_and_dies => 500, qr/Internal/ => sub { my ($env) = @_; tie %{$env}, 'Odd::Hash'; die "tied\n" };
odd env_blessed => 200, 'ok' => sub { my ($env) = @_; bless $env, 'Odd::Body'; return [ 200, [], ['ok'] ] };
odd env_weak => 200, 'ok' => sub { my ($env) = @_; our $weak = $env; Scalar::Util::weaken($weak); return [ 200, [], ['ok'] ] };
odd env_texts_changed => 200, 'ok' => sub {
    my ($env) = @_;
    $env->{SECRET} = $secret;
    for my $value (values %{$env}) { $value = $secret if !ref $value }
    return [ 200, [], ['ok'] ];
};
odd env_object_destroyed => 200, 'ok' => sub {
    my ($env) = @_;
    $env->{'odd.object'} = Odd::Body->new(destroy => sub { fill_memory(); die "in DESTROY\n" });
    $env->{'psgix.io'} = Odd::Body->new(destroy => sub { die "in DESTROY\n" });
    return [ 200, [], ['ok'] ];
};
odd cleanup_tied => 200, 'ok' => sub {
    my ($env) = @_;
    tie my @handlers, 'Odd::List', size => sub { die "no size\n" }, fetch => sub { die "no handler\n" };
    $env->{'psgix.cleanup.handlers'} = \@handlers;
    return [ 200, [], ['ok'] ];
};
odd cleanup_forks => 200, 'ok' => sub { push @{ $_[0]{'psgix.cleanup.handlers'} }, \&child_ends; return [ 200, [], ['ok'] ] };
odd error_tied => 500, qr/Internal/ => sub { die Odd::Text->new('x', sub { die "no words\n" }) };
odd error_odd => 500, qr/Internal/ => sub { die Odd::Body->new(destroy => sub { die "in DESTROY\n" }) };

# ---- psgi.input: the next request must not read what this one left there

for my $change (
    [ reopened => sub { open $_[0], '<', \$secret or die $! } ],
    [ reopened_and_read => sub { open $_[0], '<', \$secret or die $!; my @lines = readline $_[0] } ],
    [ reopened_as_file => sub { open $_[0], '<', __FILE__ or die $!; my @lines = readline $_[0] } ],
    [ closed    => sub { close $_[0] } ],
    [ moved     => sub { seek $_[0], 5, 0 } ],
    [ layered   => sub { binmode $_[0], ':crlf:utf8' } ],
    [ utf8      => sub { binmode $_[0], ':utf8' } ],
    [ tied      => sub { tie *{ $_[0] }, 'Odd::Handle' } ],
    [ blessed   => sub { bless $_[0], 'Odd::Body' } ],
    [ io_blessed => sub { bless *{ $_[0] }{IO}, 'Odd::Body' } ],
    [ duplicated => sub { open our $duplicate, '<&', $_[0] or die $! } ],
    [ aliased   => sub { open my $other, '<', \$secret or die $!; *{ $_[0] } = *{$other}{IO} } ],
    [ slots     => sub { ${ *{ $_[0] } } = $secret; @{ *{ $_[0] } } = ($secret) } ],
    [ pushed_back => sub { $_[0]->ungetc(65) } ],
    )
{
    my ($how, $code) = @{$change};
    odd "input_$how" => 200, 'ok' => sub { my ($env) = @_; $code->($env->{'psgi.input'}); return [ 200, [], ['ok'] ] };
}
for my $change (
    [ layered => sub { binmode $_[0], ':utf8' } ],
    [ blessed => sub { bless $_[0], 'Odd::Body' } ],
    )
{
    my ($how, $code) = @{$change};
    odd "socket_$how" => 200, 'ok' => sub { my ($env) = @_; $code->($env->{'psgix.io'}); return [ 200, [], ['ok'] ] };
}

# An app that closes the socket ends the connection, unless that also carries other requests.
my @of_closed = ($ENV{ORIBI_TEST_HTTP2} || 'off') eq 'on' ? (200, 'ok') : (0, q{});
odd socket_closed => @of_closed => sub { my ($env) = @_; close $env->{'psgix.io'}; return [ 200, [], ['ok'] ] };

sub probe {
    my ($env) = @_;
    my $input = $env->{'psgi.input'};
    my @found;
    push @found, "input is a $1" if "$input" !~ /\AGLOB\(/ && "$input" =~ /\A([^(]*)/;
    push @found, 'a tied input' if tied *{$input};
    push @found, 'position ' . tell $input if tell $input;
    push @found, 'layers ' . join q{,}, PerlIO::get_layers($input) if grep {/utf8|crlf/} PerlIO::get_layers($input);
    push @found, 'no input' if !seek $input, 0, 0;
    my $text = do { local $/; readline $input };
    push @found, 'content ' . substr $text, 0, 20 if defined $text && length $text;
    push @found, 'slots' if defined ${ *{$input} } || @{ *{$input} };
    push @found, "io is a " . ref $env->{'psgix.io'} if ref $env->{'psgix.io'} !~ /\AIO::Socket/;
    push @found, 'an open io with layers' if grep {/utf8/} PerlIO::get_layers($env->{'psgix.io'});
    push @found, "$_ is secret" for grep { !ref $env->{$_} && $env->{$_} =~ /SECRET/ } sort keys %{$env};
    push @found, "$_ is there" for grep {/odd|SECRET/} sort keys %{$env};
    push @found, "path $env->{PATH_INFO}" if $env->{PATH_INFO} ne '/probe';
    return [ 200, [], [ @found ? join '; ', @found : 'clean' ] ];
}

sub {
    my ($env) = @_;
    my ($name) = $env->{PATH_INFO} =~ m{\A/(\w+)\z};
    return probe($env) if $name eq 'probe';
    return $APPS{$name}->($env);
};
