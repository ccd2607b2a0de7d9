# A chat, and news that the app stores in the file TEST_NEWS: a client that comes again gets those that it has missed.

package News;
use v5.36;

sub read_all () {
    open my $file, '<:encoding(UTF-8)', $ENV{TEST_NEWS} or die "news: $!\n";
    chomp(my @news = readline $file);
    return map { "id: @{[$_ + 1]}\ndata: $news[$_]" } 0 .. $#news;
}

sub add ($text) {
    open my $file, '>>:encoding(UTF-8)', $ENV{TEST_NEWS} or die "news: $!\n";
    say {$file} $text;
    close $file or die "news: $!\n";
    return Oribi::publish_event('news', (read_all())[-1]);
}

package Reader; ## no critic (ProhibitMultiplePackages)

sub on_open ($class, $connection) {
    $connection->subscribe('news');
    $connection->send_event('retry: 100');
    my $last = $connection->env->{HTTP_LAST_EVENT_ID} // return;
    my @news = News::read_all();
    $connection->send_event($_) for @news[$last .. $#news];
    return;
}

package Guest; ## no critic (ProhibitMultiplePackages)

sub new ($class, $name) { return bless { name => $name }, $class }

sub on_open ($self, $connection) {
    $connection->subscribe('chat');
    return $connection->send("welcome $self->{name}");
}

sub on_message ($self, $connection, $message) {
    return $connection->send_binary(scalar reverse $message) if $connection->is_binary;
    return $connection->publish('chat', "$self->{name}: $message");
}

package main; ## no critic (ProhibitMultiplePackages)

sub ($env) {
    if (my $websocket = $env->{'psgix.websocket'}) { return $websocket->accept(handler => [Guest => $env->{QUERY_STRING}]) }
    if (my $stream = $env->{'psgix.event_stream'}) { return $stream->hold(handler => 'Reader') }
    my $text = do { local $/ = undef; readline $env->{'psgi.input'} };
    utf8::decode($text);
    News::add($text);
    return [204, [], []];
};
