# Threads: an app that opens a database connection of its own in each thread.
#
#     plackup -s Oribi --threads 4 --max-requests 100000 eg/clone.psgi
#
# The app is loaded once. Each thread, and each interpreter that replaces another one, gets a cloned interpreter with the app.
# Cloned interpreters must not share a connection to a database, so CLONE opens a new connection.

use strict;
use warnings;

package Connection;

my $connection;

sub connect_anew {
    $connection = { opened_at => time };
    return;
}

sub CLONE {
    connect_anew();
    return;
}

connect_anew();

my $requests = 0;

my $app = sub {
    $requests++;
    return [ 200, [ 'Content-Type' => 'text/plain' ], ["request $requests on a connection opened at $connection->{opened_at}\n"] ];
};
