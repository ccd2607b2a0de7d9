# frozen_string_literal: true

require_relative "server_process"

# An nginx in front of a server, which passes everything on as its manual recommends, with keep-alive connections to the server.
class Nginx < ServerProcess
  def initialize(server)
    @folder = Dir.mktmpdir
    Minitest.after_run { FileUtils.rm_rf(@folder) }
    port = FreePort.next
    File.write("#{@folder}/nginx.conf", configuration(port, server))
    super("/usr/sbin/nginx", "-p", @folder, "-c", "#{@folder}/nginx.conf", "-e", "stderr", port:)
  end

  private

  def configuration(port, server)
    # As root it would hand its work to another user, which may not enter the temporary folder.
    user = "user root;" if Process.uid.zero?
    <<~NGINX
      #{user}
      daemon off;
      worker_processes 1;
      pid #{@folder}/nginx.pid;
      events { worker_connections 1024; }
      http {
        access_log off;
        client_max_body_size 64m;
        client_body_temp_path #{@folder}/body;
        proxy_temp_path #{@folder}/proxy;
        fastcgi_temp_path #{@folder}/fastcgi;
        uwsgi_temp_path #{@folder}/uwsgi;
        scgi_temp_path #{@folder}/scgi;
        upstream app {
          server #{server.upstream};
          keepalive 8;
        }
        server {
          listen 127.0.0.1:#{port};
          location / {
            proxy_pass #{server.encrypted? ? 'https' : 'http'}://app;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
            proxy_set_header X-Forwarded-For $remote_addr;
            proxy_set_header X-Forwarded-Proto $scheme;
          }
        }
      }
    NGINX
  end
end
