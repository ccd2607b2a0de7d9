package Test::Proxy;

# Starts a proxy in front of a server for a test. This is nginx, which speaks HTTP/1 with the server; with ORIBI_TEST_HTTP2=on
# it is nghttpx, which speaks HTTP/2 with the server, over TLS if ORIBI_TEST_TLS=on.

use v5.36;
use parent 'Test::Oribi';
use File::Temp     ();
use Test::FreePort qw(free_port);

sub over_http2 () { return ($ENV{ORIBI_TEST_HTTP2} // 'off') eq 'on' }

# Test::Proxy->before(SERVER, PORT): an nginx that passes everything on as its manual recommends, by kept connections to SERVER.
# It listens at PORT, which matters for apps that know their address.
sub before ($class, $server, $port = free_port()) {
    return $class->_nghttpx($server, $port) if over_http2();
    my $folder = File::Temp->newdir;
    open my $out, '>', "$folder/nginx.conf" or die "nginx.conf: $!";
    print {$out} _configuration($folder, $port, $server->upstream);
    close $out or die "nginx.conf: $!";
    my $self = $class->run_on_port($port, '/usr/sbin/nginx', '-p', "$folder", '-c', "$folder/nginx.conf", '-e', 'stderr');
    $self->{folder} = $folder;
    return $self;
}

# Two addresses of the same app. Below /unbuffered/, nginx passes on each piece of a request and of a response as soon as it has
# the piece; nghttpx always does so, and has one address.
sub urls ($self) { return $self->{folder} ? ($self->url, $self->url . '/unbuffered') : $self->url }

sub _nghttpx ($class, $server, $port) {
    my $encrypted = $server->{encrypted};
    my $backend   = $server->{socket} ? "unix:$server->{socket}" : '127.0.0.1,' . $server->url_port;
    my @command   = (
        qw(nghttpx --conf=/dev/null --workers=1 --no-via --no-server-rewrite --no-location-rewrite --add-x-forwarded-for --log-level=ERROR),
        "--frontend=127.0.0.1,$port;no-tls", "--backend=$backend;;proto=h2" . ($encrypted ? ';tls;sni=localhost' : q()),
        $encrypted ? '--cacert=' . Test::Oribi::believed() : (),
    );
    return $class->run_on_port($port, @command);
}

sub _configuration ($folder, $port, $upstream) {
    # As root nginx would hand its work to another user, which may not enter the temporary folder.
    my $user = $> == 0 ? 'user root;' : '';
    my $pass = <<~'NGINX';
        proxy_pass http://oribi;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_set_header Host $http_host;
        proxy_set_header X-Forwarded-For $remote_addr;
        proxy_set_header X-Forwarded-Proto $scheme;
        NGINX
    return <<~"NGINX";
        $user
        daemon off;
        worker_processes 1;
        pid $folder/nginx.pid;
        events { worker_connections 1024; }
        http {
            access_log off;
            client_max_body_size 64m;
            client_body_temp_path $folder/body;
            proxy_temp_path $folder/proxy;
            fastcgi_temp_path $folder/fastcgi;
            uwsgi_temp_path $folder/uwsgi;
            scgi_temp_path $folder/scgi;
            upstream oribi {
                server $upstream;
                keepalive 8;
            }
            server {
                listen 127.0.0.1:$port;
                location / {
                    $pass
                }
                location /unbuffered/ {
                    $pass
                    rewrite ^/unbuffered(/.*)\$ \$1 break;
                    proxy_buffering off;
                    proxy_request_buffering off;
                }
            }
        }
        NGINX
}

1;
