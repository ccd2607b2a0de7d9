# A Mojolicious app: pages, a form, uploads and a response in pieces.
#
#     oribi examples/mojolicious.psgi
#     curl -F file=@README.md http://127.0.0.1:5000/upload

use Mojolicious::Lite -signatures;
use Digest::SHA qw(sha256_hex);

# Uploads larger than Mojolicious takes by default; Oribi has a limit of its own.
app->max_request_size(64 << 20);
app->log->level('warn');

sub digest ($content) { return length($content) . ' bytes, sha256 ' . sha256_hex($content) . "\n" }

get '/' => sub ($c) { $c->render(text => "Hello from Mojolicious\n") };

get '/hello/:name' => sub ($c) { $c->render(text => 'Hello, ' . $c->param('name') . "!\n") };

post '/form' => sub ($c) { $c->render(text => 'Hello, ' . $c->param('name') . "!\n") };

post '/upload' => sub ($c) {
    my $upload = $c->param('file');
    $c->render(text => $upload->filename . ': ' . digest($upload->slurp));
};

put '/raw' => sub ($c) { $c->render(text => digest($c->req->body)) };

# Each piece is sent as soon as it is there; the next is asked for when it has been taken.
get '/stream/:lines' => sub ($c) {
    my $line = 0;
    $c->res->headers->content_type('text/plain');
    my $next;
    $next = sub {
        return $c->write(q{}) if $line == $c->param('lines');
        $line++;
        return $c->write("line $line\n", $next);
    };
    $next->();
};

app->start;
