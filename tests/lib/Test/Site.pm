package Test::Site;

# A directory of files for a test, and web servers that serve it.

use v5.36;
use Exporter   qw(import);
use File::Path qw(make_path);
use File::Temp ();
use Test::WebServer::Nginx;

our @EXPORT_OK = qw(new_site put nginx_for raw_request);

# new_site(NAME => CONTENT...): a directory with these files, which goes away with the object that is returned.
sub new_site (%content_of) {
    my $site = File::Temp->newdir;
    chmod 0755, "$site" or die "$site: $!";
    put("$site/$_", $content_of{$_}) for sort keys %content_of;
    return $site;
}

# Writes a file. An earlier one of that name is replaced as a deployment would do it, by another file.
sub put ($path, $content) {
    make_path($path =~ s{/[^/]*\z}{}r);
    open my $out, '>:raw', "$path.new" or die "$path: $!";
    print {$out} $content;
    close $out              or die "$path: $!";
    rename "$path.new", $path or die "$path: $!";
    return;
}

# An nginx that serves SITE, as a second opinion.
sub nginx_for ($site) {
    return Test::WebServer::Nginx->configured(Test::WebServer::Nginx->wrapped(<<~"NGINX"));
        default_type application/octet-stream;
        types { text/plain txt; text/html html; }
        charset utf-8;
        charset_types text/plain;
        if_modified_since before;
        server {
            listen 127.0.0.1:%port%;
            root $site;
        }
        NGINX
}

# Sends BYTES as they are, and returns the response until the server closes the connection.
sub raw_request ($server, $bytes) {
    my $connection = $server->connection // die "no connection: $!";
    print {$connection} $bytes;
    $connection->flush;
    local $/ = undef;
    return readline($connection) // '';
}

1;
