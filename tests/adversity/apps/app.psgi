# An app that breaks in several ways, while it is loaded and while it answers. A target is /BEHAVIOUR?NUMBER; every answer
# repeats the number, and has the id of the answering process in X-Worker. config.ru and app.lua are the same app in their
# languages.

use v5.36;
use POSIX ();
use Time::HiRes qw(sleep);

my $folder = $ENV{ORIBI_TEST_FOLDER};

# Leaves a file with this name: that is how a test knows.
sub leave ($name) {
    open my $out, '>', "$folder/$name" or die "$folder: $!\n";
    close $out                         or die "$folder: $!\n";
    return;
}

sub wait_for_nothing () {
    leave('loading');
    sleep 100;
    return;
}

# The file there sets how the app is loaded.
if (open my $in, '<', "$folder/load") {
    chomp(my $word = readline $in);
    die "the app is broken\n"                      if $word eq 'die';
    wait_for_nothing()                             if $word eq 'hang';
    warn "one of many lines\n" x 20                if $word eq 'warn';
    system "(sleep 5; kill -9 $$) >/dev/null 2>&1 &" if $word eq 'doomed';
}

sub answer ($text) {
    return [200, ['Content-Type' => 'text/plain', 'Content-Length' => length $text, 'X-Worker' => $$], [$text]];
}

# A child of a child, whose parent has ended: it ends by itself, and another process has to wait for it.
sub orphan ($number) {
    my $child = fork // die "fork: $!\n";
    if ($child == 0) {
        exec '/bin/sh', '-c', 'sleep 0.1 & exit 0' or POSIX::_exit(1);
    }
    waitpid $child, 0;
    return answer("orphan $number\n");
}

sub nap ($number) {
    leave('napping');
    sleep $number;
    return answer("nap $number\n");
}

my %behaviours = (
    q()    => sub ($number) { return answer("hello\n") },
    fast   => sub ($number) { return answer("fast $number\n") },
    nap    => \&nap,
    die    => sub ($number) { die "request $number dies\n" },
    time   => sub ($number) { return answer(time . "\n") },
    orphan => \&orphan,
);

sub ($env) {
    my $behaviour = $behaviours{ substr $env->{PATH_INFO}, 1 } or return [404, ['Content-Length' => 0], []];
    return $behaviour->($env->{QUERY_STRING});
};
