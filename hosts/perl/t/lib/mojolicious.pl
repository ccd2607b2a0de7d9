#!/usr/bin/perl
use Mojolicious::Lite;
use Mojo::IOLoop;
use Mojo::Promise;

my ($finished, $ticks, $held) = (0, 0, 0);
Mojo::IOLoop->recurring(0.05 => sub { $ticks++ });

get '/now'   => sub { my ($c) = @_; $c->render(text => 'now') };
get '/later' => sub { my ($c) = @_; $c->render_later; Mojo::IOLoop->timer(0.1 => sub { $c->render(text => 'late') }) };
get '/promise' => sub {
    my ($c) = @_;
    $c->render_later;
    Mojo::Promise->timer(0.05 => 'kept')->then(sub { $c->render(text => $_[0]) });
};
get '/rejected' => sub { my ($c) = @_; $c->render_later; return Mojo::Promise->reject('the reason') };
get '/dies'     => sub { die "it dies\n" };
get '/ticks'    => sub { my ($c) = @_; $c->render(text => $ticks) };
get '/finished' => sub { my ($c) = @_; $c->render(text => $finished) };
get '/all_held' => sub { my ($c) = @_; $c->render(text => $held) };
get '/held'     => sub { my ($c) = @_; $c->render_later; $held++; $c->tx->on(finish => sub { $finished++ }) };
get '/events'   => sub {
    my ($c) = @_;
    my $timer = Mojo::IOLoop->recurring(0.02 => sub { $c->write("data: 1\n\n") });
    $c->on(finish => sub { Mojo::IOLoop->remove($timer); $finished++ });
    $c->write("data: 0\n\n");
};
get '/chunks' => sub {
    my ($c) = @_;
    $c->write_chunk('first' => sub { my ($c) = @_; Mojo::IOLoop->timer(0.05 => sub { $c->write_chunk('second' => sub { shift->finish('third') }) }) });
};
get '/drain' => sub {
    my ($c) = @_;
    my $left = 200;
    my $more;
    $more = sub { my ($c) = @_; $left-- ? $c->write('x' x 50_000 => $more) : $c->finish };
    $more->($c);
};
get '/length' => sub { my ($c) = @_; $c->res->headers->content_length(6); $c->write('abc' => sub { my ($c) = @_; $c->write('def') }) };
get '/idle'   => sub { my ($c) = @_; $c->render_later; $c->inactivity_timeout(0.2) };
get '/begun'  => sub { my ($c) = @_; $c->inactivity_timeout(0.2); $c->write_chunk('begun') };
get '/file'   => sub { my ($c) = @_; $c->reply->file($ENV{TEST_FILE}) };
post '/echo'  => sub { my ($c) = @_; $c->render(data => $c->req->body) };
websocket '/socket' => sub {
    my ($c) = @_;
    $c->on(message => sub { my ($c, $text) = @_; $c->send("echo: $text") });
    $c->on(finish => sub { $finished++ });
};

app->start;
