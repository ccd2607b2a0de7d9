#!/usr/bin/perl
# Property: `oribi import` reads files, standard input, command lines and the words of one, and its exit status and messages say what
# has become of them.

use v5.36;
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::Command qw(run);
use Test::Curl;
use Test::Files   qw(content_of write_file);
use Test::More;
use Test::Oribi;

my $command = Test::Oribi::command();
my $folder  = File::Temp->newdir;
# A ruby that is in PATH reads files of Puma.
delete local @ENV{qw(ORIBI_RUBY PORT)};

# The standard output and the standard error of a command of a shell, in which IMPORT is `oribi import`, and its status.
sub import_with ($line) {
    my $shell = $line =~ s/\bIMPORT\b/'$command' import/r;
    my $status = run({ folder => $folder }, 'bash', '-c', "{ $shell; } >out 2>err; echo \$?");
    chomp $status;
    return ($status, content_of("$folder/out"), content_of("$folder/err"));
}

sub statuses ($name, $expected, $line, $out, $err) {
    my ($status, $written, $said) = import_with($line);
    is $status, $expected, "$name: the status is $expected";
    like $written, $out, "$name: standard output" or diag $said;
    like $said,    $err, "$name: standard error";
    return;
}

my $nothing = qr/\A\z/;
my $all     = qr/\Aoribi: all of it was carried over\n\z/;
write_file("$folder/Procfile", "web: starman --workers 3\n");
write_file("$folder/bad.json", "{\n  \"listeners\": }\n");
write_file("$folder/what.txt", "hello\n");
write_file("$folder/puma.rb",  "workers 3\nfrobnicate 1\n");
write_file("$folder/named.rb", "rackup DefaultRackup\nport DefaultTCPPort\n");
write_file("$folder/block.rb", "cluster { threads 2, 5 }\nworkers 2\n");
write_file("$folder/bad.rb",   "workers 3\nraise 'no'\n");

statuses('a file',          0, 'IMPORT Procfile',                           qr/^workers = 3$/m, $all);
statuses('standard input',  0, 'IMPORT --from procfile - <Procfile',        qr/^workers = 3$/m, $all);
statuses('a command line',  0, q{IMPORT 'starman --workers 4 "a b.psgi"'},  qr/^file = "a b[.]psgi"$/m, $all);
statuses('words',           0, q{IMPORT starman --workers 4 'a b.psgi'},    qr/^file = "a b[.]psgi"$/m, $all);
statuses('words behind --', 0, q{IMPORT -- starman -l :80 app.psgi},        qr/^address = ":80"$/m, $all);
statuses('an unknown flag', 0, q{IMPORT -- starman --zork 1},               qr/^# - --zork: /m,
    qr/\Acommand line: --zork: .*\noribi: 1 thing was not carried over, or only in part\n\z/);
statuses('a program in Ruby', 0, 'IMPORT puma.rb', qr/^workers = 3$/m, qr/^puma[.]rb:2: frobnicate: /m);
statuses('constants of Puma', 0, 'IMPORT --from puma named.rb', qr/^address = ":9292"\n.*^file = "config[.]ru"$/ms,
    qr/port: Puma before version 8 has IPv4 alone/);
statuses('a block of Puma', 0, 'IMPORT --from puma block.rb', qr/^threads = "2:5"$/m, qr/default of Puma: Puma before version 8 has IPv4 alone/);

# Each vassal of an emperor of uWSGI has its socket, in one server.
mkdir "$folder/vassals" or die "mkdir: $!";
for my $name (qw(one two)) {
    write_file("$folder/vassals/$name.ini", "[uwsgi]\nhttp-socket = $folder/$name.sock\nlua = %n.lua\n");
    write_file("$folder/vassals/$name.lua", "return function() return 200, {}, '$name' end\n");
}
write_file("$folder/emperor.ini", "[uwsgi]\nemperor = $folder/vassals\n");
statuses('an emperor',        0, 'IMPORT emperor.ini',                qr/^\[app[.]one\].*^\[app[.]two\]/ms, $all);
statuses('its command line',  0, "IMPORT uwsgi --emperor $folder/vassals", qr/^\[app[.]one\].*^\[app[.]two\]/ms, $all);
statuses('in files',          0, 'IMPORT -o empire.toml emperor.ini', $nothing, $all);
like content_of("$folder/two.app.toml"), qr{^\[app[.]two\]\nfile = "\Q$folder\E/vassals/two[.]lua"$}m, 'a file for each vassal';
statuses('which may not exist', 1, 'IMPORT -o empire.toml emperor.ini', $nothing, qr/empire[.]toml: the file exists/);
my $empire = Test::Oribi->run_on_socket("$folder/one.sock", $command, '-c', "$folder/empire.toml");
is curl('--unix-socket', "$folder/$_.sock", 'http://localhost/')->{body}, $_, "$_ has its socket" for qw(one two);
is $empire->stop, 0, 'the server ends';

write_file("$folder/nginx.conf", <<'END');
upstream shop { server 127.0.0.1:3000; server 127.0.0.1:3001; }
limit_req_zone $binary_remote_addr zone=all:1m rate=10r/s;
server { listen 127.0.0.1:8080; location / { proxy_pass http://shop; proxy_set_header Host $host; limit_req zone=all; } }
END
statuses('a proxy of nginx', 0, 'IMPORT -o nginx.toml nginx.conf', $nothing, $all);
my $checked = run({ folder => $folder }, 'bash', '-c', "'$command' check -c nginx.toml --changed; echo status \$?");
like $checked, qr{^  proxy +http://127[.]0[.]0[.]1:3000 .*^  proxy +http://127[.]0[.]0[.]1:3001 .*^status 0$}ms, 'oribi check accepts it';

statuses('no JSON',           2, 'IMPORT bad.json',       $nothing, qr/\Aoribi: bad[.]json:2:16: it is no JSON: /);
statuses('no known format',   2, 'IMPORT what.txt',       $nothing, qr/\Aoribi: what[.]txt: the format is not known; name it with --from: unit, /);
statuses('no file',           2, 'IMPORT none.conf',      $nothing, qr/\Aoribi: there is no file none[.]conf; /);
statuses('no server',         2, q{IMPORT 'ls -l'},       $nothing, qr/\Aoribi: command line: `ls` is no known server/);
statuses('a mistake in Ruby', 2, 'IMPORT bad.rb',         $nothing, qr/\Aoribi: bad[.]rb:2: RuntimeError: no$/m);
statuses('no ruby',           1, 'ORIBI_RUBY=/nonexistent IMPORT puma.rb', $nothing, qr{\Aoribi: cannot run /nonexistent, which reads puma[.]rb: });

statuses('a file to write', 0, 'IMPORT -o oribi.toml Procfile', $nothing, $all);
like content_of("$folder/oribi.toml"), qr/^workers = 3$/m, 'it is written';
statuses('a file to write behind the source', 0, 'IMPORT Procfile -o behind.toml', $nothing, $all);
like content_of("$folder/behind.toml"), qr/^workers = 3$/m, 'it is written, too';
statuses('a format behind the source', 0, 'IMPORT - --from procfile <Procfile', qr/^workers = 3$/m, $all);
statuses('a file that is there', 1, 'IMPORT -o oribi.toml Procfile', $nothing, qr/\Aoribi: cannot write oribi[.]toml: /);
done_testing;
