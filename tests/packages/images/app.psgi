# Answers with the version of the app, its user, the size of the content, and the number of places other than /tmp where it can
# write.
use v5.36;

my $version = 'first';
if (open my $in, '<', '/tmp/version') { chomp($version = readline $in) }
my %paths = (
    # A child that its parent leaves.
    '/orphan' => sub { qx(sleep 1000 >/dev/null 2>&1 & echo \$!) },
    # A request that runs until the test has seen enough.
    '/slow' => sub { system 'touch /tmp/running; until [ -e /tmp/finish ]; do sleep 0.02; done'; "finished\n" },
);

sub ($env) {
    my $answer = $paths{ $env->{PATH_INFO} };
    return [200, ['Content-Type' => 'text/plain'], [$answer->()]] if $answer;
    my $size = 0;
    while (my $count = $env->{'psgi.input'}->read(my $part, 65_536)) { $size += $count }
    my $writable = grep { open my $out, '>', "$_/oribi-test" } qw(/ /etc /var/tmp .);
    return [200, ['Content-Type' => 'text/plain'], ["perl $version $> $size $writable\n"]];
};
