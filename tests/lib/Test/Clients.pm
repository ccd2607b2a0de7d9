package Test::Clients;

# Servers with an encrypted and an open address, and the clients of HTTP/2 that talk to them.

use v5.36;
use Carp         qw(croak);
use Exporter     qw(import);
use Digest::SHA  ();
use File::Temp   ();
use FindBin      ();
use Test::FreePort qw(free_port);
use Test::Certificate;
use Test::Oribi;

our @EXPORT = qw(start_for_clients go_program output_of conversation numbered_sum resources);

my $programs = "$FindBin::Bin/programs";

# start_for_clients(APP, ARGUMENT...): a server with the app of one language, as a hash with
#   oribi        the server
#   https, http  its addresses
#   certificate  the file of its certificate and key
#   ended        the file in which the app notes the end of each endless response
sub start_for_clients ($app, @arguments) {
    my $folder      = File::Temp->newdir;
    my $certificate = certificate('first', "$folder/certificate");
    local $ENV{ORIBI_TEST_ENDED} = "$folder/ended";
    my $plain = free_port();
    my $port  = do { my $other; do { $other = free_port() } while $other == $plain; $other };
    my $oribi = Test::Oribi->run_on_port(
        $port, Test::Oribi::command(), "$FindBin::Bin/apps/$app", @arguments,
        '--listen', "https://127.0.0.1:$port?cert=$certificate", '--listen', "http://127.0.0.1:$plain",
    );
    return {
        oribi       => $oribi,
        https       => "https://127.0.0.1:$port",
        http        => "http://127.0.0.1:$plain",
        certificate => $certificate,
        ended       => "$folder/ended",
        folder      => $folder,
    };
}

# The output of a command, including errors; with its status if it fails.
sub output_of (@command) {
    open my $pipe, '-|', 'sh', '-c', 'exec "$@" 2>&1', 'sh', @command or croak "$command[0]: $!";
    local $/ = undef;
    my $text = readline($pipe) // q();
    close $pipe or $text .= "$command[0] ended with status $?\n";
    return $text;
}

# The program that is built of programs/NAME.go.
sub go_program ($name) {
    my ($go) = grep { -x } map { "$_/go" } split(/:/, $ENV{PATH}), '/usr/local/go/bin';
    state $folder = File::Temp->newdir;
    my $said = output_of($go // 'go', 'build', '-o', "$folder/$name", "$programs/$name.go");
    croak "$name.go: $said" if !-x "$folder/$name";
    return "$folder/$name";
}

# conversation(SITE, SCHEME, ACT...): the output of the client in Python after an act, without the line end.
sub conversation ($site, $scheme, @act) {
    return output_of('/usr/bin/python3', "$programs/client.py", $site->{$scheme}, $site->{certificate}, @act) =~ s/\n\z//r;
}

# The SHA-256 of COUNT blocks as the apps make them.
sub numbered_sum ($count) {
    my $block = substr join(q(), map { chr(33 + $_ % 89) } 1 .. 89) x 12_000, 0, 2**20 - 8;
    my $sum   = Digest::SHA->new(256);
    $sum->add($block, sprintf '%08d', $_) for 1 .. $count;
    return $sum->hexdigest;
}

# All processes of a server but the first: how many descriptors they have open, and how many KiB of memory that is not a file's.
sub resources ($oribi) {
    my ($descriptors, $memory) = (0, 0);
    my @processes = Test::Oribi::children($oribi->pid);
    while (defined(my $pid = shift @processes)) {
        push @processes, Test::Oribi::children($pid);
        $descriptors += () = glob "/proc/$pid/fd/*";
        open my $in, '<', "/proc/$pid/status" or next;
        $memory += join(q(), readline $in) =~ /^RssAnon:\s+(\d+)/m ? $1 : 0;
    }
    return ($descriptors, $memory);
}

1;
