# The Mojolicious app behind the web servers.

use Mojolicious::Lite -signatures;
use Plack::Builder qw(builder enable);

app->log->level('fatal');
app->max_request_size(64 << 20);
app->secrets(['of no use']);

sub pattern ($bytes) {
    state $period = join '', map { chr } 0 .. 250;
    return substr $period x (1 + int $bytes / 251), 0, $bytes;
}

sub environment ($c) {
    my $env   = $c->req->env;
    my @lines = map { "$_=" . ($env->{$_} // 'undef') . "\n" } grep { !ref $env->{$_} } sort keys %{$env};
    $c->res->headers->content_type('text/plain');
    return $c->render(data => join '', @lines);
}

get '/' => sub ($c) { $c->render(data => "probe\n") };
any '/environment'       => \&environment;
any '/environment/*rest' => \&environment;

post '/echo' => sub ($c) { $c->render(data => $c->req->body) };
post '/form' => sub ($c) { $c->render(text => 'Hello, ' . $c->param('name') . "!\n") };
get '/download/:bytes' => sub ($c) { $c->render(data => pattern($c->param('bytes'))) };

# Sends a piece, and the second one when the pipe that the query names gets a byte.
get '/pieces' => sub ($c) {
    my $gate = $c->param('gate');
    $c->res->headers->content_type('text/plain');
    $c->write("first\n", sub ($c, @) {
        open my $in, '<', $gate or die "$gate: $!";
        my $word = readline $in;
        $c->write("second, $word", sub ($c, @) { $c->write(q{}) });
    });
};

get '/etag' => sub ($c) {
    return $c->rendered(304) if $c->is_fresh(etag => 'tag');
    return $c->render(data => "tagged\n");
};
get '/failure'  => sub ($c) { die "as asked\n" };
get '/redirect' => sub ($c) { $c->redirect_to('/environment') };
get '/cookies'  => sub ($c) {
    $c->cookie(one => '1');
    $c->cookie(two => '2');
    $c->render(data => "cookies\n");
};

get '/touch' => sub ($c) {
    my $file = $c->param('file');
    open my $out, '>', $file or die "$file: $!";
    close $out or die "$file: $!";
    $c->render(data => "touched\n");
};
# The filter's data: a line, and the rest in capital letters.
post '/filter' => sub ($c) {
    my $data = $c->req->env->{'oribi.data'} or return $c->render(data => "nothing to filter\n");
    chomp(my $first = readline($data) // 'nothing');
    my $rest = do { local $/ = undef; readline($data) // '' };
    $rest = length($rest) <= 65_536 ? uc $rest : length $rest;
    $c->render(data => "$first|$rest|" . $c->req->body);
};
get '/authorizer' => sub ($c) {
    $c->res->headers->header('Variable-ROLE' => $c->req->env->{FCGI_ROLE});
    $c->render(data => 'never seen', status => $c->param('status') // 200);
};

my $app = app->start;
builder {
    # The environment of requests must follow PSGI.
    enable 'Lint';
    $app;
};
