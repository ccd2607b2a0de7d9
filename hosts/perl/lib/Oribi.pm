package Oribi;
use strict;
use warnings;

our $VERSION = '0.1.0';

use IO::Handle       ();
use IO::File         ();
use IO::Seekable     ();
use IO::Socket       ();
use IO::Socket::INET ();
use IO::Socket::UNIX ();
use PerlIO::scalar   ();
use Oribi::Mojolicious ();
use Oribi::Live ();
use Oribi::EventStream ();
use Oribi::WebSocket ();
use Oribi::Loop ();
use Oribi::Options   ();
use Oribi::RequestTimeout ();

# For the handles of IPv6 connections. A core module since 5.20.
eval { require IO::Socket::IP; 1 } or undef $@;

# The XS code finds the app and the hooks here, in the interpreter that loaded them and in each clone of it.
our $App;
our %Hooks;

require XSLoader;
XSLoader::load(__PACKAGE__, $VERSION);

sub publish {
    my ($channel, $text) = @_;
    return Oribi::Live::publish('text', $channel, Oribi::Live::characters_as_bytes($text));
}

sub publish_binary {
    my ($channel, $bytes) = @_;
    return Oribi::Live::publish('binary', $channel, Oribi::Live::bytes_of($bytes));
}

sub publish_event {
    my ($channel, $lines) = @_;
    return Oribi::Live::publish('event', $channel, Oribi::Live::characters_as_bytes($lines));
}

sub run {
    my ($class, $app, %options) = @_;
    return Oribi::Options->new(%options)->serve($app);
}

1;

__END__

=head1 NAME

Oribi - an application server for PSGI apps

=head1 SYNOPSIS

    plackup -s Oribi app.psgi
    plackup -s Oribi --port 8080 --workers 4 --max-requests 10000 app.psgi

    use Oribi;
    exit Oribi->run($app, listen => ['127.0.0.1:5000', '/run/app.sock'], workers => 4);

=head1 DESCRIPTION

Oribi is an application server whose network side is written in Rust: it reads requests and writes responses, and calls the app
only with a complete request. The app is loaded once, before the workers are forked. This module is its Perl host;
L<Plack::Handler::Oribi> describes the options and L</PSGI> what an app finds in its environment.

=head1 METHODS

=head2 run($app, %options)

Serves a PSGI app until the server is stopped, and returns the exit status. A process that calls it must have one thread. Options are
those of L<Plack::Handler::Oribi/OPTIONS>.

=head2 Oribi::count($name, $amount, $label => $value, ...), Oribi::observe($name, $number, $label => $value, ...)

Functions for apps. They add to a counter, or a value to a histogram, which C<--metrics> exports under the name C<app_$name>. Without
labels, the amount of C<count> may be left out, and is 1. Without C<--metrics> they return at once; otherwise an invalid name, and a
number that is negative or not finite, are errors.

=head2 Oribi::publish($channel, $text), Oribi::publish_binary($channel, $bytes), Oribi::publish_event($channel, $lines)

Functions for apps: they send a message to all connections that have subscribed to a channel, of all workers: a text of characters, bytes
(to WebSockets only), or lines of an event (to streams of events only). They need an edge, and may be called anywhere in a worker, such
as in a timer of its event loop; outside of a request and an event a message has at most 63 KiB. See L<Oribi::WebSocket> and L<Oribi::EventStream>.

=head2 server_version

The version of the server that is linked in.

=head1 PSGI

Everything that PSGI 1.1 asks for, and these extensions:

=over

=item psgix.websocket, psgix.event_stream

With an edge, and only for requests that ask for them: an L<Oribi::WebSocket> and an L<Oribi::EventStream>, with which an app lets the
edge keep the connection open.

=item psgix.input.buffered

Always true: C<psgi.input> is a real handle over the complete content, in memory or in a temporary file, and can be read again.

=item psgix.io

An L<IO::Socket::INET>, L<IO::Socket::IP> or L<IO::Socket::UNIX> for the client's socket. When the app reads bytes from it, writes to it
or closes it, the app takes over the connection: what the app returns or gives to a responder is dropped, and the log has a warning.
Looking at the handle, or copying the environment, changes nothing. If the app only asks for the descriptor or an address, looks whether
something can be read, or sets an option of the socket, its response is still sent, and the connection closes after it. A Unix socket
counts no bytes: there, bytes that an app reads or writes by the bare descriptor may go unnoticed if it also returns a response.

=item psgix.harakiri, psgix.harakiri.commit

If C<psgix.harakiri.commit> is true after the request, the worker (with threads: the interpreter) is replaced. If it is true before the
response, the worker answers no later client, and the response is the last on its connection.

=item psgix.cleanup, psgix.cleanup.handlers

Code pushed to C<psgix.cleanup.handlers> is called with the environment after the response has been sent, before harakiri. If it
dies, the error is logged.

=item psgix.informational

C<< $env->{'psgix.informational'}->(103, [Link => '</style.css>; rel=preload']) >> sends an informational response, except
to HTTP/1.0 clients.

=item psgix.logger

Writes to the error log.

=item oribi.trailers

Fields that the client has sent after the content: an array reference with names, in lower case, and values, in turn. They are in no
C<HTTP_> variable.

=item oribi.on_gone, oribi.on_room

Where an event loop runs: C<< $env->{'oribi.on_gone'}->(sub { ... }) >> calls the code when the client is gone before the response is
complete, and C<< $env->{'oribi.on_room'}->(sub { ... }) >> when there is a writer and room for content, at first and whenever the
client has taken what was written since. Both are for the call for the request; C<undef> ends a callback. So they work below middleware,
too.

=item oribi.deadline

If the server has deadlines for apps (see L</DEADLINES>), C<< $env->{'oribi.deadline'}->(60) >> lets the request take 60 seconds
from now on, and C<< $env->{'oribi.deadline'}->(undef) >> as long as it likes. It concerns the request that the interpreter is
answering.

=back

C<psgi.nonblocking> is true where an event loop of the app runs in the worker (C<--loop>, see L</EVENT LOOPS>).
C<psgi.multithread> is false, because an interpreter answers one request at a time, also with threads. C<psgi.multiprocess> is
always true, because even a single worker overlaps with its successor.

C<psgi.input> of a request without content, and the environment hash itself, are reused for the next request if the app did not
keep them. An app cannot notice this.

=head2 Responses

A response body is an array, a handle, an object with C<getline> or an object with C<path>; a response may also be a code
reference, as in PSGI. C<close> is always called. The kernel sends handles of regular files without layers, from their current
position on. If a response breaks PSGI, the client gets a 500, and the error log explains it.

An app may keep a responder and call it later. If it is dropped without a call, the client gets a 500; if a writer is dropped
without C<close>, the connection is cut, so that the response does not look complete. C<write> returns false if the client has gone.

=head2 exit

An app that calls C<exit> ends neither the server nor other requests: its client gets a 500, and its worker, or with threads its
interpreter, is replaced. A process that the app forked ends as usual.

=head1 DEADLINES

After C<--request-warning> the error log shows where a slow app is. After C<--request-timeout> the app is interrupted
by an exception, an L<Oribi::RequestTimeout>, which can be caught by C<eval>. It is raised as Perl calls signal handlers: between two
operations, in C<sleep> and in a system call that waits. If nothing catches it, the client gets a 504, or the connection is cut if
the response has begun, and the worker continues with the next request. Perl cannot leave C code, such as a regular expression that
explodes or a library that waits for its database; and an app may catch the exception and continue. Then C<--request-kill> kills
the worker.

A warning ends neither C<sleep> nor a read. It does end C<select> and the functions of L<Time::HiRes>, as signals do. While an app
waits in a read or in C code, the log shows the place only after that.

=head1 EVENT LOOPS

If the app has loaded L<Mojo::IOLoop>, L<IO::Async::Loop>, L<AnyEvent> or L<EV> by the time it is loaded, a worker runs that loop while it
waits, and takes further requests while others wait in the app: up to C<--concurrency>. C<--loop> names a loop, or C<none>. So delayed
responses and streaming writers need no worker each.

=head2 $writer->poll_cb(sub { my ($writer) = @_; ... })

Calls the code from the loop, now and whenever the client has taken what was written since: so a stream writes no faster than its client
reads. C<undef> ends it, and so does C<close>. C<write> does not wait then, and never in a callback of the loop.

=head2 Oribi::on_gone($responder_or_writer, sub { ... })

Calls the code from the loop if the client goes away before the response is complete. Writing is harmless then, and has no effect.

=head1 THREADS

On a perl with threads each thread of a worker has a clone of the interpreter in which the app was loaded. C<CLONE> subs run in
each clone, at the start and whenever C<--max-requests> renews one: open database connections there. The original interpreter
answers no requests, so every clone starts from the same state. If a C<CLONE> sub dies, the worker ends.
C<END> blocks run once, when the worker ends.

Signals belong to the process, and Perl delivers them only to the interpreter that loaded the app: what a thread puts into C<%SIG>
has no effect. C<alarm> is an exception, on Linux: each thread has a clock of its own, and C<$SIG{ALRM}> works. Code that was
compiled before this module was loaded (C<plackup> loads apps first; C<plackup -MOribi> and C<oribi> do not) and L<Time::HiRes>
share the single clock of the process, whose alarm goes to all threads that have a handler.

=head1 SEE ALSO

L<Plack::Handler::Oribi>, L<Oribi::RequestTimeout>, L<PSGI>, L<Plack>

=head1 LICENSE

MIT or Apache-2.0, at your choice.

=cut
