#!/usr/bin/perl
# Property: a server with the oribi.toml that `oribi import` makes of an nginx.conf answers as nginx does with that file: about who is
# let in (satisfy, allow, auth_basic, auth_request), about changed paths (rewrite, proxy_pass with a path), and about addresses.

use v5.36;
use File::Path qw(make_path);
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::FreePort qw(free_port);
use Test::Command qw(run);
use Test::Curl;
use Test::Files qw(content_of write_file);
use Test::More;
use Test::Oribi;
use Test::WebServer::Nginx;

my $folder = File::Temp->newdir;
chmod 0755, "$folder" or die "$folder: $!";
# An app that says what it gets, and one that is asked about others.
my ($app, $asked) = (free_port(), free_port());
write_file("$folder/app.lua", <<~'APP');
    return function(request)
        local user = request.headers["x-user"] or "nobody"
        local secret = request.headers["x-secret"] or "none"
        return 200, { ["Content-Type"] = "text/plain" }, table.concat({ request.method, request.path, request.query or "", user, secret }, " ") .. "\n"
    end
    APP
write_file("$folder/asked.lua", <<~'APP');
    return function(request)
        if request.path ~= "/verify" then return 500, {}, "" end
        local key = request.headers["x-key"]
        if key == "gold" then return 204, { ["X-User"] = "alice" }, "" end
        return key and 403 or 401, {}, ""
    end
    APP
my @behind = (
    Test::Oribi->run_on_port($app,   Test::Oribi::command(), "$folder/app.lua",   '--listen', "127.0.0.1:$app",   '--workers', 1),
    Test::Oribi->run_on_port($asked, Test::Oribi::command(), "$folder/asked.lua", '--listen', "127.0.0.1:$asked", '--workers', 1),
);

make_path(map { "$folder/www/$_" } qw(plain files/new either any wall all open pub shut up texts home));
write_file("$folder/www/$_", "$_\n") for qw(plain/a.txt files/new/a.txt either/a any/a wall/a all/a open/a index.txt),
    qw(pub/a.png pub/.a shut/a.png up/a up/a.php texts/a.txt home/start.html);
# alice, whose password is secret.
write_file("$folder/users", "alice:\$apr1\$EUyRh3aG\$pLycCLtzhn2gHLFnHNs5A/\n");
chmod 0644, "$folder/users" or die "users: $!";

# The file, for a server at two ports.
sub configuration ($first, $second) {
    return <<~"NGINX";
        server {
            listen 127.0.0.1:$first;
            listen 127.0.0.2:$first;
            server_name one.test;
            root $folder/www;
            proxy_set_header Host \$host;
            rewrite ^/start\$ /begin;
            rewrite ^/shop/(.*)\$ /list?what=\$1 last;
            rewrite ^/go/(.*)\$ /go/there/\$1 last;
            location = /ask { internal; proxy_pass http://127.0.0.1:$asked/verify; proxy_set_header Host \$host; }
            location /asked/ {
                auth_request /ask;
                auth_request_set \$who \$upstream_http_x_user;
                proxy_set_header Host \$host;
                proxy_set_header X-User \$who;
                proxy_set_header X-Secret \$request_id_that_is_empty;
                proxy_pass http://127.0.0.1:$app;
            }
            location /mixed/ {
                satisfy any;
                allow 127.0.0.1;
                deny all;
                auth_request /ask;
                auth_request_set \$other \$upstream_http_x_user;
                proxy_set_header Host \$host;
                proxy_set_header X-User \$other;
                proxy_pass http://127.0.0.1:$app;
            }
            location /both/ { auth_request /ask; deny 127.0.0.1; proxy_pass http://127.0.0.1:$app; }
            location /any/ { satisfy any; allow 127.0.0.1; deny all; auth_basic "any"; auth_basic_user_file users; }
            location /wall/ { satisfy any; deny all; auth_basic "wall"; auth_basic_user_file users; }
            location /all/ { satisfy all; allow 127.0.0.1; deny all; auth_basic "all"; auth_basic_user_file users; }
            location /open/ { satisfy any; allow all; auth_basic "open"; auth_basic_user_file users; }
            location /either/ { satisfy any; allow 127.0.0.1; deny all; auth_request /ask; }
            location /api/ { proxy_pass http://127.0.0.1:$app/v1/; }
            location = /one { proxy_pass http://127.0.0.1:$app/two; }
            location ~ ^/user/([0-9]+)\$ { proxy_pass http://127.0.0.1:$app/u/\$1; }
            location /break/ { deny 127.0.0.2; rewrite ^/break/(.*)\$ /x/\$1 break; proxy_pass http://127.0.0.1:$app/ignored/; }
            location /files/ { rewrite ^/files/old/(.*)\$ /files/new/\$1 break; }
            location /chain/ { rewrite ^/chain/a\$ /chain/b; rewrite ^/chain/c\$ /begin; rewrite ^/chain/b\$ /e; return 404; }
            location /last/ { rewrite ^/last/(.*)\$ /api/\$1 last; return 403; }
            location /guard/ { rewrite ^/guard/(.*)\$ /api/\$1; if (\$http_x_key != gold) { return 403; } return 402; }
            location /perm/ { rewrite ^/perm/(.*)\$ /api/\$1 permanent; }
            location /away/ { rewrite ^/away/(.*)\$ /api/\$1? redirect; }
            location /pub/ { location ~ \\.png\$ { } location ~ /\\. { deny all; } }
            location /shut/ { deny all; }
            location ^~ /up/ { location ~ \\.php\$ { deny all; } }
            location ~ /\\.(?!well-known) { deny all; }
            location ~ ^/texts/.*\\.txt\$ { deny all; }
            location /role/ { if (\$http_x_role = "") { return 403; } proxy_pass http://127.0.0.1:$app; }
            location /home/ { index start.html; }
            location = /home/start.html { deny all; }
            location / { proxy_pass http://127.0.0.1:$app; }
        }
        server { listen 127.0.0.1:$first; server_name two.test; location / { return 200 "two\\n"; } }
        server { listen 127.0.0.1:$second; server_name one.test; location / { return 200 "second\\n"; } }
        NGINX
}

my ($nginx_port, $nginx_second, $own_port, $own_second) = map { free_port() } 1 .. 4;
# nginx knows no such variable; the import need not.
my $text = configuration($nginx_port, $nginx_second) =~ s/\$request_id_that_is_empty/""/r;
write_file("$folder/nginx.conf", Test::WebServer::Nginx->wrapped($text) =~ s/%folder%/$folder/gr);
my @start = Test::WebServer::Nginx->start_command($folder);
s{/configuration\z}{/nginx.conf} for @start;
my $nginx = Test::Oribi->run_on_port($nginx_port, @start);

write_file("$folder/own.conf", configuration($own_port, $own_second));
run({ folder => "$folder" }, 'bash', '-c', sprintf q('%s' import --from nginx own.conf >oribi.toml 2>notes), Test::Oribi::command());
# Old hashes are accepted when the file says so.
write_file("$folder/oribi.toml", content_of("$folder/oribi.toml") =~ s/(htpasswd = "[^"]*")/$1, weak = true/gr);
my $oribi = Test::Oribi->run_on_port($own_port, Test::Oribi::command(), '-c', "$folder/oribi.toml");

# The status, the place of a redirect, and the content of a success.
sub seen ($port, $address, $path, @arguments) {
    my $answer = curl(@arguments, "http://$address:$port$path");
    my $place  = (header_of($answer, 'Location') // q()) =~ s{\Ahttp://[^/]+}{}r;
    return join q( ), $answer->{status}, $place, $answer->{status} == 200 ? $answer->{body} : ();
}

my @from   = ('--header', 'Host: one.test');
my @second = ('--interface', '127.0.0.2');
my @gold   = ('--header', 'X-Key: gold');
my @lead   = ('--header', 'X-Key: lead');
my @login  = ('--user', 'alice:secret');
my @wrong  = ('--user', 'alice:wrong');
for my $case (
    ['/'], ['/a/b?c=d'], ['/start?x=y'], ['/shop/hat?x=y'], ['/api/a?b=c'], ['/api/'], ['/one?a=b'], ['/user/17?a=b'], ['/user/x'],
    ['/break/a?b=c'], ['/break/a', @second], ['/files/old/a.txt'], ['/files/new/a.txt'], ['/files/none'],
    ['/chain/a'], ['/chain/b'], ['/chain/c'], ['/last/a?b=c'], ['/guard/a'], ['/guard/a', @gold], ['/perm/a?b=c'], ['/away/a?b=c'],
    ['/asked/a'], ['/asked/a', @gold], ['/asked/a', @lead], ['/asked/a', @gold, '--header', 'X-User: mallory'],
    ['/asked/a', @gold, '--header', 'X-Secret: mallory'], ['/ask'], ['/ask', @gold],
    ['/go/a'], (map { ['/mixed/a', '--header', 'X-User: mallory', @$_] } [], [@second], [@second, @gold], [@second, @lead]),
    (map { [$_] } qw(/pub/a.png /pub/.a /shut/a.png /up/a /up/a.php /.git/config /a/.well-known/a /a/.wel), '/texts/a.txt%0A'),
    ['/role/a'], ['/role/a', '--header', 'X-Role;'], ['/role/a', '--header', 'X-Role: a'],
    ['/both/a'], ['/both/a', @gold], ['/both/a', @gold, @second], ['/both/a', @second],
    (map { my $path = $_; map { [$path, @$_] } [], [@second], [@login], [@second, @login], [@wrong], [@second, @wrong] }
        qw(/any/a /wall/a /all/a /open/a)),
    (map { ['/either/a', @$_] } [], [@second], [@second, @gold], [@second, @lead]),
    ['/', '--header', 'Host: two.test'], ['/x', '--header', 'Host: other.test'],
) {
    my ($path, @arguments) = @$case;
    my @host     = (grep { /\AHost:/ } @arguments) ? () : @from;
    my $expected = seen($nginx_port, '127.0.0.1', $path, @host, @arguments);
    is seen($own_port, '127.0.0.1', $path, @host, @arguments), $expected, "$path @arguments: " . $expected =~ s/\n//r;
}
# As the location of the file says; here, no file is sent.
like seen($nginx_port, '127.0.0.1', '/home/', @from), qr/\A403/, 'nginx refuses the file of a directory';
isnt +(split / /, seen($own_port, '127.0.0.1', '/home/', @from))[0], 200, 'the file of a directory that another location decides about';
is seen($own_second, '127.0.0.1', '/', @from), seen($nginx_second, '127.0.0.1', '/', @from), 'another port has another server of that name';
is seen($own_port, '127.0.0.2', '/', '--header', 'Host: two.test'), seen($nginx_port, '127.0.0.2', '/', '--header', 'Host: two.test'),
    'another address does not have all servers of its port';
# The output of `nginx -T` has the file of the site where it is included.
make_path("$folder/sites");
write_file("$folder/sites/one", configuration($nginx_port, $nginx_second) =~ s/\$request_id_that_is_empty/\$request_id/r);
write_file("$folder/whole.conf", Test::WebServer::Nginx->wrapped('include sites/*; include /etc/nginx/mime.types;') =~ s/%folder%/$folder/gr);
my @print = map { s{/configuration\z}{/whole.conf}r } Test::WebServer::Nginx->start_command($folder);
my $whole = run('bash', '-c', sprintf q(%s -T 2>/dev/null | '%s' import --from nginx - 2>&1), "@print", Test::Oribi::command());
my $plain = content_of("$folder/oribi.toml") =~ s/, weak = true//gr =~ s/\b$own_port\b/$nginx_port/gr =~ s/\b$own_second\b/$nginx_second/gr;
my %of    = map { $_->[0] => [$_->[1] =~ /^(?:match|app|files|respond|redirect|rewrite|auth) = .*/gm] } [whole => $whole], [plain => $plain];
# Without the file, a relative path is beside oribi.toml.
s{htpasswd = "users"}{htpasswd = "$folder/users"} for @{ $of{plain} };
cmp_ok scalar @{ $of{whole} }, '>', 40, 'the output of nginx -T has routes';
is_deeply $of{whole}, $of{plain}, 'the output of nginx -T is the same';
unlike $whole, qr/is not read|\Q.html=\E/, 'with the files that it includes';
is $oribi->stop, 0, 'the server ends';
done_testing;
