//! Apps that change or clear their environment, and their view of the server's own.

use crate::server::{Folder, Server, children, title, wait_for, wait_until};
use crate::site::{Edge, Language, Plan, Site};
use rustix::process::Signal;
use std::process::Command;

crate::in_shape!(perl, Perl, Edge::On, an_app_may_clear_its_environment, the_servers_own_variables_are_hidden_from_apps);
crate::in_shape!(ruby, Ruby, Edge::On, an_app_may_clear_its_environment, the_servers_own_variables_are_hidden_from_apps);
crate::in_shape!(perl_alone, Perl, Edge::Off, an_app_may_clear_its_environment, the_servers_own_variables_are_hidden_from_apps);
crate::in_shape!(ruby_alone, Ruby, Edge::Off, an_app_may_clear_its_environment, the_servers_own_variables_are_hidden_from_apps);
crate::in_shape!(lua, Lua, Edge::On, the_servers_own_variables_are_hidden_from_apps);
crate::in_shape!(lua_alone, Lua, Edge::Off, the_servers_own_variables_are_hidden_from_apps);

/// Returns an app that answers with the names of variables that it has seen while it was loaded. It clears or changes its
/// environment after that.
fn app(language: Language) -> &'static str {
    match language {
        Language::Perl => {
            r#"my $names = join ' ', sort keys %ENV; my $own = `env | sed 's/=.*//' | sort | tr '\n' ' '`; %ENV = ();
sub { [200, ['Content-Type' => 'text/plain'], ["$names $own\n"]] };
"#
        }
        Language::Ruby => {
            r##"names = ENV.keys.sort.join(" ") + " " + `env | sed 's/=.*//' | sort | tr '\n' ' '`
ENV.clear
run ->(_env) { [200, { "content-type" => "text/plain" }, ["#{names}\n"]] }
"##
        }
        Language::Lua => {
            r#"local pipe = io.popen "env | sed 's/=.*//' | sort | tr '\\n' ' '"
local names = pipe:read "*a"
pipe:close()
return function() return 200, { ["Content-Type"] = "text/plain" }, names .. "\n" end
"#
        }
    }
}

fn start(language: Language, edge: Edge) -> Site {
    let folder = Folder::new();
    let file = folder.file(language.file());
    std::fs::write(&file, app(language)).expect("the folder is ours");
    let mut command = Command::new(crate::site::program());
    // As a wrapper may have left it there; it names nothing.
    command.env("NOTIFY_SOCKET", "").env("LISTEN_FDNAMES", "web").env("ORIBI_GENERATION", "7").env("SHOP", "open");
    Plan::of_app(command, language, folder, &file, edge, &[]).start_and_look("/")
}

fn an_app_may_clear_its_environment(language: Language, edge: Edge) {
    let site = start(language, edge);
    let before = site.titled("worker");
    site.reload();
    site.wait_for_others(&before);
    assert!(site.get("/").is_some());
    upgrade(&site.server);
    assert!(site.get("/").is_some_and(|names| names.contains("SHOP")), "the new program has the environment of the old one");
    site.stop();
}

/// Upgrades the server, and waits until only the new server is left.
pub fn upgrade(server: &Server) {
    server.signal(Signal::USR2);
    let is_first = |process: u32| ["oribi: master", "oribi: supervisor"].iter().any(|role| title(process).starts_with(role));
    wait_until("only the new server is left", || matches!(children(server.pid())[..], [only] if is_first(only)));
}

fn the_servers_own_variables_are_hidden_from_apps(language: Language, edge: Edge) {
    let site = start(language, edge);
    let names = wait_for("an answer", || site.get("/"));
    assert!(names.contains("SHOP") && names.contains("ORIBI_TEST_FOLDER"), "{names}");
    let own = |name: &&str| {
        name.starts_with("ORIBI_") && !["ORIBI_TEST_", "ORIBI_CONTROL"].iter().any(|other| name.starts_with(other))
            || ["LISTEN_", "NOTIFY_SOCKET", "SERVER_STARTER_PORT", "WATCHDOG_"].iter().any(|other| name.starts_with(other))
    };
    // Those that chose the interpreters of these tests are the operator's.
    let of_tests = |name: &&str| std::env::var_os(name).is_some();
    let seen: Vec<&str> = names.split_whitespace().filter(own).filter(|name| !of_tests(name)).collect();
    assert_eq!(seen, [""; 0]);
    site.stop();
}
