#!/usr/bin/perl
# Property: clients that others have written get their answers: cgi-fcgi of FastCGI's own developers, and FCGI::Client.

use v5.36;
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/../lib";
use FCGI::Client;
use Test::Curl;
use Test::FastCGI qw(parameters);
use Test::More;
use Test::Oribi;

my %app_of = (
    Lua         => ["$FindBin::Bin/apps/probe.lua",        '--workers', 1, '--threads', 2],
    Mojolicious => ["$FindBin::Bin/apps/mojolicious.psgi", '--workers', 2],
    Sinatra     => ["$FindBin::Bin/apps/sinatra.ru",       '--workers', 1, '--threads', 2],
);

# The output of cgi-fcgi for a request with the CONTENT.
sub cgi_fcgi ($server, $content, %variables) {
    my ($input, $output) = (File::Temp->new, File::Temp->new);
    binmode $input;
    print {$input} $content;
    $input->flush;
    my $address = $server->{socket} // "127.0.0.1:$server->{port}";
    my $pid     = fork // die "fork: $!";
    if ($pid == 0) {
        $variables{CONTENT_LENGTH} = length $content if length $content;
        local %ENV = (PATH => $ENV{PATH}, %variables);
        open STDIN,  '<', $input->filename  or die "input: $!";
        open STDOUT, '>', $output->filename or die "output: $!";
        exec 'cgi-fcgi', '-bind', '-connect', $address or die "cgi-fcgi: $!";
    }
    waitpid $pid, 0;
    return content_of($output->filename);
}

my $content = content_of(random_file(200_000)->filename);

for my $name (sort keys %app_of) {
    for my $start (qw(start_fastcgi start_fastcgi_on_socket)) {
        my $server = Test::Oribi->$start(@{ $app_of{$name} });
        subtest "$name, cgi-fcgi, $start" => sub {
            like cgi_fcgi($server, '', parameters('/')), qr/\A.*\r\n\r\nprobe\n\z/s, 'GET';
            my @post    = (REQUEST_METHOD => 'POST', CONTENT_TYPE => 'application/x-bytes');
            my $printed = cgi_fcgi($server, $content, parameters('/echo', @post));
            my (undef, $body) = split /\r\n\r\n/, $printed, 2;
            ok $body eq $content, 'POST: content goes up and comes down';
            like cgi_fcgi($server, '', parameters('/nowhere')), qr/\AStatus: 404/, 'a 404';
            like cgi_fcgi($server, '', parameters('/failure')), qr/\AStatus: 500/, 'a 500';
            like cgi_fcgi($server, '', parameters('/environment', HTTP_X_OWN => 'mine')), qr/^HTTP_X_OWN=mine$/m, 'variables';
        };

        subtest "$name, FCGI::Client, $start" => sub {
            my $ask = sub ($uri, $content = '', %more) {
                my $client = FCGI::Client::Connection->new(sock => $server->connection, timeout => 60);
                return $client->request({ parameters($uri, %more) }, $content);
            };
            my ($output, $errors, $status) = $ask->('/');
            like $output, qr/\A.*\r\n\r\nprobe\n\z/s, 'GET';
            is $status, 0, 'its application status';
            my $size = length $content;
            my @post = (REQUEST_METHOD => 'POST', CONTENT_LENGTH => $size, CONTENT_TYPE => 'text/plain');
            ($output) = $ask->('/echo', $content, @post);
            ok substr($output, -$size) eq $content, 'POST: content goes up and comes down';
            ($output) = $ask->('/nowhere');
            like $output, qr/\AStatus: 404/, 'a 404';
            ($output) = $ask->('/cookies');
            like $output, qr/^Set-Cookie: one=1.*^Set-Cookie: two=2/msi, 'fields that come twice';
        };
        is $server->stop, 0, 'oribi ends with status 0';
    }
}

done_testing;
