# A browser can fetch the style sheet while the page is still being made.
#
#     plackup -s Oribi eg/early-hints.psgi
#     curl -v http://127.0.0.1:5000/

use strict;
use warnings;

my $app = sub {
    my ($env) = @_;
    if (my $inform = $env->{'psgix.informational'}) {
        $inform->(103, [ Link => '</style.css>; rel=preload; as=style' ]);
    }
    my $page = '<!DOCTYPE html><link rel="stylesheet" href="/style.css"><p>This took a while.';
    return [ 200, [ 'Content-Type' => 'text/html; charset=utf-8' ], [$page] ];
};
