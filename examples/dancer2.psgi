# A Dancer2 app: pages, a form, uploads and a response in pieces.
#
#     oribi examples/dancer2.psgi
#     curl -F file=@README.md http://127.0.0.1:5000/upload

package Example::Dancer2;

use Dancer2;
use Digest::SHA qw(sha256_hex);

set charset => 'UTF-8';

hook before => sub { response_header 'Content-Type' => 'text/plain' };

sub digest {
    my ($content) = @_;
    return length($content) . ' bytes, sha256 ' . sha256_hex($content) . "\n";
}

get '/' => sub { "Hello from Dancer2\n" };

get '/hello/:name' => sub { 'Hello, ' . route_parameters->get('name') . "!\n" };

post '/form' => sub { 'Hello, ' . body_parameters->get('name') . "!\n" };

post '/upload' => sub {
    my $upload = upload('file');
    return $upload->filename . ': ' . digest($upload->content);
};

put '/raw' => sub { digest(request->body) };

# Each piece is sent as soon as it is there.
get '/stream/:lines' => sub {
    my $lines = route_parameters->get('lines');
    delayed {
        flush;
        content "line $_\n" for 1 .. $lines;
        done;
    };
};

__PACKAGE__->to_app;
