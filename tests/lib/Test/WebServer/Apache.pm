package Test::WebServer::Apache;

# Apache in front of a FastCGI application, as Test::WebServer says.

use v5.36;
use parent 'Test::WebServer';

use constant NAME => 'Apache';
use constant KEEPS_CONNECTIONS => 1;

# The modules that its configurations need, beside the built-in ones.
use constant MODULES => qw(
    mpm_event authn_core authn_file authz_core authz_user auth_basic alias env setenvif mime
    socache_shmcb ssl proxy proxy_fcgi fcgid
);

sub start_command ($class, $folder) {
    return '/usr/sbin/apache2', '-D', 'FOREGROUND', '-f', "$folder/configuration";
}

sub configuration ($class, $server, $options) {
    my $socket  = $server->{socket};
    my $backend = $socket ? "unix:$socket|fcgi://localhost" : 'fcgi://' . $server->upstream;
    my $pieces  = $options->{pieces} ? 'flushpackets=on' : '';
    return $class->wrapped(<<~"APACHE");
        AllowEncodedSlashes On
        MergeSlashes Off
        <Location "/">
            CGIPassAuth On
        </Location>
        <Location "/app">
            ProxyFCGISetEnvIf "true" SCRIPT_NAME "/app"
            ProxyFCGISetEnvIf "%{REQUEST_URI} =~ m#^/app(.*)\$#" PATH_INFO "\$1"
        </Location>
        ProxyPass "/app" "$backend" enablereuse=on $pieces
        ProxyPass "/" "$backend/" enablereuse=on $pieces
        <LocationMatch "/environment/private\$">
            AuthType Basic
            AuthName "private"
            AuthUserFile %folder%/passwords
            Require valid-user
        </LocationMatch>
        APACHE
}

# A whole configuration with TEXT for both ports.
sub wrapped ($class, $text) {
    # Apache does not serve as root.
    my $user    = $> == 0 ? "User www-data\nGroup www-data" : '';
    my $modules = join "\n", map { "LoadModule ${_}_module /usr/lib/apache2/modules/mod_$_.so" } MODULES;
    return <<~"APACHE";
        $modules
        $user
        ServerRoot %folder%
        PidFile %folder%/apache.pid
        DefaultRuntimeDir %folder%
        ErrorLog %folder%/error.log
        TypesConfig /dev/null
        StartServers 1
        ThreadsPerChild 16
        MinSpareThreads 1
        MaxSpareThreads 32
        MaxRequestWorkers 16
        FcgidIPCDir %folder%/fcgid
        FcgidProcessTableFile %folder%/fcgid_shm

        Listen 127.0.0.1:%port%
        Listen 127.0.0.1:%tls_port%
        <VirtualHost 127.0.0.1:%tls_port%>
            ServerName front.example:%tls_port%
            UseCanonicalName On
            SSLEngine on
            SSLCertificateFile %folder%/certificate.pem
            SSLCertificateKeyFile %folder%/key.pem
            $text
        </VirtualHost>
        <VirtualHost 127.0.0.1:%port%>
            ServerName front.example:%port%
            UseCanonicalName On
            $text
        </VirtualHost>
        APACHE
}

1;
