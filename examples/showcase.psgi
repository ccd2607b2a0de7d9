# The features of a PSGI app, without a framework: a form, an upload, a file, a stream, a late answer, work after the response.
#
#     oribi examples/showcase.psgi
#
# then open http://127.0.0.1:5000/

use strict;
use warnings;
use Digest::SHA    ();
use Plack::Request ();

my $page = <<'END';
<!DOCTYPE html>
<title>Oribi</title>
<h1>Oribi</h1>
<form action="/upload" method="post" enctype="multipart/form-data">
<p><input name="name" placeholder="Your name"> <input type="file" name="file"> <button>Upload</button></p>
</form>
<ul>
<li><a href="/environment">the environment</a> of a request
<li><a href="/source">the source</a> of this app, sent by the kernel
<li><a href="/stream">a stream</a>, line by line
<li><a href="/late">a response</a> that comes later than the call
<li><a href="/after">work</a> that is done when the response has left
<li><a href="/missing">something</a> that is not there
</ul>
END

sub text {
    my ($status, @text) = @_;
    return [ $status, [ 'Content-Type' => 'text/plain; charset=utf-8' ], [@text] ];
}

my %answers = (
    '/' => sub { return [ 200, [ 'Content-Type' => 'text/html; charset=utf-8' ], [$page] ] },

    '/environment' => sub {
        my ($env) = @_;
        return text(200, map {"$_: $env->{$_}\n"} sort keys %{$env});
    },

    '/upload' => sub {
        my ($env)   = @_;
        my $request = Plack::Request->new($env);
        my $upload  = $request->upload('file') or return text(400, "a file is missing\n");
        my $digest  = Digest::SHA->new(256)->addfile($upload->path)->hexdigest;
        return text(200, $request->parameters->{name} || 'Somebody', ' sent ', $upload->filename, ': ', $upload->size,
            " bytes, sha256 $digest\n");
    },

    # A handle of a file is sent from its current position on, without passing through Perl.
    '/source' => sub {
        open my $handle, '<', __FILE__ or return text(500, "$!\n");
        return [ 200, [ 'Content-Type' => 'text/plain; charset=utf-8' ], $handle ];
    },

    # write returns false when the client has gone: no need to continue then.
    '/stream' => sub {
        return sub {
            my ($respond) = @_;
            my $writer = $respond->([ 200, [ 'Content-Type' => 'text/plain; charset=utf-8' ] ]);
            for my $number (1 .. 1000) {
                last if !$writer->write("line $number\n");
            }
            $writer->close;
        };
    },

    '/late' => sub {
        return sub {
            my ($respond) = @_;
            $respond->(text(200, "This was worth waiting for.\n"));
        };
    },

    # The client does not wait for this work.
    '/after' => sub {
        my ($env) = @_;
        my $logger = $env->{'psgix.logger'};
        push @{ $env->{'psgix.cleanup.handlers'} }, sub { $logger->({ level => 'info', message => 'this was done afterwards' }) };
        return text(200, "Look into the log.\n");
    },
);

sub {
    my ($env) = @_;
    my $answer = $answers{ $env->{PATH_INFO} } or return text(404, "There is nothing here.\n");
    return $answer->($env);
};
