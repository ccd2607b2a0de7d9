#!/usr/bin/perl
# Property: the sample apps that come with Orbit can be read and written to, straight from oribi and behind nginx by FastCGI.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use Cwd        ();
use File::Copy qw(copy);
use File::Temp ();
use Test::Curl;
use Test::More;
use Test::Oribi;
use Test::WebServer::Nginx;

my $samples = '/usr/share/doc/lua-orbit';

# A copy of the blog with a database that has one post, and the cache that its configuration names.
sub blog () {
    my $folder = File::Temp->newdir;
    for my $file (glob "$samples/blog/*") {
        copy($file, "$folder") or die "$file: $!";
    }
    # The sample names the wrong variable for its cache, and does not name the prefix of its tables; so plain lua5.1 cannot load
    # it either.
    my $app = content_of("$folder/blog.lua") =~ s/= orbit\.cache\.new/= orcache.new/r =~ s/orbit\.new\(\)/orbit.new("blog")/r;
    open my $out, '>', "$folder/blog.lua" or die "blog.lua: $!";
    print {$out} $app;
    close $out or die "blog.lua: $!";
    mkdir "$folder/page_cache" or die "page_cache: $!";
    my $post = q{insert into blog_post (title, body, n_comments, published_at) values ('First', 'Hello *there*', 0, '2025-06-15 12:00:00')};
    for my $command (".read $folder/blog_schema.sql", $post) {
        system('sqlite3', "$folder/blog.db", $command) == 0 or die 'sqlite3 failed';
    }
    return $folder;
}

sub reads_and_writes ($url) {
    my $page = curl("$url/");
    is $page->{status}, 200, 'the first page is there';
    like $page->{body}, qr{<em>there</em>}, 'with the post, made from its markdown';
    like body_of("$url/post/1"), qr/New comment/, 'the post has a form';
    my @comment = map { ('--data-urlencode', $_) } "comment=It is **fine**, Zo\xc3\xab", 'author=Ada', 'email=', 'url=';
    is curl(@comment, "$url/post/1/addcomment")->{status}, 302, 'which is sent';
    like body_of("$url/post/1"), qr{<strong>fine</strong>, Zo\xc3\xab.*Written by Ada}s, 'and read again';
    my $style = curl("$url/style.css");
    is $style->{status}, 200, 'a file of the app';
    is length $style->{body}, -s "$samples/blog/style.css", 'is whole';
    is curl("$url/nowhere")->{status}, 404, 'another page is not there';
    return;
}

my $here = Cwd::getcwd();
for my $way ('start', 'start_fastcgi') {
    my $folder = blog();
    chdir "$folder" or die "$folder: $!";
    my $server = Test::Oribi->$way('blog.ws', '--workers', 2);
    my $nginx  = $way eq 'start' ? undef : Test::WebServer::Nginx->before($server);
    subtest "the blog, $way" => sub { reads_and_writes(($nginx // $server)->url) };
    is $nginx->stop, 0, 'nginx ends' if $nginx;
    is $server->stop, 0, 'oribi ends with status 0';
    chdir $here or die "$here: $!";
}

# A launcher that returns a function, with templates of cosmo, which are parsed by lpeg.
my $server = Test::Oribi->start("$samples/songs/songs.ws", '-I', "$samples/songs");
like body_of($server->url . '/'), qr{<td>Lovely Rita</td>}, 'the songs';
is $server->stop, 0, 'oribi ends with status 0';

done_testing;
