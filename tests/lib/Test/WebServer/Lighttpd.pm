package Test::WebServer::Lighttpd;

# lighttpd in front of a FastCGI application, as Test::WebServer says.

use v5.36;
use parent 'Test::WebServer';

use constant NAME => 'lighttpd';
# It opens a connection for every request.
use constant KEEPS_CONNECTIONS => 0;

sub start_command ($class, $folder) {
    return '/usr/sbin/lighttpd', '-D', '-f', "$folder/configuration";
}

sub configuration ($class, $server, $options) {
    my $place  = $server->{socket} ? qq("socket" => "$server->{socket}") : qq("host" => "127.0.0.1", "port" => $server->{port});
    my $pieces = $options->{pieces} ? "server.stream-response-body = 2\nserver.stream-request-body = 2" : '';
    return $class->wrapped(<<~"LIGHTTPD");
        $pieces
        fastcgi.server = (
            "/app" => (( $place, "check-local" => "disable" )),
            "/" => (( $place, "check-local" => "disable", "fix-root-scriptname" => "enable" )),
        )
        auth.backend = "htpasswd"
        auth.backend.htpasswd.userfile = "%folder%/passwords"
        \$HTTP["url"] =~ "/environment/private\$" {
            auth.require = ( "" => ( "method" => "basic", "realm" => "private", "require" => "valid-user" ) )
        }
        LIGHTTPD
}

# A whole configuration with TEXT at its end.
sub wrapped ($class, $text) {
    return <<~"LIGHTTPD";
        server.modules = ( "mod_auth", "mod_authn_file", "mod_fastcgi", "mod_openssl" )
        server.document-root = "%folder%"
        server.bind = "127.0.0.1"
        server.port = %port%
        server.name = "front.example"
        server.upload-dirs = ( "%folder%" )
        \$SERVER["socket"] == "127.0.0.1:%tls_port%" {
            ssl.engine = "enable"
            ssl.pemfile = "%folder%/certificate.pem"
            ssl.privkey = "%folder%/key.pem"
        }
        $text
        LIGHTTPD
}

1;
