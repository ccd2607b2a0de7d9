# Names files: the path of a request is /KIND/REST. The query is the name, as it is.
use v5.36;

my %field_of = (sendfile => 'X-Sendfile', accel => 'X-Accel-Redirect');

return sub ($env) {
    my (undef, $kind, $way) = split m{/}, $env->{PATH_INFO};
    return [200, ['Content-Type' => 'text/plain'], ["app\n"]] if !$field_of{$kind // ''};
    my @fields = (
        'Content-Type' => 'text/x-own', 'Set-Cookie' => 'a=1', 'Cache-Control' => 'private', 'Content-Disposition' => 'attachment',
        $field_of{$kind} => $env->{QUERY_STRING},
    );
    return [200, [@fields, 'ETag' => '"own"'], ['not wanted']] if $way eq 'tagged';
    return [201, \@fields, ['not wanted']] if $way eq 'created';
    return [200, [@fields, 'Content-Length' => 10], ['not wanted']] if $way eq 'length';
    return [200, [@fields[2 .. $#fields]], []] if $way eq 'untyped';
    return [200, \@fields, do { open my $in, '<', __FILE__; $in }] if $way eq 'handle';
    return sub ($respond) { $respond->([200, \@fields, ['not wanted']]) } if $way eq 'later';
    return sub ($respond) {
        my $writer = $respond->([200, \@fields]);
        $writer->write('not wanted') for 1 .. 3;
        $writer->close;
    } if $way eq 'stream';
    return [200, \@fields, ['not wanted']];
};
