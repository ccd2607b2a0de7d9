package Test::Proxy;

# Starts an nginx in front of a server for a test.

use v5.36;
use parent 'Test::Oribi';
use File::Temp     ();
use Net::EmptyPort qw(empty_port);

# Test::Proxy->before(SERVER): an nginx that passes everything on as its manual recommends, with keep-alive connections to
# SERVER. Below /unbuffered/ it passes on each piece of a request and of a response as soon as it has it. PORT is where it
# listens, for apps that know their address.
sub before ($class, $server, $port = empty_port()) {
    my $folder = File::Temp->newdir;
    open my $out, '>', "$folder/nginx.conf" or die "nginx.conf: $!";
    print {$out} _configuration($folder, $port, $server->upstream);
    close $out or die "nginx.conf: $!";
    my $self = $class->run_on_port($port, '/usr/sbin/nginx', '-p', "$folder", '-c', "$folder/nginx.conf", '-e', 'stderr');
    $self->{folder} = $folder;
    return $self;
}

sub _configuration ($folder, $port, $upstream) {
    # As root nginx would hand its work to another user, who may not enter the temporary folder.
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
