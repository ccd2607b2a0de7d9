package Test::Terminal;

# A terminal for a program that draws. It keeps the content of each cell, and can draw the cells as an SVG. It understands only
# those control sequences for the cursor and for colours that the programs of this repository use.

use v5.36;
use Carp        qw(croak);
use Encode      qw(decode FB_QUIET);
use IO::Pty     ();
use IO::Select  ();
use POSIX       ();
use Time::HiRes qw(time);

# The timeout of every wait, in seconds.
my $PATIENCE = 60;

# The colours that have names in SVGs here, by their numbers; the others are drawn as text.
my @COLOURS = map {"#$_"} qw(5c6470 d9534f 3fae6a d9a13a 5b8dd9 b079c9 3fa9a9 d8dde5);
my ($PAPER, $INK, $FAINT) = map {"#$_"} qw(14181f d8dde5 8b94a3);

# Of a cell, in an SVG, in pixels.
my ($WIDTH, $HEIGHT) = (8, 17);

# Test::Terminal->run({ columns => 80, lines => 24 }, COMMAND...): runs a command in a terminal of this size.
sub run ($class, $size, @command) {
    my $self = bless { %$size, bytes => q(), row => 0, column => 0, style => {} }, $class;
    $self->clear;
    my $pty = $self->{pty} = IO::Pty->new;
    $self->{process} = fork // croak "fork: $!";
    if (!$self->{process}) {
        $pty->make_slave_controlling_terminal;
        my $side = $pty->slave;
        $side->set_winsize($size->{lines}, $size->{columns});
        POSIX::dup2(fileno($side), $_) for 0 .. 2;
        local @ENV{qw(TERM COLORTERM)} = ('xterm-256color', q());
        delete $ENV{NO_COLOR};
        exec { $command[0] } @command or POSIX::_exit(127);
    }
    $pty->close_slave;
    return $self;
}

sub DESTROY ($self) {
    return if !$self->{process};
    local $? = 0;
    kill KILL => $self->{process};
    waitpid $self->{process}, 0;
    return;
}

# Presses keys.
sub press ($self, $keys) {
    syswrite $self->{pty}, $keys or croak "the terminal: $!";
    return;
}

# The exit status, in the form of wait(2), when the program has ended.
sub end ($self) {
    1 while $self->listen(time + $PATIENCE);
    waitpid delete $self->{process}, 0;
    return $?;
}

# The text of all lines.
sub text ($self) {
    my @lines = map { my $line = join q(), map { $_->[0] } @$_; $line =~ s/\s+\z//r } $self->{cells}->@*;
    return join q(), map {"$_\n"} @lines;
}

# Waits until the text is like this. False if it does not become so.
sub wait_until ($self, $like) {
    my $until = time + $PATIENCE;
    while ($self->text !~ $like) {
        return 0 if !$self->listen($until);
    }
    return 1;
}

# Takes the program's output. False if nothing arrives until then, or it has ended.
sub listen ($self, $until) { ## no critic (ProhibitBuiltinHomonyms)
    IO::Select->new($self->{pty})->can_read($until - time) or return 0;
    sysread $self->{pty}, $self->{bytes}, 1 << 16, length $self->{bytes} or return 0;
    $self->obey;
    return 1;
}

sub clear ($self) {
    $self->{cells} = [map { [map { [q( ), {}] } 1 .. $self->{columns}] } 1 .. $self->{lines}];
    return;
}

# Carries out all complete sequences.
sub obey ($self) {
    while (length $self->{bytes}) {
        if ($self->{bytes} =~ s/\A\e\[([?\d;]*)([A-Za-z])//) { $self->order($1, $2) }
        elsif ($self->{bytes} =~ /\A\e(?:\[[?\d;]*)?\z/)     {return}
        elsif ($self->{bytes} =~ s/\A\r//)                   { $self->{column} = 0 }
        elsif ($self->{bytes} =~ s/\A\n//)                   { $self->{row}++ }
        else {
            my ($rest) = my ($run) = $self->{bytes} =~ /\A([^\e\r\n]+)/ or croak "unknown bytes: $self->{bytes}";
            $self->put($_) for split //, decode('UTF-8', $rest, FB_QUIET);
            return if length $rest == length $run;
            substr $self->{bytes}, 0, length($run) - length $rest, q();
        }
    }
    return;
}

# A letter of an escape sequence, and its numbers.
sub order ($self, $numbers, $letter) {
    return if $numbers =~ /\A[?]/;
    my @numbers = split /;/, $numbers;
    if ($letter eq 'H') {
        ($self->{row}, $self->{column}) = (($numbers[0] || 1) - 1, ($numbers[1] || 1) - 1);
    }
    elsif ($letter eq 'J') { $self->clear }
    elsif ($letter eq 'K') { $self->{cells}[$self->{row}][$_] = [q( ), {}] for $self->{column} .. $self->{columns} - 1 }
    elsif ($letter eq 'm') { $self->dress(@numbers) }
    else                   { croak "unknown order: $numbers$letter" }
    return;
}

# Changes the style of what comes.
sub dress ($self, @numbers) {
    my %kinds = (1 => 'bold', 2 => 'faint', 7 => 'reverse');
    my %ends = (22 => ['bold', 'faint'], 27 => ['reverse'], 39 => ['colour']);
    my %style = $self->{style}->%*;
    @numbers = (0) if !@numbers;
    while (@numbers) {
        my $number = shift @numbers;
        if    (!$number)            { %style = () }
        elsif ($kinds{$number})     { $style{ $kinds{$number} } = 1 }
        elsif ($ends{$number})      { delete @style{ $ends{$number}->@* } }
        elsif ($number == 38)       { (undef, $style{colour}) = splice @numbers, 0, 2 }
        elsif ($number =~ /\A3\d\z/) { $style{colour} = $number - 30 }
        else                        { croak "unknown style: $number" }
    }
    $self->{style} = \%style;
    return;
}

# A character at the cursor. Characters outside of the window are not seen.
sub put ($self, $character) {
    my $line = $self->{cells}[$self->{row}];
    $line->[$self->{column}] = [$character, $self->{style}] if $line && $self->{column} < $self->{columns};
    $self->{column}++;
    return;
}

# Writes the cells into an SVG, which says `$title`.
sub draw ($self, $file, $title) {
    my ($wide, $high) = (($self->{columns} + 2) * $WIDTH, ($self->{lines} + 1) * $HEIGHT);
    my @lines = map { $self->line($_) } 0 .. $self->{lines} - 1;
    open my $out, '>:encoding(UTF-8)', $file or croak "$file: $!";
    print {$out} <<~"SVG", map({"$_\n"} @lines), "</g>\n</svg>\n";
        <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 $wide $high" width="$wide" height="$high" role="img">
        <title>@{[escaped($title)]}</title>
        <rect width="100%" height="100%" rx="8" fill="$PAPER"/>
        <g font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="13" fill="$INK">
        SVG
    close $out or croak "$file: $!";
    return;
}

# The drawings of a line: one for each piece of it in one style.
sub line ($self, $row) {
    my (@pieces, $style);
    for my $cell ($self->{cells}[$row]->@*) {
        push @pieces, { text => q(), style => $style = $cell->[1] } if !@pieces || $cell->[1] != $style;
        $pieces[-1]{text} .= $cell->[0];
    }
    my ($column, @drawn) = (1);
    for my $piece (@pieces) {
        my ($text, $how) = @$piece{qw(text style)};
        my ($x, $y, $width) = ($column * $WIDTH, $row * $HEIGHT + $HEIGHT / 2, $WIDTH * length $text);
        $column += length $text;
        push @drawn, qq{<rect x="$x" y="$y" width="$width" height="$HEIGHT" fill="$INK"/>} if $how->{reverse};
        my $base   = $y + 13;
        my $colour = $how->{reverse} ? $PAPER : defined $how->{colour} ? $COLOURS[$how->{colour}] : $how->{faint} ? $FAINT : q();
        my $fill   = $colour ? qq{ fill="$colour"} : q();
        my $weight = $how->{bold} ? ' font-weight="bold"' : q();

        # Each word has its place, with any font.
        while ($text =~ /(\S+)/g) {
            my ($place, $length) = ($x + $WIDTH * $-[1], $WIDTH * length $1);
            push @drawn, qq{<text x="$place" y="$base" textLength="$length"$fill$weight>@{[escaped($1)]}</text>};
        }
    }
    return @drawn;
}

sub escaped ($text) {
    my %named = ('&' => '&amp;', '<' => '&lt;', '>' => '&gt;');
    return $text =~ s/([&<>])/$named{$1}/gr;
}

1;
