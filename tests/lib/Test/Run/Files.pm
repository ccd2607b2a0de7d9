package Test::Run::Files;

# Whole files.

use v5.36;
use Carp     qw(croak);
use Exporter qw(import);

our @EXPORT_OK = qw(appended content_of written);

# The bytes of a file.
sub content_of ($file) {
    open my $in, '<', $file or croak "$file: $!";
    local $/ = undef;
    return scalar <$in> // q{};
}

# Writes a file anew.
sub written ($file, $content) {
    open my $out, '>', $file or croak "$file: $!";
    print {$out} $content;
    close $out or croak "$file: $!";
    return;
}

# Writes behind the end of a file.
sub appended ($file, $content) {
    open my $out, '>>', $file or croak "$file: $!";
    print {$out} $content;
    close $out or croak "$file: $!";
    return;
}

1;
