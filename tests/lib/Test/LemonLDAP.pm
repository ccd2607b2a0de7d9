package Test::LemonLDAP;

# LemonLDAP::NG as Debian's packages have installed it, with a configuration, sessions and caches of its own. Its users are those
# of the demonstration: "dwho" and "rtyler", each with the name as the password, of whom dwho is an administrator.
#
#   http://auth.example.com      the portal
#   http://manager.example.com   the manager
#   http://test1.example.com     an application that it protects

use v5.36;
use File::Path qw(make_path);
use File::Temp ();
use JSON::PP   ();
use Test::Command qw(write_file);

# The folder of the packages' own files.
use constant SHARE => '/usr/share/lemonldap-ng';

# Test::LemonLDAP->new(PORT, SCHEME): a new one, whose addresses have this port and scheme.
sub new ($class, $port, $scheme = 'http') {
    my $self   = bless { folder => File::Temp->newdir }, $class;
    my $folder = "$self->{folder}";
    # Servers may run as another user.
    chmod 0755, $folder or die "$folder: $!";
    for my $name (qw(conf cache sessions/lock psessions/lock notifications run)) {
        make_path("$folder/$name");
    }
    chmod 0777, map { ($_, glob "$_/*") } glob "$folder/*" or die "$folder: $!";
    write_file("$folder/lemonldap-ng.ini", _settings($folder));
    write_file("$folder/conf/lmConf-1.json", JSON::PP->new->canonical->encode(_configuration($folder, $port, $scheme)));
    write_file("$folder/app.psgi", _application());
    write_file("$folder/user.psgi", <<~'PERL');
        sub { [200, ['Content-Type' => 'text/plain'], ["You are $_[0]{REMOTE_USER} at $_[0]{REQUEST_URI}\n"]] };
        PERL
    return $self;
}

# The settings that lead its programs to the configuration and their errors to standard error.
sub environment ($self) {
    return (
        LLNG_DEFAULTCONFFILE => "$self->{folder}/lemonldap-ng.ini",
        LLNG_DEFAULTLOGGER   => 'Lemonldap::NG::Common::Logger::Std',
    );
}

# The folder for the socket of a server.
sub run_folder ($self) { return "$self->{folder}/run" }

# An app that is all three hosts.
sub app ($self) { return "$self->{folder}/app.psgi" }

# The http block of an nginx that serves the three hosts, as the files in /etc/lemonldap-ng do it. The FastCGI app of the
# packages is at UPSTREAM.
sub nginx_hosts ($self, $upstream) {
    my $share = SHARE;
    my $pass  = <<~'NGINX';
        include /etc/nginx/fastcgi_params;
        fastcgi_pass llng;
        fastcgi_param HTTP_HOST $host;
        NGINX
    my $script = <<~"NGINX";
        $pass
        fastcgi_param LLTYPE psgi;
        fastcgi_param SCRIPT_FILENAME \$document_root\$fastcgi_script_name;
        fastcgi_split_path_info ^(.*\\.psgi)(/.*)\$;
        fastcgi_param PATH_INFO \$fastcgi_path_info;
        NGINX
    return <<~"NGINX";
        upstream llng {
            server $upstream;
            keepalive 8;
        }
        fastcgi_keep_conn on;
        server {
            listen 127.0.0.1:%port%;
            server_name auth.example.com;
            root $share/portal/htdocs/;
            if (\$uri !~ ^/((static|javascript|favicon).*|.*\\.psgi)) {
                rewrite ^/(.*)\$ /index.psgi/\$1 break;
            }
            location ~ ^/.*\\.psgi(?:\$|/) { $script }
        }
        server {
            listen 127.0.0.1:%port%;
            server_name manager.example.com;
            root $share/manager/htdocs/;
            if (\$uri !~ ^/(.*\\.psgi|static|doc|lib|javascript|favicon)) {
                rewrite ^/(.*)\$ /manager.psgi/\$1 break;
            }
            location ~ ^/.*\\.psgi(?:\$|/) { $script }
        }
        server {
            listen 127.0.0.1:%port%;
            server_name test1.example.com;
            location = /lmauth {
                internal;
                $pass
                fastcgi_pass_request_body off;
                fastcgi_param CONTENT_LENGTH "";
                fastcgi_param X_ORIGINAL_URI \$original_uri;
            }
            location / {
                set \$original_uri \$uri\$is_args\$args;
                auth_request /lmauth;
                auth_request_set \$user \$upstream_http_lm_remote_user;
                auth_request_set \$portal \$upstream_http_location;
                error_page 401 \$portal;
                $pass
                fastcgi_param LLTYPE psgi;
                fastcgi_param SCRIPT_FILENAME $self->{folder}/user.psgi;
                fastcgi_param REMOTE_USER \$user;
            }
        }
        NGINX
}

sub _settings ($folder) {
    my $share = SHARE;
    return <<~"INI";
        [all]
        logLevel = warn
        checkTime = 1
        [configuration]
        type = File
        dirName = $folder/conf
        prettyPrint = 1
        localStorage = Cache::FileCache
        localStorageOptions = { namespace => 'config', cache_root => '$folder/cache', default_expires_in => 600 }
        [portal]
        staticPrefix = /static
        templateDir = $share/portal/templates
        languages = en
        [handler]
        status = 0
        useRedirectOnError = 1
        [manager]
        protection = manager
        staticPrefix = /static
        templateDir = $share/manager/htdocs/templates
        languages = en
        enabledModules = conf, sessions
        INI
}

sub _configuration ($folder, $port, $scheme) {
    my @generator = (generateModule => 'Lemonldap::NG::Common::Apache::Session::Generate::SHA256');
    return {
        cfgNum                => 1,
        cfgAuthor             => 'test',
        cfgDate               => 1,
        domain                => 'example.com',
        portal                => "$scheme://auth.example.com:$port/",
        cookieName            => 'lemonldap',
        securedCookie         => 0,
        authentication        => 'Demo',
        userDB                => 'Same',
        passwordDB            => 'Demo',
        registerDB            => 'Null',
        demoExportedVars      => { uid => 'uid', cn => 'cn', mail => 'mail' },
        whatToTrace           => '_user',
        exportedHeaders       => { 'test1.example.com' => { 'Auth-User' => '$uid', 'Auth-Mail' => '$mail' } },
        locationRules         => {
            'auth.example.com'    => { default => 'accept' },
            'manager.example.com' => { default => '$uid eq "dwho"' },
            'test1.example.com'   => { '^/administrators' => '$uid eq "dwho"', default => 'accept' },
        },
        globalStorage         => 'Apache::Session::File',
        globalStorageOptions  => { Directory => "$folder/sessions", LockDirectory => "$folder/sessions/lock", @generator },
        persistentStorage     => 'Apache::Session::File',
        persistentStorageOptions   => { Directory => "$folder/psessions", LockDirectory => "$folder/psessions/lock" },
        localSessionStorage        => 'Cache::FileCache',
        localSessionStorageOptions => { namespace => 'sessions', cache_root => "$folder/cache", default_expires_in => 600 },
        notificationStorage        => 'File',
        notificationStorageOptions => { dirName => "$folder/notifications" },
    };
}

sub _application () {
    my $share = SHARE;
    return <<~"PERL";
        use v5.36;
        use Lemonldap::NG::Manager;
        use Lemonldap::NG::Portal::Main;
        use Plack::Builder;

        my \$application = builder {
            enable 'Auth::LemonldapNG';
            sub (\$env) {
                # The middleware says it in this way.
                my \$user = lc(\$env->{'Auth-User'} =~ s/\\AHTTP_//r);
                [200, ['Content-Type' => 'text/plain'], ["You are \$user at \$env->{REQUEST_URI}\\n"]];
            };
        };
        my \$portal = builder {
            enable 'Static', path => qr{\\A/static/}, root => '$share/portal/htdocs';
            Lemonldap::NG::Portal::Main->run({});
        };
        my \$manager = builder {
            enable 'Static', path => qr{\\A/static/}, root => '$share/manager/htdocs';
            Lemonldap::NG::Manager->run({});
        };
        builder {
            mount 'http://auth.example.com/'    => \$portal;
            mount 'http://manager.example.com/' => \$manager;
            mount 'http://test1.example.com/'   => \$application;
        };
        PERL
}

1;
