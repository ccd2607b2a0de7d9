#!/usr/bin/perl
# The chat as an app of Mojolicious, whose clients are of one worker, and news that it writes as they come.

use Mojolicious::Lite -signatures;
use Mojo::EventEmitter;

helper events => sub ($c) { state $events = Mojo::EventEmitter->new };

get '/readers' => sub ($c) { $c->render(text => scalar @{ $c->events->subscribers('news') }) };

websocket '/socket' => sub ($c) {
    $c->inactivity_timeout(3600);
    $c->tx->with_compression;
    my $name = $c->req->query_params->names->[0];
    my $chat = $c->events->on(chat => sub ($events, $text) { $c->send($text) });
    $c->on(text   => sub ($c, $text)  { $c->events->emit(chat => Mojo::Util::decode('UTF-8', "$name: $text")) });
    $c->on(binary => sub ($c, $bytes) { $c->send({ binary => scalar reverse $bytes }) });
    $c->on(finish => sub ($c, @why)   { $c->events->unsubscribe(chat => $chat) });
    $c->send("welcome $name");
};

get '/events' => sub ($c) {
    $c->inactivity_timeout(3600);
    $c->res->headers->content_type('text/event-stream');
    $c->write("retry: 100\n\n");
    my $news = $c->events->on(news => sub ($events, $text) { $c->write(Mojo::Util::encode('UTF-8', "id: 1\ndata: $text\n\n")) });
    $c->on(finish => sub ($c) { $c->events->unsubscribe(news => $news) });
};

post '/news' => sub ($c) {
    $c->events->emit(news => Mojo::Util::decode('UTF-8', $c->req->body));
    $c->rendered(204);
};

app->start;
