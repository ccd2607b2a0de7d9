# Threads: what CLONE is for.
#
#     plackup -s Oribi --threads 4 --max-requests 100000 eg/clone.psgi
#
# The app is loaded once; each thread, and each interpreter that replaces another, gets a clone of it. A connection to a database
# must not be shared by clones: CLONE opens another.

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
