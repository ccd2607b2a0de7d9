# An app that frees, overloads, ties, clears, collects, dies and forks wherever the server calls it or reads what it gave. None
# of that may make the server touch memory that is no longer its own. GET / lists the oddities, one path each.

## no critic (ProhibitMultiplePackages, ProhibitBuiltinHomonyms, ProhibitStringyEval, ProhibitNoWarnings, ProhibitBarewordFileHandles)
# All of these are oddities that apps have.

# Its own name: a loaded app is in a package of the loader's.
package Odd;

use v5.36;
use POSIX        ();
use Scalar::Util qw(weaken);

our (@kept, %kept);

# A string that is its own allocation, and that differs each time.
sub text ($size = 5000) { state $count = 0; return chr(97 + $count++ % 26) x $size }

# Something that runs code when it is read as a string, and then is a string.
package Reader {
    use overload q{""} => sub ($self, @) { $self->{run}->(); return $self->{text} // Odd::text(300) }, fallback => 1;
    sub new ($class, $run) { return bless { run => $run }, $class }
}

# A tied array whose elements are made by code.
package Elements {
    sub TIEARRAY ($class, @elements) { return bless { elements => \@elements }, $class }
    sub FETCHSIZE ($self)         { return scalar @{ $self->{elements} } }
    sub FETCH     ($self, $index) { my $value = $self->{elements}[$index]; $self->{elements}[$index] = Odd::text(); return $value }
}

# A tied scalar that is another one each time.
package Changing {
    sub TIESCALAR ($class) { return bless {}, $class }
    sub FETCH     ($self)  { $self->{text} = Odd::text(); return $self->{text} }
    sub STORE     ($self, $value) { return $value }
}

# A body that runs code at each step.
package Body {
    sub new     ($class, %run) { return bless { line => sub { undef }, close => sub { 1 }, %run }, $class }
    sub getline ($self)        { return $self->{line}->($self) }
    sub close   ($self)        { return $self->{close}->($self) }
    sub DESTROY ($self)        { $self->{destroy}->() if $self->{destroy}; return }
}

package PathBody {
    our @ISA = ('Body');
    sub path ($self) { return $self->{path}->($self) }
}

package Odd;

sub reader ($run) { return Reader->new($run) }

# A child that runs the end of a program, and one that does not.
sub fork_and_wait ($ends_in_order = 0) {
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        @kept = %kept = ();
        exit 0 if $ends_in_order;
        POSIX::_exit(0);
    }
    return waitpid $pid, 0;
}

my @text = ('Content-Type' => 'text/plain');

my %oddity = (
    # The response array, its headers and its body change while they are read.
    'status-clears-response' => sub ($env) { my $response = [200, [@text, X => text()], [text()]]; $response->[0] = reader(sub { @$response = () }); return $response },
    'status-is-text'         => sub ($env) { return [reader(sub { }), [@text], ['x']] },
    'header-clears-headers'  => sub ($env) { my @headers; @headers = (@text, A => text(), B => reader(sub { @headers = () }), C => text()); return [200, \@headers, ['x']] },
    'header-replaces-values' => sub ($env) { my @headers; @headers = (@text, A => text(), B => reader(sub { $headers[3] = text(9000); undef $headers[1] })); return [200, \@headers, ['x']] },
    'header-name-clears'     => sub ($env) { my @headers; @headers = (@text, A => text(), reader(sub { $#headers = -1 }), text()); return [200, \@headers, ['x']] },
    'header-frees-body'      => sub ($env) { my $response = [200, [], [text(), text()]]; $response->[1] = [@text, A => reader(sub { undef $response->[2] })]; return $response },
    'header-undef'           => sub ($env) { return [200, [@text, A => undef, B => undef], ['x']] },
    'header-forks'           => sub ($env) { return [200, [@text, A => reader(sub { fork_and_wait() })], ['x']] },
    'header-dies'            => sub ($env) { return [200, [@text, A => text(), B => reader(sub { die text() })], ['x']] },
    'headers-tied'           => sub ($env) { tie my @headers, 'Elements', @text, A => text(), B => text(); return [200, \@headers, ['x']] },
    'headers-many'           => sub ($env) { my @headers; @headers = (@text, (map { ("X-$_" => text(50)) } 1 .. 200), Z => reader(sub { @headers = (text()) x 3 })); return [200, \@headers, ['x']] },
    'header-tied-value'      => sub ($env) { tie my $value, 'Changing'; my @headers = (@text, A => 1, B => 1); tie $headers[3], 'Changing'; tie $headers[5], 'Changing'; return [200, \@headers, ['x']] },
    'header-wide'            => sub ($env) { return [200, [@text, A => text(), B => "\x{2603}" x 100], ['x']] },
    'header-latin'           => sub ($env) { my $latin = "\xe9" x 3000; utf8::upgrade($latin); return [200, [@text, A => $latin, B => $latin], [$latin, $latin]] },
    'body-clears-itself'     => sub ($env) { my @body; @body = (text(), reader(sub { @body = () }), text()); return [200, [@text], \@body] },
    'body-replaces-pieces'   => sub ($env) { my @body; @body = (text(), text(), reader(sub { $body[0] = 'y' x 7000; $body[1] .= text(60_000) })); return [200, [@text], \@body] },
    'body-grows'             => sub ($env) { my @body; @body = (text(), reader(sub { push @body, (text()) x 100 }), text()); return [200, [@text], \@body] },
    'body-many'              => sub ($env) { my @body; @body = ((map { text(200) } 1 .. 100), reader(sub { splice @body, 0, 50 })); return [200, [@text], \@body] },
    'body-frees-headers'     => sub ($env) { my $response; $response = [200, [@text, A => text()], [text(), reader(sub { @$response = (); })]]; return $response },
    'body-tied'              => sub ($env) { tie my @body, 'Elements', map { text() } 1 .. 20; return [200, [@text], \@body] },
    'body-tied-piece'        => sub ($env) { my @body = (1, 1, 1); tie $_, 'Changing' for @body; return [200, [@text], \@body] },
    'body-forks'             => sub ($env) { return [200, [@text], [text(), reader(sub { fork_and_wait(1) }), text()]] },
    'body-undef-piece'       => sub ($env) { return [200, [@text], [text(), undef, text()]] },
    'body-dies'              => sub ($env) { return [200, [@text], [text(), reader(sub { die { because => text() } })]] },
    'body-substring'         => sub ($env) { my $all = text(); return [200, [@text], [\substr($all, 10, 20), $all]] },
    'body-same-twice'        => sub ($env) { my @body; my $same = reader(sub { $body[0]{text} = text(); }); @body = ($same, $same, $same); return [200, [@text], \@body] },

    # Bodies that are objects, and handles.
    'lines-change-one-string' => sub ($env) { my ($count, $line) = (0, ''); return [200, [@text], Body->new(line => sub ($self) { undef $line; $line = text(); return $count++ < 5 ? $line : undef })] },
    'lines-free-the-body'     => sub ($env) { my $body; my $count = 0; my $response = [200, [@text]]; $response->[2] = Body->new(line => sub ($self) { undef $response->[2]; %$self = (line => $self->{line}, close => sub { }); return $count++ < 3 ? text() : undef }); return $response },
    'lines-are-overloaded'    => sub ($env) { my $count = 0; return [200, [@text], Body->new(line => sub ($self) { return $count++ < 3 ? reader(sub { %$self = (line => $self->{line}, close => sub { }) }) : undef })] },
    'lines-die'               => sub ($env) { my $count = 0; return [200, [@text], Body->new(line => sub ($self) { die text() if $count++; return text() })] },
    'lines-fork'              => sub ($env) { my $count = 0; return [200, [@text], Body->new(line => sub ($self) { fork_and_wait($count); return $count++ < 2 ? text() : undef })] },
    'lines-leave-the-loop'    => sub ($env) { my $count = 0; return [200, [@text], Body->new(line => sub ($self) { no warnings; last if $count++; return text() })] },
    'close-dies'              => sub ($env) { return [200, [@text], Body->new(close => sub ($self) { %$self = (); die text() })] },
    'destroy-clears'          => sub ($env) { my $response; $response = [200, [@text], Body->new(destroy => sub { @kept = (); %kept = (); die 'in the end' })]; return $response },
    'path-clears-headers'     => sub ($env) { my @headers = (@text, A => text()); return [200, \@headers, PathBody->new(path => sub ($self) { @headers = (); return $0 })] },
    'path-frees-body'         => sub ($env) { my $response; $response = [200, [@text, A => text()], PathBody->new(path => sub ($self) { @$response = (); return text(20) })]; return $response },
    'path-dies'               => sub ($env) { return [200, [@text, A => text()], PathBody->new(path => sub ($self) { die text() })] },
    'file-handle'             => sub ($env) { open my $in, '<', __FILE__ or die $!; return [200, [@text], $in] },
    'file-handle-closed'      => sub ($env) { open my $in, '<', __FILE__ or die $!; close $in; return [200, [@text], $in] },
    'memory-handle'           => sub ($env) { my $all = text(); open my $in, '<', \$all or die $!; $all = text(20_000); undef $all; return [200, [@text], $in] },
    'glob'                    => sub ($env) { open local *IN, '<', __FILE__ or die $!; return [200, [@text], *IN] },

    # Values that are not a response.
    'nothing'          => sub ($env) { return },
    'a-hash'           => sub ($env) { return { text() => text() } },
    'a-number'         => sub ($env) { return 42 },
    'empty'            => sub ($env) { return [] },
    'holes'            => sub ($env) { my @response; $response[5] = 1; return \@response },
    'no-headers'       => sub ($env) { return [200, undef, ['x']] },
    'odd-headers'      => sub ($env) { return [200, [@text, 'A'], ['x']] },
    'dies'             => sub ($env) { die text() },
    'dies-with-object' => sub ($env) { die reader(sub { die text() }) },
    'dies-in-destroy'  => sub ($env) { my $body = Body->new(destroy => sub { die text() }); die $body },
    'error-is-cleared' => sub ($env) { local $@ = text(); eval { die text() }; undef $@; die bless [], 'Nobody' },
    'leaves-the-loop'  => sub ($env) { no warnings; last },
    'exits'            => sub ($env) { exit 0 },
    'evaluates'        => sub ($env) { eval 'sub Reader::odd { Odd::text() } 1' or die; undef &Reader::odd; return [200, [@text], [text()]] },

    # Streams.
    'stream'               => sub ($env) { return sub ($respond) { my $writer = $respond->([200, [@text]]); for (1 .. 5) { my $piece = text(); $writer->write($piece); undef $piece } $writer->close } },
    'stream-never-closed'  => sub ($env) { return sub ($respond) { $respond->([200, [@text]])->write(text()); return } },
    'stream-kept'          => sub ($env) { return sub ($respond) { my $writer = $respond->([200, [@text]]); $writer->write(text()); push @kept, $writer; weaken($kept{writer} = $writer); $writer->close } },
    'stream-kept-written'  => sub ($env) { for my $writer (splice @kept) { eval { $writer->write(text()); $writer->close } } return [200, [@text], ['x']] },
    'stream-twice'         => sub ($env) { return sub ($respond) { $respond->([200, [@text], [text()]]); eval { $respond->([200, [@text], [text()]]) } } },
    'stream-overloads'     => sub ($env) { return sub ($respond) { my $writer = $respond->([200, [@text]]); $writer->write(reader(sub { eval { $writer->write(text()) } })); $writer->write(reader(sub { $writer->close })); eval { $writer->write(text()) } } },
    'stream-head-overload' => sub ($env) { return sub ($respond) { my @headers; @headers = (@text, A => text(), B => reader(sub { @headers = () })); $respond->([200, \@headers])->close } },
    'stream-dies'          => sub ($env) { return sub ($respond) { my $writer = $respond->([200, [@text]]); $writer->write(text()); die text() } },
    'stream-forks'         => sub ($env) { return sub ($respond) { my $writer = $respond->([200, [@text]]); $writer->write(text()); fork_and_wait(1); $writer->write(text()); $writer->close } },
    'stream-frees-itself'  => sub ($env) { my $code; $code = sub ($respond) { undef $code; %$env = (); my $writer = $respond->([200, [@text]]); undef $respond; $writer->write(text()); $writer->close }; return $code },
    'stream-later'         => sub ($env) { return sub ($respond) { push @{ $kept{later} }, $respond; if (@{ $kept{later} } > 2) { $_->([200, [@text], [text()]]) for splice @{ $kept{later} } } else { (pop @{ $kept{later} })->([200, [@text], [text()]]) } } },
    'stream-dropped'       => sub ($env) { return sub ($respond) { undef $respond; return } },

    # The environment and the content.
    'env-cleared'        => sub ($env) { %$env = (); return [200, [@text], [text()]] },
    'env-kept'           => sub ($env) { push @{ $kept{env} }, $env; shift @{ $kept{env} } if @{ $kept{env} } > 3; return [200, [@text], [map { join q{ }, map { $_ // q{} } values %$_ } @{ $kept{env} }]] },
    'env-tied'           => sub ($env) { tie $env->{PATH_INFO}, 'Changing'; undef $env->{'psgi.input'}; return [200, [@text], [$env->{PATH_INFO}]] },
    'env-values-changed' => sub ($env) { $_ = text() for grep { !ref } values %$env; return [200, [@text], [join q{}, grep { !ref } values %$env]] },
    'env-keys-locked'    => sub ($env) { Internals::SvREADONLY(%$env, 1); return [200, [@text], [text()]] },
    'input-read'         => sub ($env) { my ($all, $piece) = ('', ''); while ($env->{'psgi.input'}->read($piece, 1000)) { $all .= $piece } return [200, [@text], [length $all]] },
    'input-offsets'      => sub ($env) { my $buffer = text(50); eval { $env->{'psgi.input'}->read($buffer, 100, $_) } for 0, 10, 5000, -10, -5000; eval { $env->{'psgi.input'}->read($buffer, -1) }; return [200, [@text], [$buffer]] },
    'input-into-tied'    => sub ($env) { tie my $buffer, 'Changing'; eval { $env->{'psgi.input'}->read($buffer, 100, 10) }; return [200, [@text], [$buffer]] },
    'input-into-env'     => sub ($env) { eval { $env->{'psgi.input'}->read($env->{'psgi.input'}, 100) }; return [200, [@text], ['x']] },
    'input-closed'       => sub ($env) { my $input = $env->{'psgi.input'}; close $input; eval { $input->read(my $buffer, 10) }; return [200, [@text], ['x']] },
    'input-opened-anew'  => sub ($env) { my $secret = text(); open $env->{'psgi.input'}, '<', \$secret or return [500, [@text], ["$!"]]; push @{ $kept{secret} }, \$secret; return [200, [@text], ['x']] },
    'input-kept'         => sub ($env) { push @{ $kept{input} }, $env->{'psgi.input'}; for my $input (@{ $kept{input} }) { eval { $input->read(my $buffer, 100); seek $input, 0, 0 } } shift @{ $kept{input} } if @{ $kept{input} } > 3; return [200, [@text], ['x']] },
    'input-lines'        => sub ($env) { my $input = $env->{'psgi.input'}; local $/ = \100; my @lines = <$input>; return [200, [@text], \@lines] },
    'input-seeks'        => sub ($env) { my $input = $env->{'psgi.input'}; eval { seek $input, $_, 0; read $input, my $buffer, 10 } for 0, 1_000_000, -5; return [200, [@text], ['x']] },
    'input-forks'        => sub ($env) { $env->{'psgi.input'}->read(my $buffer, 10); fork_and_wait(1); $env->{'psgi.input'}->read($buffer, 10); return [200, [@text], [$buffer]] },
    'errors'             => sub ($env) { local $SIG{__WARN__} = sub { }; eval { $env->{'psgi.errors'}->print(reader(sub { die text() })) }; $env->{'psgi.errors'}->print(reader(sub { undef $env->{'psgi.errors'} })); return [200, [@text], ['x']] },
    'io-kept'            => sub ($env) { $kept{io} = $env->{'psgix.io'}; return [200, [@text], ['x']] },
    'io-written'         => sub ($env) { if (my $io = $env->{'psgix.io'}) { print {$io} "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx"; close $io } return [200, [@text], ['x']] },
    'io-shut'            => sub ($env) { if (my $io = $env->{'psgix.io'}) { shutdown $io, 2; undef $env->{'psgix.io'} } return [200, [@text], [text()]] },
    'cleanup'            => sub ($env) { push @{ $env->{'psgix.cleanup.handlers'} // [] }, sub ($env) { %$env = () }, sub { die text() }, sub { fork_and_wait() }, sub ($env) { @{ $env->{'psgix.cleanup.handlers'} // [] } = () }; return [200, [@text], [text()]] },
    'harakiri'           => sub ($env) { $env->{'psgix.harakiri.commit'} = 1; return [200, [@text], ['x']] },

    # Signals and processes.
    'signal'        => sub ($env) { local $SIG{USR1} = sub { %$env = (); @kept = () }; kill USR1 => $$; return [200, [@text], [text()]] },
    'signal-dies'   => sub ($env) { local $SIG{ALRM} = sub { die text() }; kill ALRM => $$; return [200, [@text], [text()]] },
    'warn-dies'     => sub ($env) { local $SIG{__WARN__} = sub { die text() }; warn text(); return [200, [@text], ['x']] },
    'die-handler'   => sub ($env) { local $SIG{__DIE__} = sub { die text() }; die text() },
    'stuck'         => sub ($env) { @kept = (text(), reader(sub { die text() })) while 1; return [200, [@text], ['x']] },
    'child-command' => sub ($env) { my $said = `echo said`; return [200, [@text], [$said]] },
);

sub ($env) {
    my $name = substr $env->{PATH_INFO}, 1;
    return [200, [@text], [map { "$_\n" } sort keys %oddity]] if $name eq '';
    my $odd = $oddity{$name} or return [404, [@text], ["no such oddity\n"]];
    return $odd->($env);
};
