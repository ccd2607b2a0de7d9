package Test::Run::Environment;

# The environment of the commands in tests/steps.

use v5.36;
use Exporter qw(import);
use Test::Files qw(content_of);

our @EXPORT = qw(prepare_environment);

# Crates whose tests take no second.
use constant SMALL => qw(message host proto route protobuf http-client log listen ipc files config config-file control-api);

# Modules of tests/process about what the first process tells and is told.
use constant SAME_IO => qw(background control dashboard metrics notify routes service_manager spans system_logs top traces usr1);

# Sets it; the folder of the process is that of the checkout.
sub prepare_environment () {
    # The tests start servers of their own; settings of the caller must not reach them.
    delete @ENV{qw(PORT HOST WEB_CONCURRENCY ORIBI_EDGE ORIBI_EDGE_SANDBOX PLACK_ENV PLACK_SERVER SERVER_STARTER_PORT LISTEN_FDS)};
    # A shell that starts this in the background, and nohup, let these be ignored, which programs inherit; tests of signals want the default.
    @SIG{qw(HUP INT QUIT)} = ('DEFAULT') x 3; ## no critic (RequireLocalizedPunctuationVars)
    my $processors = () = content_of('/proc/cpuinfo') =~ /^processor\s*:/gm;
    my %values     = (
        PERL => $ENV{PERL} // '/usr/bin/perl',
        RUBY => $ENV{RUBY} // '/usr/bin/ruby',
        # Tests of processes mostly wait for them, so that more of them can run than there are processors.
        RUST_TEST_THREADS => 2 * $processors,
        # Always the same features of the workspace, because the selected packages decide the features of the packages that they
        # share; otherwise cargo would build these again.
        workspace => '--workspace --features oribi-cli/libevent,liboribi/libevent --locked',
        # The same with Lua 5.4: only what knows Lua is built again.
        lua54 => '--package oribi-lua --package oribi-cli --no-default-features --features lua54,libevent --target-dir target/lua54 --locked',
        # Its programs of tests.
        of_lua => '--lib ' . join(' ', map { "--test $_" } qw(host seeds lua lua_backtraces lua_modules lua_waits luafcgid ahttpd)),
        # Programs of tests that only run when they are named.
        by_name => '--test stress --test edge --test adversity --test endure',
        small   => join(' ', map { "--package oribi-$_" } SMALL),
        # Options that leave out the tests to which neither the I/O model nor the way to accept makes a difference.
        same_io => join(' ', map { "--skip ${_}::" } SAME_IO),
        # Options that leave out the tests that are not for TLS and HTTP/2.
        left_out => join(' ', map { "--skip $_" } content_of('tests/process/left_out') =~ /^([^#\s]\S*)/gm),
    );
    @ENV{keys %values} = values %values; ## no critic (RequireLocalizedPunctuationVars)
    return;
}

1;
