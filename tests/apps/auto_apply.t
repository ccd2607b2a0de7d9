#!/usr/bin/perl
# Property: with auto-apply, a server applies changes of its file and of the files that it includes by themselves: an app
# starts, is loaded again or ends. Files may be renamed into place, links swapped, and directories may appear later. A file
# with a mistake changes nothing, and the log says so once.
use v5.36;
use File::Path qw(make_path remove_tree);
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::FreePort qw(free_port);
use Test::Command  qw(run write_file);
use Test::More;
use Test::Oribi;

my $folder  = File::Temp->newdir;
my $control = "$folder/control.sock";
my $port    = free_port();
make_path(map { "$folder/$_" } qw(apps releases/1 releases/2));
write_file("$folder/app.lua",
    qq{return function(request) return 200, { ["Content-Type"] = "text/plain" }, os.getenv("SAYS") .. "\\n" end\n});
write_file("$folder/broken.lua", qq{error("the database is down")\n});

# The file of an app that says something, at the path of its name.
sub app ($name, $says, $file = 'app.lua') {
    return <<~"TOML";
        [app.$name]
        file = "$folder/$file"
        workers = 1
        environment = { SAYS = "$says" }
        [[route]]
        match = { path = "/$name*" }
        app = "$name"
        TOML
}

sub site ($more = q()) {
    write_file("$folder/oribi.toml", <<~"TOML" . app('main', 'main') . $more);
        include = ["apps/*.toml", "current/*.toml", "later/*/app.toml"]
        [server]
        control = "$control"
        auto-apply = true
        [[listen]]
        address = "127.0.0.1:$port"
        TOML
    return;
}
site();
symlink 'releases/1', "$folder/current" or die "symlink: $!\n";
my $server = Test::Oribi->run_on_port($port, Test::Oribi::command(), '-c', "$folder/oribi.toml");

sub page ($path) { return run('curl', '-s', "http://127.0.0.1:$port/$path") }
sub status ($path) { return run('curl', '-s', '-o', '/dev/null', '-w', '%{http_code}', "http://127.0.0.1:$port/$path") }
sub becomes ($path, $says, $name) {
    return ok $server->wait_until(sub { page($path) eq "$says\n" }), $name;
}
sub ends ($path, $name) { return ok $server->wait_until(sub { status($path) == 404 }), $name }
sub lines ($pattern) { return scalar(() = $server->log_text =~ /$pattern/g) }

# Writes a file as editors do.
sub replace ($path, $text) {
    write_file("$path.new", $text);
    rename "$path.new", $path or die "rename: $!\n";
    return;
}
becomes('main', 'main', 'the server serves');

subtest 'files come, change and go' => sub {
    write_file("$folder/apps/wiki.toml", app('wiki', 'one'));
    becomes('wiki', 'one', 'an app starts');
    replace("$folder/apps/wiki.toml", app('wiki', 'two'));
    becomes('wiki', 'two', 'it is loaded again');
    unlink "$folder/apps/wiki.toml" or die "unlink: $!\n";
    ends('wiki', 'it ends');
    site(qq([[route]]\nmatch = { path = "/fixed" }\nrespond = { status = 200, content = "fixed\\n" }\n));
    becomes('fixed', 'fixed', 'a route of the file itself');
    is page('main'), "main\n", 'the other app serves';
    return;
};

subtest 'a deployment swaps a link' => sub {
    write_file("$folder/releases/1/shop.toml", app('shop', 'release 1'));
    becomes('shop', 'release 1', 'a file behind a link');
    write_file("$folder/releases/2/shop.toml", app('shop', 'release 2'));
    symlink 'releases/2', "$folder/next" or die "symlink: $!\n";
    rename "$folder/next", "$folder/current" or die "rename: $!\n";
    becomes('shop', 'release 2', 'the link leads elsewhere');
    write_file("$folder/releases/2/shop.toml", app('shop', 'release 2.1'));
    becomes('shop', 'release 2.1', 'a file there changes');
    return;
};

subtest 'directories appear later' => sub {
    make_path("$folder/later/blog");
    write_file("$folder/later/blog/app.toml", app('blog', 'one'));
    becomes('blog', 'one', 'an app starts');
    write_file("$folder/later/blog/app.toml", app('blog', 'two'));
    becomes('blog', 'two', 'it is loaded again');
    remove_tree("$folder/later");
    ends('blog', 'it ends with its directory');
    make_path("$folder/later/blog");
    write_file("$folder/later/blog/app.toml", app('blog', 'three'));
    becomes('blog', 'three', 'and starts with it');
    return;
};

subtest 'mistakes' => sub {
    my $mistake = qr/has changed and was not applied, and nothing has changed: .*unknown option `colour`/;
    write_file("$folder/apps/wrong.toml", qq([app.wrong]\nfile = "$folder/app.lua"\ncolour = 1\n));
    ok $server->wait_until(sub { lines($mistake) }), 'the log has the mistake';
    is page('shop'), "release 2.1\n", 'the apps serve';
    my $failure = qr/the file was not applied, and nothing has changed: wrong: .*the database is down/;
    write_file("$folder/apps/wrong.toml", app('wrong', 'x', 'broken.lua'));
    ok $server->wait_until(sub { lines($failure) }), 'an app that does not load';
    # A file that is not watched, one that is written again, and a change behind it.
    write_file("$folder/other.toml", 'x');
    write_file("$folder/apps/wrong.toml", app('wrong', 'right'));
    becomes('wrong', 'right', 'it is mended');
    is_deeply [map { lines($_) } $mistake, $failure], [1, 1], 'each was logged once';
    return;
};

subtest 'the next server watches, too' => sub {
    my $said = run(Test::Oribi::command(), 'ctl', 'upgrade', '--control', $control);
    like $said, qr/has taken over/, 'an upgrade';
    write_file("$folder/apps/wiki.toml", app('wiki', 'three'));
    becomes('wiki', 'three', 'an app starts');
    return;
};

done_testing;
