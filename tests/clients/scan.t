#!/usr/bin/perl
# Property: a scanner of TLS finds nothing at an encrypted address with the settings that Oribi has by itself.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use JSON::PP ();
use Test::Clients;
use Test::Curl;
use Test::More;
use Test::Oribi;

my $site   = start_for_clients('app.lua', '--workers', 1);
my ($port) = $site->{https} =~ /:(\d+)\z/;
my $file   = "$site->{folder}/scan.json";
my $said   = output_of(Test::Oribi::root() . '/target/tools/bin/sslyze', '--json_out', $file, "127.0.0.1:$port");
my ($scan) = JSON::PP->new->decode(content_of($file))->{server_scan_results}->@*;
my $found  = $scan->{scan_result};

my %ended = map { $_ => $found->{$_}{status} } keys %$found;
is_deeply([grep { $ended{$_} eq 'ERROR' } sort keys %ended], [], 'every scan comes to an end') or diag($said);

sub suites ($version) { return map { $_->{cipher_suite}{openssl_name} } $found->{"${version}_cipher_suites"}{result}{accepted_cipher_suites}->@* }

is_deeply([map { suites($_) } qw(ssl_2_0 ssl_3_0 tls_1_0 tls_1_1)], [], 'old versions are not spoken');
is_deeply([sort(suites('tls_1_3'))], [qw(TLS_AES_128_GCM_SHA256 TLS_AES_256_GCM_SHA384 TLS_CHACHA20_POLY1305_SHA256)], 'TLS 1.3');
is_deeply(
    [sort(suites('tls_1_2'))],
    [qw(ECDHE-ECDSA-AES128-GCM-SHA256 ECDHE-ECDSA-AES256-GCM-SHA384 ECDHE-ECDSA-CHACHA20-POLY1305)],
    'TLS 1.2: suites with forward secrecy',
);
ok(!$found->{tls_compression}{result}{supports_compression},            'nothing is compressed');
ok(!$found->{tls_1_3_early_data}{result}{supports_early_data},          'there is no early data');
ok(!$found->{heartbleed}{result}{is_vulnerable_to_heartbleed},          'Heartbleed');
ok(!$found->{openssl_ccs_injection}{result}{is_vulnerable_to_ccs_injection}, 'CCS injection');
like($found->{robot}{result}{robot_result}, qr/^NOT_VULNERABLE/, 'ROBOT');
ok($found->{tls_fallback_scsv}{result}{supports_fallback_scsv},         'nobody is led down to an older version');
ok(!$found->{session_renegotiation}{result}{is_vulnerable_to_client_renegotiation_dos}, 'clients cannot renegotiate');
ok($found->{session_renegotiation}{result}{supports_secure_renegotiation}, 'and are told so');
ok($found->{tls_extended_master_secret}{result}{supports_ems_extension}, 'the extended master secret');
my ($verdict) = $said =~ /Checking results against Mozilla's "intermediate" configuration(.*)/s;
is_deeply([($verdict // q()) =~ /^ +\* (\w+):/mg], ['certificate_path_validation'], "by Mozilla's rules only nobody vouches for the certificate")
    or diag($said);

# A client that supports none of the certificates gets the alert that scanners and users expect.
for my $client ([qw(-tls1_2 -cipher ECDHE-RSA-AES128-GCM-SHA256)], [qw(-tls1_3 -sigalgs RSA-PSS+SHA256)]) {
    my $told = output_of('openssl', 's_client', '-connect', "127.0.0.1:$port", @$client);
    like($told, qr/alert handshake failure/, "@$client");
}

done_testing;
