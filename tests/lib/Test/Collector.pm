package Test::Collector;

# The receiver of a real OpenTelemetry Collector, for a test that looks at the spans that it has accepted.

use v5.36;
use Carp           qw(croak);
use Exporter       qw(import);
use File::Temp     ();
use JSON::PP       qw(decode_json);
use Test::FreePort qw(free_port);
use POSIX          ();
use Test::Oribi;
use Time::HiRes qw(sleep time);

our @EXPORT = qw(collectors_certificate);

my $PATIENCE = 60;

# Test::Collector->new(CERTIFICATE, KEY): at a free port of 127.0.0.1, over TLS if there is a certificate.
sub new ($class, @files) {
    my $self = bless { port => free_port(), files => [@files], folder => File::Temp->newdir, owner => $$ }, $class;
    $self->start;
    return $self;
}

sub url ($self) { return ($self->{files}->@* ? 'https' : 'http') . "://127.0.0.1:$self->{port}" }

# Starts it, at the same port as before. It keeps the spans that it had accepted.
sub start ($self) {
    pipe my $reader, my $writer or croak "pipe: $!";
    $self->{process} = fork // croak "fork: $!";
    if (!$self->{process}) {
        close $writer or POSIX::_exit(126);
        open STDIN,  '<&', $reader                or POSIX::_exit(126);
        open STDOUT, '>>', "$self->{folder}/taken" or POSIX::_exit(126);
        open STDERR, '>',  "$self->{folder}/said"  or POSIX::_exit(126);
        my $program = Test::Oribi::root() . '/target/tools/bin/collector';
        exec $program, "127.0.0.1:$self->{port}", $self->{files}->@* or POSIX::_exit(127);
    }
    # It ends when this is closed, however the test ends.
    $self->{writer} = $writer;
    close $reader or croak "pipe: $!";
    $self->wait_for('collector', sub { $self->content('said') =~ /^ready$/m });
    return;
}

sub stop ($self) {
    return if $self->{owner} != $$ || !$self->{process};
    local ($?, $!) = (0, 0);
    kill KILL => $self->{process};
    waitpid delete $self->{process}, 0;
    return;
}

sub DESTROY ($self) { return $self->stop }

sub content ($self, $name) {
    open my $in, '<:raw', "$self->{folder}/$name" or return q();
    local $/ = undef;
    return readline($in) // q();
}

sub wait_for ($self, $what, $condition) {
    my $end = time + $PATIENCE;
    until ($condition->()) {
        croak "there is no $what:\n" . $self->content('said') if time > $end;
        sleep 0.02;
    }
    return;
}

# All spans that it has accepted, in their order. Attributes have become a hash, and there is a hash of those of the resource.
sub spans ($self) {
    my @spans;
    for my $line (grep {/\}\z/} split /\n/, $self->content('taken')) {
        for my $of_resource (decode_json($line)->{resourceSpans}->@*) {
            my $resource = attributes($of_resource->{resource}{attributes});
            for my $span (map { $_->{spans}->@* } $of_resource->{scopeSpans}->@*) {
                push @spans, { %$span, resource => $resource, attributes => attributes($span->{attributes}) };
            }
        }
    }
    return @spans;
}

sub attributes ($list) {
    return { map { ($_->{key} => (values $_->{value}->%*)[0]) } ($list // [])->@* };
}

# The spans of the request whose caller has this id: its own, and those below; they are waited for.
sub spans_below ($self, $caller) {
    my @found;
    my $look = sub {
        my @spans = $self->spans;
        my ($root) = grep { $_->{parentSpanId} eq $caller } @spans or return 0;
        @found = ($root, grep { $_->{parentSpanId} eq $root->{spanId} } @spans);
        return @found == 4;
    };
    $self->wait_for("span below $caller", $look);
    return @found;
}

# collectors_certificate(FOLDER): writes a certificate for 127.0.0.1, the key of the certificate, and the certificate of the
# authority that has signed it. Returns the paths of these three files.
sub collectors_certificate ($folder) {
    my @key     = qw(-nodes -days 30 -newkey ec -pkeyopt ec_paramgen_curve:P-256);
    my @own     = ("$folder/own.pem", "$folder/own.key", "$folder/authority.pem");
    my @request = (qw(openssl req -x509), @key);
    my $run     = sub (@command) {
        open my $openssl, '-|', 'sh', '-c', 'exec "$@" 2>&1', 'sh', @command or croak "openssl: $!";
        my @said = readline $openssl;
        close $openssl or croak "openssl: @said";
    };
    $run->(@request, '-subj', '/CN=authority', '-keyout', "$folder/authority.key", '-out', $own[2]);
    my @names = ('-addext', 'subjectAltName=IP:127.0.0.1', '-addext', 'basicConstraints=critical,CA:FALSE');
    my @by    = ('-CA', $own[2], '-CAkey', "$folder/authority.key");
    $run->(@request, '-subj', '/CN=collector', @names, @by, '-keyout', $own[1], '-out', $own[0]);
    return @own;
}

1;
