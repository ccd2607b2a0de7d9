#!/usr/bin/perl
# For hypnotoad: clients that listen, and /say, which sends its query to all clients of its worker. CROWD_LISTEN is the address.
use Mojolicious::Lite -signatures;

app->config(
    hypnotoad => {
        listen => [$ENV{CROWD_LISTEN}], workers => 1, spare => 0, clients => 30_000, accepts => 0,
        inactivity_timeout => 0, pid_file => "$ENV{CROWD_FOLDER}/hypnotoad.pid",
    },
);
my %listeners;

websocket '/' => sub ($c) {
    $c->inactivity_timeout(0);
    my $id = sprintf '%s', $c->tx;
    $listeners{$id} = $c;
    $c->on(finish => sub { delete $listeners{$id} });
};

get '/' => sub ($c) {
    $c->inactivity_timeout(0);
    my $id = sprintf '%s', $c->tx;
    $c->res->headers->content_type('text/event-stream');
    $c->write;
    $listeners{$id} = $c;
    $c->on(finish => sub { delete $listeners{$id} });
};

get '/say' => sub ($c) {
    my $text = $c->req->query_params->to_string;
    for my $listener (values %listeners) { $listener->tx->is_websocket ? $listener->send($text) : $listener->write("data: $text\n\n") }
    $c->rendered(204);
};

app->start;
