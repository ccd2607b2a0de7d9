# Clients that listen to a channel, and /say, which sends its query to all.

package Listener;
use v5.36;

sub on_open ($class, $connection) { return $connection->subscribe('crowd') }

package main; ## no critic (ProhibitMultiplePackages)

sub ($env) {
    if (my $websocket = $env->{'psgix.websocket'})    { return $websocket->accept(handler => 'Listener') }
    if (my $stream    = $env->{'psgix.event_stream'}) { return $stream->hold(handler => 'Listener') }
    Oribi::publish('crowd', $env->{QUERY_STRING});
    return [204, [], []];
};
