package Test::WebServer::Nginx;

# nginx in front of a FastCGI application, as Test::WebServer says.

use v5.36;
use parent 'Test::WebServer';

use constant NAME => 'nginx';
use constant KEEPS_CONNECTIONS => 1;

sub start_command ($class, $folder) {
    return '/usr/sbin/nginx', '-p', $folder, '-c', "$folder/configuration", '-e', 'stderr';
}

sub configuration ($class, $server, $options) {
    my $upstream = $server->upstream;
    my $pieces   = $options->{pieces} ? 'fastcgi_buffering off; fastcgi_request_buffering off;' : '';
    return $class->wrapped(<<~"NGINX");
        upstream oribi {
            server $upstream;
            keepalive 8;
        }
        server {
            listen 127.0.0.1:%port%;
            listen 127.0.0.1:%tls_port% ssl;
            ssl_certificate %folder%/certificate.pem;
            ssl_certificate_key %folder%/key.pem;
            server_name front.example;

            fastcgi_keep_conn on;
            $pieces
            location / {
                include /etc/nginx/fastcgi_params;
                fastcgi_pass oribi;
            }
            location ~ ^/app(/|\$) {
                fastcgi_split_path_info ^(/app)(.*)\$;
                include /etc/nginx/fastcgi_params;
                fastcgi_param PATH_INFO \$fastcgi_path_info;
                fastcgi_pass oribi;
                location ~ /private\$ {
                    auth_basic "private";
                    auth_basic_user_file %folder%/passwords;
                    fastcgi_split_path_info ^(/app)(.*)\$;
                    include /etc/nginx/fastcgi_params;
                    fastcgi_param PATH_INFO \$fastcgi_path_info;
                    fastcgi_pass oribi;
                }
            }
            location = /environment/private {
                auth_basic "private";
                auth_basic_user_file %folder%/passwords;
                include /etc/nginx/fastcgi_params;
                fastcgi_pass oribi;
            }
        }
        NGINX
}

# A whole configuration with TEXT in its http block.
sub wrapped ($class, $text) {
    # As root nginx would hand its work to another user, which may not enter the temporary folder.
    my $user = $> == 0 ? 'user root;' : '';
    return <<~"NGINX";
        $user
        daemon off;
        worker_processes 1;
        pid %folder%/nginx.pid;
        events { worker_connections 1024; }
        http {
            access_log off;
            client_max_body_size 64m;
            client_body_temp_path %folder%/body;
            proxy_temp_path %folder%/proxy;
            fastcgi_temp_path %folder%/fastcgi;
            uwsgi_temp_path %folder%/uwsgi;
            scgi_temp_path %folder%/scgi;
            $text
        }
        NGINX
}

1;
