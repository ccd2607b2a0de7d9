package Oribi::Mold;
use strict;
use warnings;
use File::Spec ();
use Oribi      ();

sub main {
    my ($class, @words) = @_;
    my $check = @words && $words[0] eq '--check' && shift @words;
    my ($file, @settings) = @words;
    if (!defined $file) {
        print {*STDERR} "usage: [--check] APP [NAME=VALUE...]\n";
        return 1;
    }
    # A server runs deployed apps; plackup is for development.
    local $ENV{PLACK_ENV} = $ENV{PLACK_ENV} || 'deployment';
    my $is_pagi = _is_pagi($file, @settings);
    my $app     = eval { my $loaded = load($file); $is_pagi ? _pagi($loaded) : $loaded };
    if (!$app) {
        my $error = $@;
        chomp $error;
        Oribi::load_failed($error) if !$check;
        print {*STDERR} "cannot load $file: $error\n";
        return 1 if $check || !_shows_errors(@settings);
        $app = _error_page("cannot load $file: $error");
        # Also answers this with 500.
        push @settings, 'boot-request=off';
    }
    return 0 if $check;
    $app = _with_traces($app) if $ENV{PLACK_ENV} eq 'development' && !$is_pagi;
    my $status = eval {
        # The command has its own defaults, so nothing is added to the settings that it passes.
        my $options = Oribi::Options->bare('command line');
        for my $setting (@settings) {
            my ($name, $value) = split /=/, $setting, 2;
            $options->set($name, defined $value ? $value : q{});
        }
        $options->serve($app);
    };
    return $status if defined $status;
    print {*STDERR} $@;
    return 1;
}

# The setting decides, or the name of the file.
sub _is_pagi {
    my ($file, @settings) = @_;
    my ($interface) = map { /\Ainterface=(.*)/s } reverse @settings;
    return lc $interface eq 'pagi' if defined $interface && lc $interface ne 'auto';
    return $file =~ /[.]pagi\z/;
}

sub _pagi {
    my ($app) = @_;
    if (!eval { require Oribi::PAGI; 1 }) {
        my $missing = $@ =~ m{\ACan't locate (?:IO/Async|Future)} ? 'PAGI apps need the modules IO::Async and Future: ' : q{};
        die "$missing$@";
    }
    return Oribi::PAGI->wrap($app);
}

# In development plackup shows where an app has died. Without Plack, or without what shows it, the app is as it was.
sub _with_traces {
    my ($app) = @_;
    my $wrapped = eval { require Plack::Middleware::StackTrace; Plack::Middleware::StackTrace->wrap($app) };
    return $wrapped || $app;
}

# Whether a developer's browser, which will reload after a change of the file, is to see why the app cannot be loaded.
sub _shows_errors {
    my @settings = @_;
    return $ENV{PLACK_ENV} eq 'development' && grep { $_ eq 'reload=on' } @settings;
}

# An app that reports why the other one cannot be loaded.
sub _error_page {
    my ($error) = @_;
    my %escaped = (q{&} => '&amp;', q{<} => '&lt;', q{>} => '&gt;', q{"} => '&quot;', q{'} => '&#39;');
    $error =~ s/([&<>"'])/$escaped{$1}/g;
    utf8::encode($error) if utf8::is_utf8($error);
    my $page
        = qq{<!DOCTYPE html>\n<meta charset="utf-8">\n<title>The app cannot be loaded</title>\n<h1>The app cannot be loaded</h1>\n}
        . "<pre>$error</pre>\n<p>It is loaded again when one of its files changes.</p>\n";
    my @fields = (
        'Content-Type'           => 'text/html; charset=utf-8',
        'Content-Length'         => length $page,
        'Cache-Control'          => 'no-store',
        'X-Content-Type-Options' => 'nosniff',
    );
    return sub { return [500, [@fields], [$page]] };
}

sub load {
    my ($file) = @_;
    my $app = eval { require Plack::Util; 1 } ? Plack::Util::load_psgi($file) : _load_file($file);
    die "it returned no code reference\n" if !ref $app;
    return $app;
}

# Compiles the file in a package of its own, as Plack does, so that two apps with the same names do not collide.
sub _load_file {
    my ($file) = @_;
    my $path = File::Spec->rel2abs($file);
    local $0    = $path;
    local @ARGV = ();
    my $app = eval 'package Oribi::Sandbox; do $path';    ## no critic (ProhibitStringyEval) -- for the package
    die $@ if $@;
    die "$!\n" if !defined $app;
    return $app;
}

1;

__END__

=head1 NAME

Oribi::Mold - the program that the oribi command runs

=head1 SYNOPSIS

    perl -MOribi::Mold -e 'exit Oribi::Mold->main(@ARGV)' -- app.psgi workers=4 listen=127.0.0.1:5000
    perl -MOribi::Mold -e 'exit Oribi::Mold->main(@ARGV)' -- --check app.psgi

=head1 DESCRIPTION

Loads an app, with L<Plack::Util> if it is there, and serves it with the settings that follow. With C<--check> it is only loaded:
the exit status is 0, or 1 with the reason on standard error. C<PLACK_ENV> is C<deployment> unless it is set; if it is
C<development>, L<Plack::Middleware::StackTrace> shows exceptions of the app, as under plackup.

=cut
