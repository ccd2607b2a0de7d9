#!/usr/bin/perl
# Property: with deploy/compose.yaml an app serves and ends in good order without any right: as a user that is not root, without
# capabilities, on a file system that it can only read, but for /tmp. nginx in front reports its clients. There is no container
# program here: the command and nginx's site are those of the file, in namespaces that are set up as it says. Needs root.

use v5.36;
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/../lib";
use JSON::PP qw(decode_json);
use Test::Command qw(run);
use Test::Curl;
use Test::Files qw(write_file);
use Test::More;
use Test::Oribi;

# The namespaces begin here, and everything in them ends with this process, however it ends.
if (!$ENV{ORIBI_TEST_MACHINES}) {
    local $ENV{ORIBI_TEST_MACHINES} = 'here';
    my @unshare = qw(unshare --mount --net --pid --fork --kill-child --mount-proc);
    exec @unshare, $^X, $0, @ARGV or die "unshare: $!";
}

my $ruby     = $ENV{RUBY} // '/usr/bin/ruby';
my $compose  = "$FindBin::Bin/../../deploy/compose.yaml";
my $services = decode_json(run($ruby, '-ryaml', '-rjson', '-e', 'print JSON.dump(YAML.load_file(ARGV[0]))', $compose));
my $app      = $services->{services}{app};
my $folder   = File::Temp->newdir;

# Mounts are below /run alone, which is memory of these namespaces, and never in a folder that is removed with its contents, as
# those of File::Temp are: that would remove files of the machine.
run('mount', '-t', 'tmpfs', 'tmpfs', '/run');

# The addresses of the network, and the name of the service in it.
run(qw(ip link set lo up));
run(qw(ip address add 10.1.2.3/32 dev lo));
write_file('/run/hosts', "127.0.0.1 localhost\n10.1.2.3 app\n");
run('mount', '--bind', '/run/hosts', '/etc/hosts');

# The root of the container: this machine's, which can only be read, with this checkout in /mnt, and devices of its own.
my $root = '/run/root';
mkdir $root or die "$root: $!";
run('mount', '--bind', q(/), $root);
run('mount', '-o', 'remount,bind,ro', $root);
run('mount', '--bind', Test::Oribi::root(), "$root/mnt");
run('mount', '-o', 'remount,bind,ro', "$root/mnt");
run('mount', '-t', 'proc', 'proc', "$root/proc");
run('mount', '-t', 'tmpfs', '-o', 'mode=755', 'tmpfs', "$root/dev");
run('mknod', '-m', '666', "$root/dev/$_->[0]", 'c', 1, $_->[1]) for [null => 3], [urandom => 9];
ok $app->{read_only}, 'the file system is one that can only be read';
for my $mount (@{ $app->{tmpfs} }) {
    my ($place, $options) = split /:/, $mount;
    run('mount', '-t', 'tmpfs', '-o', $options, 'tmpfs', "$root$place");
}

my $oribi = Test::Oribi->run_on_port(8080, container(@{ $app->{entrypoint} }, @{ $app->{command} }));
like answer('http://127.0.0.1:8080/'), qr/\A127[.]0[.]0[.]1 http 0 0\n\z/, 'the app answers, and may write nowhere';
my $large = random_file(3 << 20);
like answer('--data-binary', '@' . $large->filename, 'http://127.0.0.1:8080/'), qr/ 3145728 0\n\z/, 'large contents go to /tmp';
is curl('http://127.0.0.1:8080/healthz')->{status}, 200, 'the probe answers';
like run(container('oribi', 'ctl', 'status')), qr/workers/, 'oribi ctl finds the server';

my $nginx = nginx($services->{configs}{site}{content});
my @lies  = map { ('--header', $_) } 'X-Forwarded-For: 192.0.2.1', 'Forwarded: for=192.0.2.2', 'X-Forwarded-Host: evil.example';
is answer(@lies, 'http://127.0.0.1/'), "127.0.0.1 http 0 0\n", 'nginx reports its client, which cannot lie';
like answer('--data-binary', '@' . $large->filename, 'http://127.0.0.1/'), qr/ 3145728 0\n\z/, 'and passes on large contents';

is $oribi->stop, 0, 'TERM ends it with status 0';
is_deeply [$oribi->complaints], [], 'without a complaint';

done_testing;

# A command as the container runs it.
sub container (@command) {
    my ($user, $group) = split /:/, $app->{user};
    my @rights = ('setpriv', '--reuid', $user, '--regid', $group, '--clear-groups');
    push @rights, '--bounding-set', '-all', '--inh-caps', '-all' if $app->{cap_drop}[0] eq 'ALL';
    push @rights, '--no-new-privs' if $app->{security_opt}[0] eq 'no-new-privileges:true';
    my @environment = ('env', '-i', '--chdir=/mnt/tests/deploy/compose', 'PATH=/mnt/target/bin:/usr/bin:/bin');
    return ('chroot', $root, @environment, @rights, @command);
}

# The nginx of the image reads its sites within such a file.
sub nginx ($site) {
    write_file("$folder/site.conf", $site =~ s/[\$]{2}/\$/gr);
    write_file("$folder/nginx.conf", <<~"NGINX");
        user root;
        daemon off;
        pid $folder/nginx.pid;
        events { worker_connections 64; }
        http {
            access_log off;
            client_body_temp_path $folder/body;
            proxy_temp_path $folder/proxy;
            fastcgi_temp_path $folder/fastcgi;
            uwsgi_temp_path $folder/uwsgi;
            scgi_temp_path $folder/scgi;
            include $folder/site.conf;
        }
        NGINX
    return Test::Oribi->run_on_port(80, '/usr/sbin/nginx', '-p', "$folder", '-c', "$folder/nginx.conf", '-e', 'stderr');
}

sub answer (@arguments) { return curl(@arguments)->{body} }
