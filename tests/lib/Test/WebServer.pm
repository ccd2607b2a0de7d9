package Test::WebServer;

# Starts a web server that passes requests on to a FastCGI application, for a test. Each of the three web servers has the same
# paths:
#
#   /         the app, as if it had the whole host
#   /app      the app again, mounted there
#   .../environment/private   demands a name and a password, which are "user" and "secret"
#
# Another port has the same paths over TLS.

use v5.36;
use parent 'Test::Oribi';
use File::Temp     ();
use Test::FreePort qw(free_port);

# "secret", salted and hashed in the way that all of them read.
use constant PASSWORDS => "user:\$apr1\$Q2OyZfz5\$dRsV8Jjd5rb1PxON/Ftfm1\n";

# CLASS->before(SERVER, pieces => 1): a web server in front of SERVER. With `pieces`, it passes on each piece of a request and
# of a response as soon as it has the piece.
sub before ($class, $server, %options) {
    return $class->configured($class->configuration($server, \%options));
}

# CLASS->configured(TEXT, PORT): a web server with this configuration, in which these stand for values that are found now:
#   %folder%     a temporary folder of its own, with the files `passwords`, `key.pem` and `certificate.pem`
#   %port%       where it listens: PORT, if that is given
#   %tls_port%   where it listens for TLS
sub configured ($class, $text, $port = free_port()) {
    my $folder = File::Temp->newdir;
    # Apache gives up root's rights and must still get in.
    chmod 0755, "$folder" or die "$folder: $!";
    my $tls_port = free_port();
    $tls_port = free_port() while $tls_port == $port;
    my %value = (folder => "$folder", port => $port, tls_port => $tls_port);
    $text =~ s/%(folder|port|tls_port)%/$value{$1}/g;
    _write("$folder/configuration", $text);
    _write("$folder/passwords", PASSWORDS);
    _certify("$folder");
    my $self = { port => $port, tls_port => $tls_port, folder => $folder };
    return $class->_spawn($self, $class->start_command("$folder"));
}

# The same places by TLS.
sub tls_url ($self) { return "https://127.0.0.1:$self->{tls_port}" }

# Everything that the server has written about itself.
sub log_text ($self) {
    my $text = $self->SUPER::log_text;
    for my $file (glob "$self->{folder}/*.log") {
        open my $in, '<', $file or next;
        local $/ = undef;
        $text .= readline($in) // '';
    }
    return $text;
}

sub _write ($path, $text) {
    open my $out, '>', $path or die "$path: $!";
    print {$out} $text;
    close $out or die "$path: $!";
    return;
}

# A certificate that lasts for the test.
sub _certify ($folder) {
    my @command = (
        qw(openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=front.example),
        '-keyout', "$folder/key.pem", '-out', "$folder/certificate.pem",
    );
    my $output = File::Temp->new;
    my $pid    = fork // die "fork: $!";
    if ($pid == 0) {
        open STDERR, '>&', $output or die "openssl: $!";
        exec { $command[0] } @command or die "openssl: $!";
    }
    waitpid $pid, 0;
    die "openssl has failed\n" if $?;
    return;
}

1;
