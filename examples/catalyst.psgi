# A Catalyst app in one file: pages, a form, uploads and a response in pieces.
#
#     oribi examples/catalyst.psgi
#     curl -F file=@README.md http://127.0.0.1:5000/upload

use strict;
use warnings;

package Example::Catalyst::Root;

use Moose;
use Digest::SHA qw(sha256_hex);
use namespace::autoclean;

BEGIN { extends 'Catalyst::Controller' }

__PACKAGE__->config(namespace => q{});

sub digest {
    my ($content) = @_;
    return length($content) . ' bytes, sha256 ' . sha256_hex($content) . "\n";
}

sub home : Path Args(0) {
    my ($self, $c) = @_;
    $c->response->body("Hello from Catalyst\n");
    return;
}

sub hello : Local Args(1) {
    my ($self, $c, $name) = @_;
    $c->response->body("Hello, $name!\n");
    return;
}

sub form : Local POST {
    my ($self, $c) = @_;
    $c->response->body('Hello, ' . $c->request->body_parameters->{name} . "!\n");
    return;
}

sub upload : Local POST {
    my ($self, $c) = @_;
    my $upload = $c->request->upload('file');
    $c->response->body($upload->filename . ': ' . digest($upload->slurp));
    return;
}

sub raw : Local PUT {
    my ($self, $c) = @_;
    my $body = $c->request->body;
    $c->response->body(digest(do { local $/ = undef; readline $body }));
    return;
}

# Each piece is sent as soon as it is there.
sub stream : Local Args(1) {
    my ($self, $c, $lines) = @_;
    my $writer = $c->response->write_fh;
    $writer->write("line $_\n") for 1 .. $lines;
    $writer->close;
    return;
}

sub missing : Path {
    my ($self, $c) = @_;
    $c->response->status(404);
    $c->response->body("No such page\n");
    return;
}

sub end : Private {
    my ($self, $c) = @_;
    $c->response->content_type('text/plain; charset=utf-8');
    return;
}

package Example::Catalyst;    ## no critic (ProhibitMultiplePackages): an app in one file

use Catalyst;

__PACKAGE__->config(name => 'Example');
__PACKAGE__->inject_component('Controller::Root' => { from_component => 'Example::Catalyst::Root' });
__PACKAGE__->setup;
__PACKAGE__->psgi_app;
