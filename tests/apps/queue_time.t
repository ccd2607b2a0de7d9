#!/usr/bin/perl
# Property: an app of each language gets the time that its request has waited for a worker, with an edge and without; in Perl
# and Ruby only with --x-request-start.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use File::Temp     ();
use IO::Socket::IP ();
use Test::FreePort qw(free_port);
use Test::Command  qw(write_file);
use Test::Curl;
use Test::More;
use Test::Oribi;
use Time::HiRes qw(time);

my $folder = File::Temp->newdir;

# Each answers with its queue time, or `none`; `/hold` reports that it runs, and does so until the file `go` is there.
write_file("$folder/app.psgi", <<'APP' =~ s/FOLDER/$folder/gr);
use Time::HiRes qw(sleep);
sub {
    my ($env) = @_;
    if ($env->{PATH_INFO} eq '/hold') {
        open my $file, '>', 'FOLDER/inside' or die;
        close $file;
        sleep 0.01 until -e 'FOLDER/go';
    }
    return [200, [], [$env->{'oribi.queue_time'} // 'none']];
};
APP
write_file("$folder/app.ru", <<'APP' =~ s/FOLDER/$folder/gr);
run(lambda do |env|
  if env["PATH_INFO"] == "/hold"
    File.write("FOLDER/inside", "")
    sleep 0.01 until File.exist?("FOLDER/go")
  end
  [200, {}, [(env["oribi.queue_time"] || "none").to_s]]
end)
APP
write_file("$folder/app.lua", <<'APP' =~ s/FOLDER/$folder/gr);
local function is_there(path)
    local file = io.open(path)
    return file and file:close()
end
return function(request)
    if request.path == "/hold" then
        io.open("FOLDER/inside", "w"):close()
        while not is_there("FOLDER/go") do os.execute("sleep 0.01") end
    end
    return 200, {}, tostring(request.queue_time or "none")
end
APP

my $number = qr/\A\d+(?:[.]\d+)?(?:e-\d+)?\z/;

for my $app (qw(app.psgi app.ru app.lua)) {
    subtest "$app, not asked for" => sub {
        my $oribi = Test::Oribi->start("$folder/$app", '--workers', 1);
        my $said  = body_of($oribi->url);
        like($said, $app eq 'app.lua' ? $number : qr/\Anone\z/, 'a key costs something, a property of Lua does not');
        is($oribi->stop, 0, 'the server ends');
    };
    subtest "$app, without an edge" => sub {
        my $oribi = Test::Oribi->start("$folder/$app", '--workers', 1, '--edge', 'off', '--x-request-start');
        my $said  = body_of($oribi->url);
        ok($said =~ $number && $said < 60, "$said: it has hardly waited");
        is($oribi->stop, 0, 'the server ends');
    };
    subtest "$app, behind another request" => sub {
        unlink "$folder/inside", "$folder/go";
        my $metrics = free_port();
        my $oribi   = Test::Oribi->start("$folder/$app", '--workers', 1, '--threads', 1, '--x-request-start', '--metrics', $metrics);
        my @clients = map { $oribi->connection } 1 .. 2;
        print { $clients[0] } "GET /hold HTTP/1.0\r\n\r\n";
        $clients[0]->flush;
        ok($oribi->wait_until(sub { -e "$folder/inside" }), 'the first one runs');
        print { $clients[1] } "GET /time HTTP/1.0\r\n\r\n";
        $clients[1]->flush;
        ok($oribi->wait_until(sub { body_of("http://127.0.0.1:$metrics/metrics") =~ /^oribi_queue_length 1$/m }), 'the second one waits');
        my $seen = time;
        $oribi->wait_until(sub { time > $seen + 0.1 });
        write_file("$folder/go", q());
        my ($said) = map { (split /\r\n\r\n/, join q(), readline $_)[1] } $clients[1];
        ok($said =~ $number && $said >= 0.1, "$said: it has waited longer than this test, which has seen it wait");
        is($oribi->stop, 0, 'the server ends');
    };
}

done_testing;
