# The shop of several apps in one server: see ../oribi.toml.

use strict;
use warnings;

my $app = sub {
    my ($env) = @_;
    my $text = "$ENV{SHOP_NAME}: SCRIPT_NAME=$env->{SCRIPT_NAME} PATH_INFO=$env->{PATH_INFO}\n";
    return [200, ['Content-Type' => 'text/plain; charset=utf-8'], [$text]];
};
