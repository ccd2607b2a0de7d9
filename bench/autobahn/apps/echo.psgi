# Sends each message of a WebSocket back.
package Echo;
use v5.36;

sub on_message ($class, $connection, $message) {
    return $connection->is_binary ? $connection->send_binary($message) : $connection->send($message);
}

package main;    ## no critic (ProhibitMultiplePackages)

sub ($env) {
    my $websocket = $env->{'psgix.websocket'} or return [426, [Upgrade => 'websocket'], []];
    return $websocket->accept(handler => 'Echo');
};
