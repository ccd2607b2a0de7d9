#!/usr/bin/perl
# Property: `make book` makes a book that has every page of docs/ and every picture, whose links all lead to something in it,
# and whose search finds words of each part.

use v5.36;
use File::Find ();
use File::Spec::Functions qw(abs2rel);
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/../lib";
use JSON::PP qw(decode_json);
use Test::Command qw(runs);
use Test::Files qw(content_of);
use Test::More;
use Test::Oribi;

my $root   = Test::Oribi::root();
my $folder = File::Temp->newdir;
my $book   = "$folder/book";
runs('the book is made', "$root/setup/book/build", $book) or BAIL_OUT('there is no book');

# The files below a folder, as paths from there.
sub files ($top) {
    my @files;
    File::Find::find({ no_chdir => 1, wanted => sub { push @files, abs2rel($File::Find::name, $top) if -f } }, $top);
    @files = sort @files;
    return @files;
}

my %there = map { $_ => 1 } files($book);
my @pages = grep {/[.]html\z/} sort keys %there;
my %html  = map { $_ => content_of("$book/$_") } @pages;

# mdBook calls a README the index of its folder.
my @sources = map { "docs/$_" } files("$root/docs");
my @missing = grep { !$there{ s/README[.]md\z/index.md/r =~ s/[.]md\z/.html/r } } @sources;
is_deeply \@missing, [], 'it has every page and every picture of docs/';
my @not_listed = grep { /[.]md\z/ && !listed($_) } @sources;
is_deeply \@not_listed, [], 'and its table of contents lists every page';

sub listed ($source) {
    my $page = $source =~ s/README[.]md\z/index.md/r =~ s/[.]md\z/.html/r;
    return $html{'toc.html'} =~ /href="\Q$page\E"/;
}

my $list = content_of("$root/docs/README.md");
my @beside = map { m{\Adocs/((?!README)[^/]+[.]md)\z} } @sources;
is_deeply [grep { $list !~ /\(\Q$_\E\)/ } @beside], [], 'docs/README.md lists each page beside it';
my @parts = $html{'toc.html'} =~ /class="part-title">([^<]+)</g;
my @topics = $list =~ /^[*]{2}(.+)[*]{2}$/gm;
is_deeply [@parts[0 .. $#topics]], \@topics, 'its parts are the topics of docs/README.md';

# The ids of each page, and what its links and pictures name.
my %ids = map { my $page = $_; $page => { map { $_ => 1 } $html{$page} =~ /\sid="([^"]+)"/g } } @pages;
my ($links, $fragments) = (0, 0);
my @broken = map { broken_links($_) } @pages;
is_deeply \@broken, [], 'no link is broken' or diag explain \@broken;
cmp_ok $links, '>', 1000, 'and there are links';
cmp_ok $fragments, '>', 100, 'also to headings';

sub broken_links ($page) {
    my @broken;
    for my $target ($html{$page} =~ /\s(?:href|src|srcset)="([^"]*)"/g) {
        next if $target =~ /\A(?:[a-z]+:|\z)/;
        my ($path, $fragment) = split /#/, $target, 2;
        my $file = $path eq q() ? $page : resolved($page, $path);
        $links++;
        if (!$there{$file}) { push @broken, "$page: $target"; next }
        next if !length($fragment // q());
        $fragments++;
        push @broken, "$page: $target: no such heading" if !$ids{$file}{$fragment};
    }
    return @broken;
}

# The file that a link of a page names.
sub resolved ($page, $path) {
    my @parts = split m{/}, $page;
    pop @parts;
    for (split m{/}, $path) {
        if    ($_ eq q(..)) { pop @parts }
        elsif ($_ ne q(.))  { push @parts, $_ }
    }
    return join q(/), @parts;
}

# The index, as the page's script loads it: elasticlunr's tree of letters, with the documents at the end of each word.
my ($index) = grep {/\Asearchindex-\w+[.]js\z/} keys %there;
my ($json)  = content_of("$book/$index") =~ /JSON[.]parse\('(.*)'\)/s;
my $search  = decode_json($json =~ s/\\(['\\])/$1/gr);
for (qw(proxi:proxies kubernet:kubernetes epol:io-models mold:processes)) {
    my ($stem, $page) = (s/:.*//r, 'docs/' . s/.*://r . '.html');
    ok scalar(grep {/\A\Q$page\E(?:#|\z)/} found($stem)), "the search for `$stem` finds $page";
}
is_deeply [found('zyzzyva')], [], 'and nothing for a word that is in no page';

# The addresses of the pages in which a stem is.
sub found ($stem) {
    my $node = $search->{index}{index}{body}{root};
    for my $letter (split //, $stem) { $node = $node->{$letter} // return }
    return map { $search->{doc_urls}[$_] } keys %{ $node->{docs} };
}

done_testing;
