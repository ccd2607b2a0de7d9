#!/usr/bin/perl
# Property: an app of each language learns the client's address and the scheme, host and port of its request from real proxies
# in front, and from no other peer, with an edge and without one. Clients that should use https are redirected there, with
# Strict-Transport-Security.

use v5.36;
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::FreePort qw(free_port);
use Test::Curl;
use Test::More;
use Test::Oribi;

my $folder = File::Temp->newdir;
chmod 0755, "$folder" or die "$folder: $!";

# Clients come from this address, and proxies from 127.0.0.1.
my @as_client = ('--interface', '127.0.0.9');

sub write_file ($name, $text) {
    open my $out, '>', "$folder/$name" or die "$name: $!";
    print {$out} $text;
    close $out or die "$name: $!";
    return "$folder/$name";
}

# The text that the app answers, and the status.
sub told (@arguments) {
    my $answer = curl(@arguments);
    chomp(my $text = $answer->{body});
    return wantarray ? ($text, $answer->{status}) : $text;
}

# A server for an app, with all listeners that a test wants.
sub server ($app, $edge) {
    my $name = "$app-$edge";
    my $self = { name => $name, log => "$folder/$name.access", socket => "$folder/$name.sock" };
    $self->{port} = free_port();
    my @command = (
        Test::Oribi::command(), "$FindBin::Bin/proxies/tell.$app", '--edge', $edge, '--workers', 1,
        '--trusted-proxies', '127.0.0.1,unix', '--access-log', $self->{log},
        '--listen', "127.0.0.1:$self->{port}", '--listen', "$self->{socket}?mode=666",
    );
    for my $version (qw(v1 v2)) {
        $self->{$version} = free_port();
        push @command, '--listen', "127.0.0.1:$self->{$version}?proxy_protocol=$version";
        $self->{"haproxy-$version"} = free_port();
    }
    $self->{oribi} = Test::Oribi->run_on_port($self->{port}, @command);
    return $self;
}

# A server that redirects its clients to https, for HTTP and FastCGI.
sub strict_server ($edge) {
    my $self = { name => "strict-$edge", port => free_port(), fastcgi => free_port() };
    my @command = (
        Test::Oribi::command(), "$FindBin::Bin/proxies/policy.psgi", '--edge', $edge, '--workers', 1,
        '--trusted-proxies', '127.0.0.1', '--redirect-https=8443', '--hsts', 'max-age=31536000; includeSubDomains',
        '--probe', '/up', '--static', "/files=$FindBin::Bin/proxies", '--listen', "127.0.0.1:$self->{port}",
        '--listen', "fcgi://127.0.0.1:$self->{fastcgi}",
    );
    $self->{oribi} = Test::Oribi->run_on_port($self->{port}, @command);
    return $self;
}

# An nginx with a place for each server over TCP, and one over its Unix socket.
sub nginx ($strict, @servers) {
    my $port   = free_port();
    my $user   = $> == 0 ? 'user root;' : '';
    my $places = join '', map { <<~"NGINX" } map { ([$_->{name}, "127.0.0.1:$_->{port}"], ["$_->{name}-unix", "unix:$_->{socket}:"]) } @servers;
        location /$_->[0]/ {
            proxy_pass http://$_->[1]/;
            proxy_set_header Host \$http_host;
            proxy_set_header X-Forwarded-For \$proxy_add_x_forwarded_for;
            proxy_set_header X-Forwarded-Proto https;
            proxy_set_header X-Forwarded-Host shop.example;
            proxy_set_header X-Forwarded-Port 8443;
            proxy_set_header Forwarded "";
        }
        NGINX
    my $params = join q(;), map { "fastcgi_param $_" } 'REQUEST_METHOD $request_method', 'REQUEST_URI $request_uri', 'SERVER_PROTOCOL $server_protocol';
    for my $server (@{$strict}) {
        $places .= <<~"NGINX" for ([http => q()], [https => 'on']);
            location /$server->{name}-$_->[0]/ {
                fastcgi_pass 127.0.0.1:$server->{fastcgi};
                $params;
                fastcgi_param HTTPS "$_->[1]";
            }
            NGINX
    }
    my $file = write_file('nginx.conf', <<~"NGINX");
        $user
        daemon off;
        worker_processes 1;
        pid $folder/nginx.pid;
        events { worker_connections 64; }
        http {
            access_log off;
            client_body_temp_path $folder/body;
            proxy_temp_path $folder/proxy;
            fastcgi_temp_path $folder/fastcgi;
            uwsgi_temp_path $folder/uwsgi;
            scgi_temp_path $folder/scgi;
            server {
                listen 127.0.0.1:$port;
                $places
            }
        }
        NGINX
    return Test::Oribi->run_on_port($port, '/usr/sbin/nginx', '-p', "$folder", '-c', $file, '-e', 'stderr');
}

# A haproxy that passes on bytes to each server, and names the sender in a PROXY header of either version.
sub haproxy (@servers) {
    my @ways  = map { ([$_, 'v1', 'send-proxy'], [$_, 'v2', 'send-proxy-v2 proxy-v2-options unique-id']) } @servers;
    my $parts = join '', map { <<~"HAPROXY" } @ways;
        listen $_->[0]{name}-$_->[1]
            unique-id-format %{+X}o\\ %ci:%cp
            bind 127.0.0.1:$_->[0]{"haproxy-$_->[1]"}
            server oribi 127.0.0.1:$_->[0]{$_->[1]} $_->[2]
        HAPROXY
    my $file = write_file('haproxy.cfg', <<~"HAPROXY");
        defaults
            mode tcp
            timeout connect 10s
            timeout client 60s
            timeout server 60s
        $parts
        HAPROXY
    return Test::Oribi->run_on_port($ways[-1][0]{"haproxy-$ways[-1][1]"}, '/usr/sbin/haproxy', '-db', '-f', $file);
}

sub behind_haproxy ($server) {
    for my $version (qw(v1 v2)) {
        my $url = "http://127.0.0.1:" . $server->{"haproxy-$version"} . q(/);
        my ($told) = told(@as_client, '--header', 'X-Forwarded-For: 10.9.8.7', $url);
        like $told, qr/\A127\.0\.0\.9[ ][1-9]\d*[ ]http[ ]-[ ]127\.0\.0\.1:\d+[ ]\d+[ ]\z/, "haproxy tells of its client: $version";
        my $twice = curl(@as_client, $url, $url);
        is $twice->{connects}, 1, 'on a connection that is kept';
        is scalar(() = $twice->{body} =~ /^127\.0\.0\.9[ ]/gm), 2, 'for every request';
        my $large = random_file(3 << 20);
        is curl(@as_client, '--data-binary', '@' . $large->filename, $url)->{status}, 200, 'with content as well';
        isnt curl("http://127.0.0.1:$server->{$version}/")->{exit}, 0, 'who sends no header gets no answer';
    }
    like $server->{oribi}->log_text, qr/closed[ ]a[ ]connection[ ]of[ ]127\.0\.0\.1:[ ]it[ ]does[ ]not[ ]begin[ ]with/, 'and a line in the log';
    return;
}

sub behind_nginx ($server, $nginx) {
    my $fields = 'HTTP_X_FORWARDED_FOR,HTTP_X_FORWARDED_HOST,HTTP_X_FORWARDED_PORT,HTTP_X_FORWARDED_PROTO';
    my $url    = $nginx->url . "/$server->{name}";
    for my $way (q(/), q(-unix/)) {
        is told(@as_client, "$url$way"), "127.0.0.9 0 https on shop.example:8443 8443 $fields", "nginx tells of its client: $way";
        my @lies = map { ('--header', $_) } 'X-Forwarded-For: 10.9.8.7', 'Forwarded: for=10.9.8.7', 'X-Forwarded-Proto: ftp';
        is told(@as_client, @lies, "$url$way"), "127.0.0.9 0 https on shop.example:8443 8443 $fields", 'and the client cannot lie';
    }
    return;
}

sub without_a_proxy ($server) {
    my $port = $server->{port};
    my $url  = "http://127.0.0.1:$port/";
    my @lies = map { ('--header', $_) } 'X-Forwarded-For: 10.9.8.7', 'X-Forwarded-Proto: https', 'Forwarded: host=evil', 'X-Real-IP: ::1';
    like told(@as_client, @lies, $url), qr/\A127\.0\.0\.9[ ]\d+[ ]http[ ]-[ ]127\.0\.0\.1:$port\x20$port\x20\z/,
        'a stranger is not believed, and the app does not see what it said';
    return;
}

# Fields of a trusted peer, and their effect: address, port, scheme, Host.
sub odd_values ($server) {
    my $url  = "http://127.0.0.1:$server->{port}/";
    my $host = "127.0.0.1:$server->{port}";
    my $many = join q(,), ('10.9.8.7') x 1000;
    for (
        ['X-Forwarded-For: 192.0.2.1:4711' => "192.0.2.1 4711 http - $host"],
        ['X-Forwarded-For: [2001:db8::1]:80, 127.0.0.1' => "2001:db8::1 80 http - $host"],
        ["X-Forwarded-For: $many" => "10.9.8.7 0 http - $host"],
        ['X-Forwarded-For: 10.9.8.7, fe80::1%eth0' => qr/\A127\.0\.0\.1[ ]\d+[ ]http[ ]-[ ]/],
        ['X-Forwarded-For: 10.9.8.7, unknown' => qr/\A127\.0\.0\.1[ ]\d+[ ]http[ ]-[ ]/],
        ['X-Forwarded-For: garbage" \\ <script>' => qr/\A127\.0\.0\.1[ ]\d+[ ]http[ ]-[ ]/],
        ['Forwarded: for="[2001:db8::1]:_x";proto=https;host="a.example:8443"' => '2001:db8::1 0 https on a.example:8443 8443'],
        ['Forwarded: for=10.9.8.7, for=_abc;proto=https' => qr/\A127\.0\.0\.1[ ]\d+[ ]https[ ]on[ ]/],
        ['Forwarded: for=", for=192.0.2.1' => "192.0.2.1 0 http - $host"],
    ) {
        my ($field, $expected) = @{$_};
        my $told  = told('--header', $field, $url);
        my $short = substr $field, 0, 60;
        if   (ref $expected) { like $told, $expected, $short }
        else                 { is substr($told, 0, length $expected), $expected, $short }
    }
    my @both = ('--header', 'X-Forwarded-For: 192.0.2.1', '--header', 'Forwarded: for=192.0.2.2', $url);
    is curl(@both)->{status}, 400, 'fields that contradict each other are refused';
    like $server->{oribi}->log_text, qr/--forwarded-fields/, 'and the log says what to do';
    return;
}

sub logged ($server) {
    $server->{oribi}->stop;
    my $log = content_of($server->{log});
    like $log, qr/^127\.0\.0\.9[ ]-[ ]-[ ]/m,   'the access log has the client';
    like $log, qr/^2001:db8::1[ ]-[ ]-[ ]/m,    'whatever its address';
    like $log, qr/^127\.0\.0\.1[ ].*"[ ]400[ ]/m, 'and the peer where nobody is believed';
    return;
}

# Field by field: status, Location, Strict-Transport-Security, and the app's answer.
sub strictness (@arguments) {
    my $answer = curl(@arguments);
    chomp(my $text = $answer->{body});
    return join q( ), $answer->{status}, map { $_ // q(-) } header_of($answer, 'Location'), header_of($answer, 'Strict-Transport-Security'), $text;
}

sub by_https_only ($server, $nginx) {
    my $url    = "http://127.0.0.1:$server->{port}";
    my @secure = ('--header', 'X-Forwarded-Proto: https');
    my $policy = 'max-age=31536000; includeSubDomains';
    for my $version ('--http1.1', '--http2-prior-knowledge') {
        for (
            [[], "$url/a?b=c" => '301 https://127.0.0.1:8443/a?b=c - 301 Moved Permanently'],
            [['--head'], "$url/a" => qr{\A301[ ]https://127[.]0[.]0[.]1:8443/a[ ]-[ ]HTTP/}],
            [['--data', 'x'], "$url/a" => '308 https://127.0.0.1:8443/a - 308 Permanent Redirect'],
            [['--header', 'Host: [::1]:80'], "$url/" => '301 https://[::1]:8443/ - 301 Moved Permanently'],
            [['--header', 'X-Forwarded-Host: a.example'], "$url//b" => '301 https://a.example:8443//b - 301 Moved Permanently'],
            [[], "$url/files/policy.psgi" => '301 https://127.0.0.1:8443/files/policy.psgi - 301 Moved Permanently'],
            [['--header', 'Host: a;b'], "$url/" => qr/\A400[ ]-[ ]-[ ]400[ ]Bad[ ]Request:[ ]/],
            [[], "$url/up" => qr/\A200[ ]-[ ]-[ ][{]"state":"ready"/],
            [[], "$url/.well-known/acme-challenge/a-Token_1" => '200 - - http'],
            [\@secure, "$url/a" => "200 - $policy https"],
            [\@secure, "$url/own" => '200 - max-age=0 https'],
            [\@secure, "$url/files/policy.psgi" => qr/\A200[ ]-[ ]\Q$policy\E[ ][#]/],
            [\@secure, "$url/up" => qr/\A200[ ]-[ ]\Q$policy\E[ ][{]/],
        ) {
            my ($arguments, $target, $expected) = @{$_};
            my $seen = strictness($version, @{$arguments}, $target);
            if   (ref $expected) { like $seen, $expected, "$version @{$arguments} $target" }
            else                 { is $seen, $expected, "$version @{$arguments} $target" }
        }
        my $twice = curl($version, "$url/1", "$url/2");
        is $twice->{connects}, 1, 'whoever is sent elsewhere keeps the connection';
    }
    like strictness('--http1.0', '--header', 'Host:', "$url/"), qr/\A400[ ]-[ ]-[ ]/, 'without a host there is nowhere to go';
    my $place = $nginx->url . "/$server->{name}";
    my $path  = "/$server->{name}-http/a?b";
    is strictness("$place-http/a?b"), "301 https://127.0.0.1:8443$path - 301 Moved Permanently", 'over FastCGI, too';
    is strictness("$place-https/a"), "200 - $policy https", 'whose client has come by https';
    is strictness("$place-https/own"), '200 - max-age=0 https', 'and whose app has a policy of its own';
    return;
}

my @servers;
for my $app (qw(psgi ru lua)) {
    push @servers, map { server($app, $_) } qw(on off);
}
my @strict  = map { strict_server($_) } qw(on off);
my $nginx   = nginx(\@strict, @servers);
my $haproxy = haproxy(@servers);
for my $server (@servers) {
    subtest $server->{name} => sub {
        behind_nginx($server, $nginx);
        behind_haproxy($server);
        without_a_proxy($server);
        odd_values($server);
        logged($server);
    };
}
for my $server (@strict) {
    subtest $server->{name} => sub { by_https_only($server, $nginx) };
}

done_testing;
