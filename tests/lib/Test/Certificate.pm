package Test::Certificate;

# Certificates for servers that a test starts, made by OpenSSL.

use v5.36;
use Carp       qw(croak);
use Exporter   qw(import);
use File::Temp ();

our @EXPORT = qw(certificate);

# certificate(NAME, PATH): atomically writes the file PATH with a certificate of this name for 127.0.0.1, localhost and the
# hosts below example.com, followed by its key. It is self-signed, so clients must trust the certificate itself.
sub certificate ($name, $path) {
    my $folder = File::Temp->newdir;
    my @make   = qw(openssl req -x509 -nodes -days 30 -newkey ec -pkeyopt ec_paramgen_curve:P-256);
    my @names  = ('-subj', "/CN=$name", '-addext', 'subjectAltName=DNS:localhost,DNS:*.example.com,IP:127.0.0.1');
    open my $openssl, '-|', 'sh', '-c', 'exec "$@" 2>&1', 'sh', @make, @names, '-keyout', "$folder/key", '-out', "$folder/own"
        or croak "openssl: $!";
    my @said = readline $openssl;
    close $openssl or croak "openssl: @said";
    open my $out, '>', "$path.new" or croak "$path.new: $!";
    for my $part (qw(own key)) {
        open my $in, '<', "$folder/$part" or croak "$part: $!";
        print {$out} readline $in;
        close $in or croak "$part: $!";
    }
    close $out or croak "$path.new: $!";
    rename "$path.new", $path or croak "$path: $!";
    return $path;
}

1;
