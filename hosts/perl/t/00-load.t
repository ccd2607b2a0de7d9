use strict;
use warnings;
use Test::More;

for my $module (qw(Oribi Oribi::Options Oribi::Mold Plack::Handler::Oribi Plack::Handler::EVHTP Plack::Handler::Cacilheiro Cacilheiro)) {
    require_ok $module;
}
like Cacilheiro->VERSION, qr/\A\d/, 'Cacilheiro has a version';
like Oribi::server_version(), qr/\A\d+[.]\d+[.]\d+/, 'the server has one too';

for my $handler (qw(Oribi EVHTP Cacilheiro)) {
    my $server = "Plack::Handler::$handler"->new(port => 1);
    can_ok $server, 'run';
}

done_testing;
