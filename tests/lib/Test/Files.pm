package Test::Files;

# Whole files.

use v5.36;
use Carp     qw(croak);
use Exporter qw(import);

our @EXPORT_OK = qw(append_file content_of write_file);

# The bytes of a file.
sub content_of ($file) {
    open my $in, '<:raw', $file or croak "$file: $!";
    local $/ = undef;
    return scalar <$in> // q{};
}

# Writes a file again.
sub write_file ($file, $content) {
    open my $out, '>:raw', $file or croak "$file: $!";
    print {$out} $content;
    close $out or croak "$file: $!";
    return;
}

# Writes after the end of a file.
sub append_file ($file, $content) {
    open my $out, '>>:raw', $file or croak "$file: $!";
    print {$out} $content;
    close $out or croak "$file: $!";
    return;
}

1;
