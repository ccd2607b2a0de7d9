# Answers each request with its path, this version of the app, the pod, and the content that was sent or requested.
use strict;
use warnings;

use Sys::Hostname qw(hostname);
use Time::HiRes qw(sleep);

open my $file, '<', '/srv/version' or die "/srv/version: $!";
chomp(my $version = <$file>);
close $file;

my $pod = hostname();

sub {
    my ($env) = @_;
    my $content = q{};
    read $env->{'psgi.input'}, $content, $env->{CONTENT_LENGTH} || 0;
    sleep 0.003;
    my ($more) = $env->{QUERY_STRING} =~ /^more=(\d+)$/;
    $content = 'x' x $more if $more;
    return [200, ['Content-Type' => 'text/plain'], ["$env->{PATH_INFO} $version $pod ", length $content, "\n", $content]];
};
