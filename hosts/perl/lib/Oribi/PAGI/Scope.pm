package Oribi::PAGI::Scope;
use strict;
use warnings;

our $VERSION = '0.1.0';

# The version of the specification.
use constant SPECIFICATION => '0.3';

my %TLS_VERSION = ('TLSv1.2' => 0x0303, 'TLSv1.3' => 0x0304);

# Cipher suites by OpenSSL's names: those that Oribi offers.
my %CIPHER_SUITE = (
    'TLS_AES_128_GCM_SHA256'        => 0x1301,
    'TLS_AES_256_GCM_SHA384'        => 0x1302,
    'TLS_CHACHA20_POLY1305_SHA256'  => 0x1303,
    'ECDHE-ECDSA-AES128-GCM-SHA256' => 0xC02B,
    'ECDHE-ECDSA-AES256-GCM-SHA384' => 0xC02C,
    'ECDHE-RSA-AES128-GCM-SHA256'   => 0xC02F,
    'ECDHE-RSA-AES256-GCM-SHA384'   => 0xC030,
    'ECDHE-RSA-CHACHA20-POLY1305'   => 0xCCA8,
    'ECDHE-ECDSA-CHACHA20-POLY1305' => 0xCCA9,
);

# Returns the scope of a request.
sub of {
    my ($type, $env, $state) = @_;
    my ($version) = $env->{SERVER_PROTOCOL} =~ m{\AHTTP/(\d(?:[.]\d)?)\z};
    $version = '2' if defined $version && $version eq '2.0';
    my $path = $env->{SCRIPT_NAME} . $env->{PATH_INFO};
    my ($target) = $env->{REQUEST_URI} =~ m{\A(?:[A-Za-z][A-Za-z0-9+.-]*://[^/?]*)?([^?]*)};
    my %scope = (
        type         => $type,
        pagi         => { version => SPECIFICATION, spec_version => SPECIFICATION },
        http_version => $version // '1.1',
        method       => $env->{REQUEST_METHOD},
        scheme       => $env->{'psgi.url_scheme'},
        path         => _text($path),
        raw_path     => $target,
        query_string => $env->{QUERY_STRING} // q{},
        root_path    => _text($env->{SCRIPT_NAME}),
        headers      => _fields($env),
        extensions   => {},
    );
    $scope{client} = [$env->{REMOTE_ADDR}, $env->{REMOTE_PORT} + 0] if defined $env->{REMOTE_ADDR} && $env->{REMOTE_PORT};
    $scope{server} = [$env->{SERVER_NAME}, $env->{SERVER_PORT} + 0] if defined $env->{SERVER_NAME} && $env->{SERVER_PORT};
    $scope{state}  = { %{$state} } if $state;
    $scope{extensions}{tls} = _tls($env) if defined $env->{SSL_PROTOCOL};
    return \%scope;
}

# Decodes bytes; those that are not UTF-8 stay as they are.
sub _text {
    my ($bytes) = @_;
    utf8::decode($bytes);
    return $bytes;
}

sub _fields {
    my ($env) = @_;
    my @fields;
    for my $key (sort keys %{$env}) {
        next if $key !~ /\A(?:HTTP_|CONTENT_(?:TYPE|LENGTH)\z)/ || !defined $env->{$key} || ref $env->{$key};
        my $name = lc $key;
        $name =~ s/\Ahttp_//;
        $name =~ tr/_/-/;
        push @fields, [$name, $env->{$key}] if length $env->{$key} || $key =~ /\AHTTP_/;
    }
    return \@fields;
}

sub _tls {
    my ($env) = @_;
    my $verified    = $env->{SSL_CLIENT_VERIFY};
    my $certificate = $env->{SSL_CLIENT_CERT};
    return {
        server_cert       => undef,
        client_cert_chain => defined $certificate && length $certificate ? [$certificate] : [],
        client_cert_name  => $env->{SSL_CLIENT_S_DN},
        client_cert_error => defined $verified && $verified !~ /\A(?:SUCCESS|NONE)\z/ ? $verified : undef,
        tls_version       => $TLS_VERSION{ $env->{SSL_PROTOCOL} },
        cipher_suite      => $CIPHER_SUITE{ $env->{SSL_CIPHER} // q{} },
    };
}

1;

__END__

=head1 NAME

Oribi::PAGI::Scope - the scope of a request, from the environment of PSGI

=cut
