#!/usr/bin/perl
# Property: certificates are replaced twenty times under load, by HUP, by `oribi ctl reload` and by their files alone, and no request
# fails, over HTTP/1 and HTTP/2, on kept and on new connections. A certificate that is broken is refused with a reason.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use IPC::Open2 qw(open2);
use Test::Certificate;
use Test::Clients;
use Test::Curl;
use Test::More;
use Test::Oribi;

my $load = go_program('load');

# The command of each replacement. A change of the file is seen when it has been left alone for some seconds.
my @ways = ((qw(HUP ctl)) x 9, qw(file file));

for (['app.psgi', 'on'], ['app.ru', 'on'], ['app.lua', 'on'], ['app.psgi', 'off']) {
    my ($app, $edge) = @$_;
    subtest "$app, edge $edge" => sub {
        my $site  = start_for_clients($app, '--workers', 2, '--edge', $edge);
        my $oribi = $site->{oribi};
        my $pid   = open2(my $out, my $in, $load, $site->{https});
        my $ask   = sub {
            print {$in} "go on\n" or die "load: $!";
            chomp(my $line = readline $out);
            return $line;
        };
        is($ask->(), 'first first', 'the load has begun');
        my $number = 1;
        my $missed = 0;
        for my $way (@ways) {
            my $name = 'certificate-' . ++$number;
            # In the middle and at the end there is nonsense in between.
            refused($site, $ask->(), $ask) if $number == 10 || $number == 20;
            certificate($name, $site->{certificate});
            $oribi->signal('HUP') if $way eq 'HUP';
            is(output_of(Test::Oribi::command(), 'ctl', 'reload', '--pid', $oribi->pid) =~ /^oribi: /m, q(), 'ctl') if $way eq 'ctl';
            $oribi->wait_until(sub { $ask->() eq "$name $name" }) or $missed++;
        }
        is($missed, 0, 'each certificate was shown');
        close $in or die "load: $!";
        my $said = join q(), readline $out;
        waitpid $pid, 0;
        if ($edge eq 'on') {
            is($said, <<~'SAID', 'no request has failed, and no connection was closed');
                http1 kept: 0 failed, one connection, first
                http1 new: 0 failed, several connections
                http2 kept: 0 failed, one connection, first
                http2 new: 0 failed, several connections
                SAID
        } else {
            is(scalar(() = $said =~ /: 0 failed/g), 4, 'no request has failed') or diag($said);
        }
        # If a reload is overtaken by the next one, the process that loads the app is interrupted, and Ruby reports that; during
        # the start of Ruby itself, RubyGems does.
        my $ended      = qr/SIGTERM|<internal:[^>]*(?:kernel_require|gem_prelude)/;
        my @complaints = grep { !/cannot use the certificate|$ended/ } $oribi->complaints;
        is_deeply(\@complaints, [], 'nothing else is complained of');
    };
}

# A file that is not a certificate: the current one stays, and the log has the reason.
sub refused ($site, $before, $ask) {
    my $oribi   = $site->{oribi};
    my $refusal = qr/cannot use the certificate \Q$site->{certificate}\E: .+; keeping the current certificates/;
    my $known   = () = $oribi->log_text =~ /$refusal/g;
    open my $out, '>', $site->{certificate} or die "$site->{certificate}: $!";
    print {$out} substr('-----BEGIN CERTIFICATE-----' . content_of($0), 0, 200);
    close $out or die "$site->{certificate}: $!";
    $oribi->signal('HUP');
    ok($oribi->wait_until(sub { (() = $oribi->log_text =~ /$refusal/g) > $known }), 'a broken certificate is refused with a reason');
    is($ask->(), $before, 'and the present one stays');
    return;
}

done_testing;
