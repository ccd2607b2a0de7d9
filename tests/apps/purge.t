#!/usr/bin/perl
# Property: `oribi ctl purge` removes stored responses of all apps, of one, or of some URIs, in all edges, and says how many.
use v5.36;
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/../lib";
use JSON::PP       qw(decode_json);
use Test::FreePort qw(free_port);
use Test::Command  qw(run write_file);
use Test::More;
use Test::Oribi;

my $folder  = File::Temp->newdir;
my $control = "$folder/control.sock";
my $port    = free_port();

for my $name (qw(shop news)) {
    write_file("$folder/$name.lua",
        qq{return function(request) return 200, { ["Cache-Control"] = "max-age=600" }, "$name\\n" end\n});
}
sub route ($name) {
    my $route = qq([[route]]\nmatch = { path = "/$name*" }\napp = "$name"\ncache = true\n);
    return qq([app.$name]\nfile = "$name.lua"\nworkers = 1\n$route);
}
write_file("$folder/oribi.toml", <<~"TOML" . join q(), map { route($_) } qw(shop news));
    [server]
    control = "$control"
    edges = 2
    [[listen]]
    address = "127.0.0.1:$port"
    TOML
my $server = Test::Oribi->run_on_port($port, Test::Oribi::command(), '-c', "$folder/oribi.toml");

sub ctl (@order) { return (Test::Oribi::ctl($control, @order))[1] }

# What the cache did for a request on a connection of its own.
sub ask ($target, $host = "127.0.0.1:$port") {
    my $answer = run('curl', '-si', '-H', "Host: $host", "http://127.0.0.1:$port$target");
    return ($answer =~ /^Cache-Status: oribi; (.*?)\r$/m)[0];
}

# Asks until both edges have the response.
sub store ($target, @host) {
    my ($hits, $asked) = (0, 0);
    while ($hits < 20 && $asked++ < 1000) { $hits = ask($target, @host) =~ /hit/ ? $hits + 1 : 0 }
    return;
}

# The number of responses that an order has removed.
sub removed (@order) { return ctl('purge', @order) =~ /\Aremoved (\d+) responses?\n\z/ ? $1 : undef }

$server->wait_until(sub { ask('/shop') && ask('/news') && ctl('status') =~ /news: serving/ });
store($_) for qw(/shop /shop/1?a /shop/2 /news);
store('/shop', 'other.example');
my %all = (apps => removed());
cmp_ok $all{apps}, '>=', 5,  'all of them';
cmp_ok $all{apps}, '<=', 10, '... at most in both edges';
like ask('/shop'), qr/miss/, 'they are gone';
is removed(), 1, 'that one, too';

store($_) for qw(/shop /shop/1?a /shop/2 /news);
store('/shop', 'other.example');
is removed('/shop/3'), 0, 'there is no such response';
cmp_ok removed('/shop/1'), '>=', 1, 'a path, with each query';
cmp_ok removed('other.example/*'), '>=', 1, 'a host';
is ask('/shop'), ask('/shop'), 'the same target of another host is still stored';
like ask('/shop'), qr/hit/, '... as it was';
cmp_ok removed('127.0.0.1/shop*', '--app', 'news'), '==', 0, 'of another app';
cmp_ok removed('127.0.0.1/shop*'), '>=', 2, 'all that begin so';
cmp_ok decode_json(ctl('purge', '--app', 'news', '--json'))->{responses}, '>=', 1, 'those of an app, in JSON';
is removed(), 0, 'nothing is left';
cmp_ok decode_json(ctl('status', '--json'))->{counters}{cache_purged}, '>=', 10, 'they are counted';

sub failure (@order) {
    return run('sh', '-c', '"$@" 2>&1 || echo "status $?"', 'sh', Test::Oribi::command(), 'ctl', @order, '--control', $control);
}
like failure('purge', '--app', 'nobody'), qr/there is no app "nobody".*status 1/s, 'an unknown app';
like failure('purge', 'nonsense'), qr{expected HOST/PATH.*status 1}s, 'a target that is none';
like failure('purge', 'a b'), qr/a target has no spaces.*status 2/s, 'two words';
done_testing;
