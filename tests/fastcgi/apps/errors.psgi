# Complains on psgi.errors.

use v5.36;
use POSIX ();

my $kept;
my %complain = (
    '/'      => sub ($errors) { $errors->print('a complaint of ', "several parts\n"); printf {$errors} "%s\n", 'another' },
    '/large' => sub ($errors) { $errors->print('x' x 200_000, "\n") },
    '/text'  => sub ($errors) { binmode $errors, ':encoding(UTF-8)'; $errors->print("caf\x{e9}\n") },
    '/wait'  => sub ($errors) { $errors->autoflush(0); $errors->print("told "); $errors->print("at last\n"); $errors->flush },
    '/keep'  => sub ($errors) { $kept = $errors },
    '/late'  => sub ($errors) { $kept->print("too late\n") },
    '/child' => sub ($errors) {
        my $pid = fork // die "fork: $!";
        if ($pid == 0) {
            $errors->print("of a child\n");
            POSIX::_exit(0);
        }
        waitpid $pid, 0;
    },
);

sub ($env) {
    $complain{ $env->{PATH_INFO} }->($env->{'psgi.errors'});
    return [ 200, [], ['done'] ];
};
