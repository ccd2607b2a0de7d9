#!/usr/bin/perl
# Property: behind web servers the command `luafcgid` serves the scripts of luafcgid under its configuration, both unchanged,
# and without its faults.

use v5.36;
use Fcntl      qw(O_NONBLOCK O_WRONLY);
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::FreePort qw(free_port);
use POSIX          ();
use Test::Curl;
use Test::FastCGI;
use Test::More;
use Test::Oribi;
use Test::WebServer::Apache;
use Test::WebServer::Lighttpd;
use Test::WebServer::Nginx;

my $folder = File::Temp->newdir;
chmod 0755, "$folder" or die "$folder: $!";

# As an installation has it, and as init scripts call it.
symlink Test::Oribi::command(), "$folder/luafcgid" or die "$folder/luafcgid: $!";

sub write_file ($name, $text) {
    open my $out, '>', "$folder/$name" or die "$name: $!";
    print {$out} $text;
    return close $out;
}

sub configuration ($port, $more = '') {
    return write_file('config.lua', <<~"LUA");
        -- The connection with the web server
        listen = "127.0.0.1:$port"
        backlog = 100

        -- Threads and states
        workers = 2
        states = workers * 2
        clones = states
        sweep = 1000
        retries = 1

        -- Replies
        showerrors = true
        buffering = true
        headersize = 64
        bodysize = 1024
        headers = "X-Powered-By: Lua\\r\\n"
        contenttype = "text/html; charset=utf-8"
        handler = "main"
        maxpost = 1024 * 1024
        logfile = "$folder/luafcgid.log"
        $more
        LUA
}

sub start ($more = '') {
    my $port = free_port();
    configuration($port, $more);
    return Test::Oribi->run_on_port($port, "$folder/luafcgid", "$folder/config.lua");
}

write_file('hello.lua', <<~'LUA');
    s = "Hello Word"

    function handler()
        return s
    end
    LUA

write_file('dump.lua', <<~'LUA');
    local luafcgid = require "luafcgid"

    local function row(con, name, value)
        con:puts("<tr><td>" .. name .. "</td><td>" .. tostring(value) .. "</td></tr>\n")
    end

    function main(env, con)
        con:header("X-Test", "dump")
        con:puts("<html><body><table>\n")
        for name, value in pairs(env) do row(con, name, value) end
        con:puts("</table>\n")
        if env.QUERY_STRING and env.QUERY_STRING ~= "" then
            con:puts("<table>\n")
            for name, value in pairs(luafcgid.parse(env.QUERY_STRING)) do
                row(con, "GET " .. name, type(value) == "table" and table.concat(value, "+") or value)
            end
            con:puts("</table>\n")
        end
        if env.REQUEST_METHOD == "POST" then
            con:puts("<pre>" .. (con:gets() or "nothing") .. "</pre>\n")
        end
        con:puts("</body></html>\n")
    end
    LUA

# Each maps the paths that end in .lua to files.
my %configuration_of = (
    Nginx => sub ($port) {
        return Test::WebServer::Nginx->wrapped(<<~"NGINX");
            fastcgi_keep_conn on;
            upstream lua { server 127.0.0.1:$port; keepalive 4; }
            server {
                listen 127.0.0.1:%port%;
                root $folder;
                location ~ \\.lua\$ {
                    include /etc/nginx/fastcgi_params;
                    fastcgi_param SCRIPT_FILENAME \$document_root\$fastcgi_script_name;
                    fastcgi_buffering off;
                    fastcgi_pass lua;
                }
            }
            NGINX
    },
    Apache => sub ($port) {
        return Test::WebServer::Apache->wrapped(<<~"APACHE");
            DocumentRoot $folder
            <Directory $folder>
                Require all granted
            </Directory>
            <Proxy "fcgi://127.0.0.1:$port" enablereuse=on>
            </Proxy>
            <FilesMatch "\\.lua\$">
                SetHandler "proxy:fcgi://127.0.0.1:$port"
            </FilesMatch>
            APACHE
    },
    Lighttpd => sub ($port) {
        return Test::WebServer::Lighttpd->wrapped(<<~"LIGHTTPD");
            server.document-root := "$folder"
            fastcgi.server = ( ".lua" => (( "host" => "127.0.0.1", "port" => $port )) )
            LIGHTTPD
    },
);

for my $name (qw(Nginx Apache Lighttpd)) {
    subtest "scripts behind $name" => sub {
        my $server = start();
        my $front  = "Test::WebServer::$name"->configured($configuration_of{$name}->($server->port));
        my $url    = $front->url;
        my $answer = curl("$url/hello.lua");
        is $answer->{status}, 200, 'the first generation answers';
        is $answer->{body}, 'Hello Word', 'what its function returns';
        is header_of($answer, 'X-Powered-By'), 'Lua', 'with the fields of the configuration';
        is header_of($answer, 'Content-Type'), 'text/html; charset=utf-8', 'and its type';

        $answer = curl("$url/dump.lua?one=1&two=a%20b%3Dc&two=d");
        is header_of($answer, 'X-Test'), 'dump', 'the second generation answers';
        like $answer->{body}, qr{<tr><td>SCRIPT_FILENAME</td><td>[^<]*\Q$folder\E/dump\.lua</td></tr>}, 'SCRIPT_FILENAME';
        like $answer->{body}, qr{<tr><td>REQUEST_METHOD</td><td>GET</td></tr>}, 'REQUEST_METHOD';
        like $answer->{body}, qr{<tr><td>HTTP_USER_AGENT</td><td>curl}, 'fields';
        like $answer->{body}, qr{<tr><td>LUAFCGID_VERSION</td><td>1</td></tr>}, 'the version';
        like $answer->{body}, qr{<tr><td>GET one</td><td>1</td></tr>}, 'a parameter';
        like $answer->{body}, qr{<tr><td>GET two</td><td>a b=c\+d</td></tr>}, 'one that comes twice';

        $answer = curl('--data', 'name=value', "$url/dump.lua");
        like $answer->{body}, qr{<pre>name=value</pre>}, 'what is posted';
        is curl("$url/nowhere.lua")->{status}, 404, 'a script that is not there';
        is $front->stop('TERM'), 0, "$name ends";
        is $server->stop, 0, 'TERM ends luafcgid with status 0';
    };
}

# The same server for what follows, and a client for what no web server does.
my $server = start();
my $front  = Test::WebServer::Nginx->configured($configuration_of{Nginx}->($server->port));
my $url    = $front->url;

# The answer of the script TEXT.
sub answer_of ($text, @arguments) {
    state $number = 0;
    $number++;
    write_file("script$number.lua", $text);
    return curl(@arguments, "$url/script$number.lua");
}

subtest 'a request without SCRIPT_FILENAME is answered' => sub {
    is(Test::FastCGI->new($server)->ask('/hello.lua')->{status}, 404, 'not found');
    is body_of("$url/hello.lua"), 'Hello Word', 'and the server goes on';
};

subtest 'an idle kept connection stops nobody' => sub {
    my @idle = map { Test::FastCGI->new($server) } 1 .. 5;
    is $_->ask('/hello.lua', SCRIPT_FILENAME => "$folder/hello.lua")->{body}, 'Hello Word', 'a connection is used' for @idle;
    is body_of("$url/hello.lua"), 'Hello Word', 'others are answered';
};

subtest 'status and content type can be set, once' => sub {
    my $answer = answer_of(q{function main(env, con) con:status(404) con:content_type("text/plain") con:puts("none") end});
    is $answer->{status}, 404, 'the status';
    is join('|', $answer->{head} =~ /^Content-Type:[ ]*(.*?)\r$/gmi), 'text/plain', 'the content type, which comes once';
};

subtest 'an error after output began puts nothing into the body' => sub {
    my $answer = answer_of(q{function main(env, con) con:puts("begun") con:flush() error("late") end});
    is $answer->{body}, 'begun', 'no second head, no page';
};

subtest 'a message for the log is no format' => sub {
    answer_of(q{function main(env, con) con:log("100%s %n of it") con:puts("done") end});
    ok $front->wait_until(sub { $front->log_text =~ /100%s %n of it/ }), 'the web server logs it as it is';
};

subtest 'pages escape what comes from outside' => sub {
    my $answer = curl('--header', 'Accept: text/html', "$url/%3Cb%3Enowhere.lua");
    is $answer->{status}, 404, 'a path that is not there';
    unlike $answer->{body}, qr/<b>/, 'is not repeated as it is';
    $answer = answer_of(q{function main(env, con) error("<b>bad</b>") end}, '--header', 'Accept: text/html');
    is $answer->{status}, 500, 'an error';
    like $answer->{body}, qr/&lt;b&gt;bad/, 'is shown, and escaped';
};

subtest 'what is flushed arrives at once' => sub {
    POSIX::mkfifo("$folder/gate", 0644) or die "gate: $!";
    write_file('stream.lua', <<~"LUA");
        function main(env, con)
            con:puts("first\\n")
            con:flush()
            local gate = io.open("$folder/gate")
            con:puts("second, " .. gate:read("*a"))
            gate:close()
        end
        LUA
    my $pid = open my $client, '-|', 'curl', '--silent', '--no-buffer', '--max-time', 60, "$url/stream.lua" or die "curl: $!";
    is readline($client), "first\n", 'the first piece comes before the second is made';
    my $out;
    ok $server->wait_until(sub { sysopen $out, "$folder/gate", O_WRONLY | O_NONBLOCK }), 'the script waits';
    print {$out} "please\n";
    close $out or die "gate: $!";
    is readline($client), "second, please\n", 'then the second';
    close $client or fail "curl: $?";
};

subtest 'a script cannot end the server' => sub {
    my $answer = answer_of(q{function main(env, con) con:puts("last words") os.exit(1) end});
    isnt $answer->{status}, 502, 'the web server has its answer';
    is body_of("$url/hello.lua"), 'Hello Word', 'and so has the next client';
};

subtest 'a script without a handler is an error each time, and no more' => sub {
    is answer_of('local nothing = 1')->{status}, 500, 'an error' for 1 .. 20;
    is answer_of(q{function main() error({}) end})->{status}, 500, 'error objects need not be strings';
    is body_of("$url/hello.lua"), 'Hello Word', 'the next is answered';
};

subtest 'a change is noticed within the same second' => sub {
    for my $version (1 .. 3) {
        write_file('new.lua', "function handler() return 'version $version' end");
        rename "$folder/new.lua", "$folder/changing.lua" or die "rename: $!";
        ok $server->wait_until(sub { body_of("$url/changing.lua") eq "version $version" }), "version $version answers";
    }
};

subtest 'the log is appended to, and opened again' => sub {
    rename "$folder/luafcgid.log", "$folder/old.log" or die "rename: $!";
    $server->signal('USR1');
    ok $server->wait_until(sub {
        answer_of(q{function main(env, con) error("a new page") end});
        -e "$folder/luafcgid.log" && content_of("$folder/luafcgid.log") =~ /a new page/;
    }), 'USR1 opens it again';
    my $second = start();
    is $second->stop, 0, 'another start and end';
    like content_of("$folder/luafcgid.log"), qr/a new page/, 'leave what is there';
};

is $server->stop, 0, 'TERM ends luafcgid with status 0';

subtest 'with errors hidden, no reply is empty' => sub {
    my $hiding = start('showerrors = false');
    my $before = Test::WebServer::Nginx->configured($configuration_of{Nginx}->($hiding->port));
    write_file('broken.lua', 'function main(env, con) error("secret") end');
    my $answer = curl($before->url . '/broken.lua');
    is $answer->{status}, 500, 'a 500 that is not the web server\'s own';
    ok length $answer->{body}, 'with something to read';
    unlike $answer->{body}, qr/secret/, 'which tells nothing';
    is $hiding->stop, 0, 'TERM ends luafcgid with status 0';
};

subtest 'content that is too large is refused, not cut' => sub {
    my $small  = start('maxpost = 1000');
    my $before = Test::WebServer::Nginx->configured($configuration_of{Nginx}->($small->port));
    my $file   = random_file(5000);
    my $answer = curl('--data-binary', '@' . $file->filename, $before->url . '/dump.lua');
    is $answer->{status}, 413, 'more than maxpost';
    like body_of('--data', 'x' x 1000, $before->url . '/dump.lua'), qr{<pre>x{1000}</pre>}, 'as much as that arrives';
    is $small->stop, 0, 'TERM ends luafcgid with status 0';
};

subtest 'a server that cannot listen says so and ends' => sub {
    my $first = start();
    my $pid   = open my $output, '-|', '/bin/sh', '-c', 'exec "$0" "$1" 2>&1', "$folder/luafcgid", "$folder/config.lua"
        or die "luafcgid: $!";
    my $said = do { local $/ = undef; readline $output };
    close $output or isnt $?, 0, 'it fails';
    like $said . content_of("$folder/luafcgid.log"), qr/cannot listen|in use/i, 'and says why';
    is $first->stop, 0, 'the one that listens is not disturbed';
};

done_testing;
