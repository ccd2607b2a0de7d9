package Test::Prometheus;

# A Prometheus that scrapes a server, for a test that queries its results.
#
# Requests may take up to five seconds, which a busy machine may need. Still, the server is scraped twice a second: there are
# ten targets, all of which are this server. Prometheus scrapes each target every five seconds, at different moments.

use v5.36;
use Carp         qw(croak);
use File::Temp   ();
use HTTP::Tiny;
use JSON::PP     qw(decode_json);
use Test::FreePort qw(free_port);
use POSIX        ();
use Time::HiRes  qw(sleep time);

my $PATIENCE = 60;
my $WATCHERS = 10;

# Test::Prometheus->new(PLACE, RULES, OPTIONS...): for the job oribi, scrapes /metrics at the port PLACE of 127.0.0.1, or
# another path if one follows the port, as in 5000/stats. It evaluates RULES. OPTIONS are further options of Prometheus.
sub new ($class, $place, $rules, @options) {
    my ($target, $path) = split /(?=\/)/, $place, 2;
    $path //= '/metrics';
    my $folder = File::Temp->newdir;
    my $client = HTTP::Tiny->new(timeout => $PATIENCE);
    my $self   = bless { folder => $folder, port => free_port(), client => $client }, $class;
    my $each   = join q(), map {"      - {targets: ['127.0.0.1:$target'], labels: {watcher: '$_'}}\n"} 1 .. $WATCHERS;
    open my $out, '>', "$folder/prometheus.yml" or croak "prometheus.yml: $!";
    print {$out} <<~"CONFIGURATION", $each;
        global: {scrape_interval: 5s, scrape_timeout: 5s, evaluation_interval: 1s}
        rule_files: ['$rules']
        scrape_configs:
          - job_name: oribi
            metrics_path: $path
            static_configs:
        CONFIGURATION
    close $out or croak "prometheus.yml: $!";
    $self->{process} = fork // croak "fork: $!";
    if (!$self->{process}) {
        open STDOUT, '>', "$folder/log" or POSIX::_exit(126);
        open STDERR, '>&', \*STDOUT     or POSIX::_exit(126);
        exec 'prometheus', "--config.file=$folder/prometheus.yml", "--storage.tsdb.path=$folder/data",
            "--web.listen-address=127.0.0.1:$self->{port}", '--log.level=warn', @options or POSIX::_exit(127);
    }
    $self->wait_for('Prometheus', sub { $self->{client}->get("http://127.0.0.1:$self->{port}/-/ready")->{success} });
    return $self;
}

sub DESTROY ($self) {
    return if !$self->{process};
    local $? = 0;
    kill KILL => $self->{process};
    waitpid $self->{process}, 0;
    return;
}

sub log_text ($self) {
    open my $in, '<', "$self->{folder}/log" or croak "log: $!";
    local $/ = undef;
    return scalar readline $in;
}

sub wait_for ($self, $what, $condition) {
    my $end = time + $PATIENCE;
    until ($condition->()) {
        croak "there is no $what:\n" . $self->log_text if time > $end;
        sleep 0.1;
    }
    return;
}

# The answer of the interface to a path with parameters.
sub ask ($self, $path, %parameters) {
    my $query = $self->{client}->www_form_urlencode(\%parameters);
    my $answer = $self->{client}->get("http://127.0.0.1:$self->{port}/api/v1/$path?$query");
    my $said   = eval { decode_json($answer->{content}) } or croak "$path: $answer->{status} $answer->{content}";
    return $said->{data} if $said->{status} eq 'success';
    die "$said->{error}\n";
}

# The series that an expression gives: for each its labels and its value.
sub query ($self, $expression) {
    my $data = $self->ask('query', query => $expression);
    return [{}, $data->{result}[1]] if $data->{resultType} ne 'vector';
    return map { [$_->{metric}, $_->{value}[1]] } $data->{result}->@*;
}

# The value of the only series that an expression gives, or undef.
sub value ($self, $expression) {
    my @series = $self->query($expression);
    return @series ? $series[0][1] : undef;
}

# Waits until an expression gives a series.
sub wait_until ($self, $expression) {
    return $self->wait_for($expression, sub { $self->query($expression) });
}

# Waits until each watcher has asked again.
sub wait_for_scrapes ($self) {
    my $now = time;
    return $self->wait_until("count(timestamp(up) > $now) == $WATCHERS");
}

1;
