#!/usr/bin/perl
# Property: the images serve an app of each language as docs/containers.md says: as user 10001, without capabilities, on a file
# system that they can only read, but for /tmp, with Oribi as process 1. The Dockerfiles and the options of `docker run` are
# those of that page; buildah and runc do what they say, in namespaces that end with this test. Needs root.
#
# ORIBI_TEST_IMAGES names the images, as in "perl lua"; by default, all four are built. With ORIBI_IMAGES_BUILT=1, those that
# packages/images/build has built are tested.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/../lib";
use File::Temp ();
use JSON::PP qw(decode_json encode_json);
use POSIX ();
use Test::Command qw(run);
use Test::Curl;
use Test::Files qw(write_file);
use Test::More;
use Test::Oribi;

my $root = Test::Oribi::root();
chdir $root or die "$root: $!";
my %APP    = (perl => 'app.psgi', ruby => 'config.ru', lua => 'app.lua');
my @images = split q( ), $ENV{ORIBI_TEST_IMAGES} // 'perl ruby lua all';

# The namespaces begin after the builds, which need a network, and everything in them ends with this process.
if (!$ENV{ORIBI_TEST_MACHINES}) {
    prepare();
    local $ENV{ORIBI_TEST_MACHINES} = 'here';
    my @unshare = qw(unshare --mount --net --pid --fork --kill-child --mount-proc);
    exec @unshare, $^X, $0, @ARGV or die "unshare: $!";
}

my ($simple, $modules, @others) = dockerfiles();
my %option = docker_run();
my $folder = File::Temp->newdir;
my $large  = random_file(3 << 20);

# Mounts are below /run alone, which is memory of these namespaces, and never in a folder that is removed with its contents.
run('mount', '-t', 'tmpfs', 'tmpfs', '/run');
run(qw(ip link set lo up));
my @buildah = ('buildah', '--storage-driver', 'overlay', '--root', "$root/target/images/storage", '--runroot', '/run/images');
my @runc    = qw(runc --root /run/runc);
my $number  = 0;

ok $modules && !@others, 'the page has two Dockerfiles';
subtest "oribi:$_" => \&serves, $_ for @images;
subtest 'oribi:all serves each language' => \&serves_each if grep { $_ eq 'all' } @images;
subtest 'without a /tmp that can be written' => \&serves_without_tmp, $images[0];
if (grep { $_ eq 'perl' } @images) {
    subtest 'modules that root adds' => sub {
        my $container = container('oribi-test-modules');
        is answer('/'), "perl first 10001 0 0\n", 'the app answers';
        like run(inside($container, 'perl', '-MPlack', '-e', 'print "Plack $Plack::VERSION"')), qr/\APlack /, 'with them';
        is ended($container), 0, 'and ends';
    };
}
run(@buildah, 'rm', '--all');
run(@buildah, 'rmi', map {"oribi-test-$_"} grep { $_ ne 'modules' || "@images" =~ /perl/ } @images, 'modules');
done_testing;

sub serves ($image) {
    my $context   = context($image, $simple);
    run(@buildah, 'bud', '--pull-never', '--format', 'docker', '--tag', "oribi-test-$image", $context);
    my $language  = $image eq 'all' ? 'ruby' : $image;
    my $container = container("oribi-test-$image", $image eq 'all' ? $APP{ruby} : ());
    my ($oribi, $config, $first) = @$container{qw(oribi config first)};
    is $config->{User}, '10001:10001', 'the user is a number';
    like $config->{Labels}{'org.opencontainers.image.version'}, qr/\A\d/, 'a label has the version';

    my ($test, @health) = $config->{Healthcheck}{Test}->@*;
    is $test, 'CMD', 'the health check is a command';
    my $health = sub { status(inside($container, @health)) };
    ok $oribi->wait_until(sub { $health->() == 0 }), 'it becomes healthy';
    is status(inside($container, split)), 0, "docker exec: $_" for commands('exec');
    is answer('/'), "$language first 10001 0 0\n", 'the app answers, and may write nowhere';
    is answer('/', '--data-binary', '@' . $large->filename), "$language first 10001 3145728 0\n", 'large contents go to /tmp';

    my $orphan = answer('/orphan') =~ s/\n//r;
    my $proc   = "/proc/$first/root/proc/$orphan";
    ok $oribi->wait_until(sub { content_of("$proc/stat") =~ /\A\d+ .*\) \S 1 /s }), 'process 1 has the orphans';
    run(inside($container, 'sh', '-c', "kill $orphan"));
    ok $oribi->wait_until(sub { !-e $proc }), 'and reaps them';

    write_file("/proc/$first/root/tmp/version", "second\n");
    run(@runc, 'kill', $container->{id}, $_) for map {/\A--signal (\w+)\z/} commands('kill');
    ok $oribi->wait_until(sub { answer('/') =~ /second/ }), 'HUP loads the app again';

    my $answered = "$folder/$image";
    my $client   = fork // die "fork: $!";
    POSIX::_exit(system('curl', '--silent', '--output', $answered, 'http://127.0.0.1:8080/slow') ? 1 : 0) if !$client;
    ok $oribi->wait_until(sub { -e "/proc/$first/root/tmp/running" }), 'a request runs';
    run(@runc, 'kill', $container->{id}, $config->{StopSignal});
    ok $oribi->wait_until(sub { $health->() == 1 }), 'a container that stops is not healthy';
    ok !defined $oribi->exit_status, 'while the request runs';
    write_file("/proc/$first/root/tmp/finish", q());
    ok $oribi->wait_until(sub { defined $oribi->exit_status }), 'it ends';
    is $oribi->exit_status, 0, 'with status 0';
    waitpid $client, 0;
    is content_of($answered), "finished\n", 'and has finished the request';
    is_deeply [$oribi->complaints], [], 'without a complaint';
    return;
}

sub serves_each {
    for my $language (sort keys %APP) {
        my $container = container('oribi-test-all', $APP{$language});
        is answer('/'), "$language first 10001 0 0\n", $language;
        is ended($container), 0, 'and ends';
    }
    return;
}

sub serves_without_tmp ($image) {
    local $option{tmpfs} = undef;
    my $container = container("oribi-test-$image", $APP{$image} // $APP{lua});
    my $oribi     = $container->{oribi};
    ok $oribi->wait_until(sub { $oribi->log_text =~ m{cannot write to /tmp .* get 507} }), 'the log reports it at the start';
    like answer('/', '--data-binary', '@' . $large->filename), qr/\A507 /, 'and so it is';
    is status(inside($container, qw(oribi ctl health))), 1, 'oribi ctl finds no server';
    is ended($container), 0, 'and it ends';
    return;
}

# Builds what needs a network.
sub prepare () {
    if (!$ENV{ORIBI_IMAGES_BUILT}) {
        if (!glob 'dist/debian12/oribi_*.deb') { system('packages/debian/build 12 >&2') == 0 or die "no packages\n" }
        system("packages/images/build @images >&2") == 0 or die "no images\n";
    }
    if (grep { $_ eq 'perl' } @images) {
        my $context = File::Temp->newdir;
        app('perl', $context, (dockerfiles())[1]);
        run(qw(packages/images/buildah bud --pull-never --format docker --tag oribi-test-modules), "$context");
    }
    return;
}

# A folder with the app of a language and the Dockerfile for it.
sub context ($image, $dockerfile) {
    my $context = "$folder/context-$image";
    mkdir $context or die "$context: $!";
    app($image, $context, $dockerfile =~ s/oribi:perl/oribi:$image/r);
    return $context;
}

sub app ($image, $context, $dockerfile) {
    run('cp', map({"$FindBin::Bin/images/$_"} $APP{$image} // values %APP), "$context");
    write_file("$context/Dockerfile", $dockerfile);
    return;
}

# A container of an image, as `docker run` with the page's options starts it, with another command if one is given.
sub container ($image, @command) {
    my $id      = 'oribi-test-' . $$ . q(-) . ++$number;
    my $config  = decode_json(run(@buildah, 'inspect', '--type', 'image', $image))->{Docker}{config};
    my $name    = run(@buildah, 'from', '--pull-never', $image) =~ s/\n//r;
    my $bundle  = "/run/$id";
    mkdir $bundle or die "$bundle: $!";
    run({ folder => $bundle }, 'runc', 'spec');
    my $runtime = decode_json(content_of("$bundle/config.json"));
    my $process = $runtime->{process};
    my ($user, $group) = split /:/, $config->{User};
    $process->{user}     = { uid => $user + 0, gid => $group + 0 };
    $process->{args}     = [$config->{Entrypoint}->@*, @command ? @command : $config->{Cmd}->@*];
    $process->{env}      = $config->{Env};
    $process->{cwd}      = $config->{WorkingDir};
    $process->{terminal} = JSON::PP::false;
    $process->{noNewPrivileges} = $option{'security-opt'} eq 'no-new-privileges' ? JSON::PP::true : JSON::PP::false;
    $process->{capabilities}    = {} if $option{'cap-drop'} eq 'ALL';
    delete $process->{rlimits};
    $runtime->{root} = {
        path     => run(@buildah, 'mount', $name) =~ s/\n//r,
        readonly => exists $option{'read-only'} ? JSON::PP::true : JSON::PP::false,
    };
    push $runtime->{mounts}->@*,
        { destination => $option{tmpfs}, type => 'tmpfs', source => 'tmpfs', options => ['mode=1777'] } if $option{tmpfs};
    # Its network is that of the test.
    $runtime->{linux}{namespaces} = [grep { $_->{type} ne 'network' } $runtime->{linux}{namespaces}->@*];
    write_file("$bundle/config.json", encode_json($runtime));
    my $oribi = Test::Oribi->run_on_port(8080, @runc, 'run', '--bundle', $bundle, '--pid-file', "$bundle/pid", $id);
    # runc writes it after the start.
    $oribi->wait_until(sub { -e "$bundle/pid" });
    return { oribi => $oribi, config => $config, id => $id, first => content_of("$bundle/pid") };
}

# Stops a container, and returns its status.
sub ended ($container) {
    run(@runc, 'kill', $container->{id}, $container->{config}{StopSignal});
    $container->{oribi}->wait_until(sub { defined $container->{oribi}->exit_status });
    return $container->{oribi}->exit_status;
}

# A command that is run in a container.
sub inside ($container, @command) { return (@runc, 'exec', $container->{id}, @command) }

# The status with which a command ends.
sub status (@command) { return eval { run(@command); 1 } ? 0 : $@ =~ /\Astatus (\d+):/ ? $1 >> 8 : die $@ }

sub dockerfiles () { return content_of("$root/docs/containers.md") =~ /^```Dockerfile\n(.*?)^```/gms }

# The options of the page's `docker run`. This test dies if it does not know one.
sub docker_run () {
    my ($line) = commands('run');
    my %known  = map { $_ => 1 } qw(name read-only tmpfs cap-drop security-opt stop-timeout p);
    my %found  = $line =~ /(?<!\S)--?([\w-]+)(?:[ ](?!-)(\S+))?/g;
    die "an option of docker run is unknown\n" if grep { !$known{$_} } keys %found;
    return %found;
}

# The rest of the page's commands `docker NAME`, without that of the container and without comments.
sub commands ($name) {
    return map {s/(?:\A|\s)shop\b//r} content_of("$root/docs/containers.md") =~ /^[\$] docker $name[ ](.*?)[ ]*(?:#.*)?$/gm;
}

sub answer ($path, @arguments) { return curl(@arguments, "http://127.0.0.1:8080$path")->{body} }
