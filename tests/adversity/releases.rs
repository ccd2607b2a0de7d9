//! Deployments: each release has a directory of its own, and a symbolic link leads to the current one.

use crate::environment::upgrade;
use crate::server::{Folder, send, wait_until};
use crate::site::{Edge, Language, Plan, Site, program};
use rustix::process::Signal;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

crate::everywhere!(
    a_reload_serves_the_release_to_which_the_link_leads,
    a_path_over_the_link_leads_to_its_release,
    a_process_that_loads_the_app_again_follows_the_link,
    a_directory_that_is_gone_is_no_reason_to_end
);
crate::in_shape!(bundled, Ruby, Edge::On, the_gemfile_is_that_of_the_release);

/// Returns an app that answers with its release twice: as it is in a file of the app, and as it is in the directory in which
/// the app was loaded.
fn app(language: Language, release: &str) -> String {
    match language {
        Language::Perl => format!(
            "use FindBin; open my $file, '<', 'release' or die \"release: $!\\n\"; chomp(my $found = readline $file);\n\
             sub {{ [200, [], [\"{release} $found\\n\"]] }};\n"
        ),
        Language::Ruby => {
            format!("found = File.read('release').chomp\nrun ->(_env) {{ [200, {{}}, [\"{release} #{{found}}\\n\"]] }}\n")
        }
        Language::Lua => format!(
            "local found = assert(io.open 'release'):read '*l'\nreturn function() return 200, {{}}, '{release} ' .. found .. '\\n' end\n"
        ),
    }
}

/// Returns an app that answers in the same way, and finds its release beside its own file.
fn app_beside(language: Language, release: &str) -> String {
    match language {
        Language::Perl => app(language, release).replace("'release'", "\"$FindBin::Bin/release\""),
        Language::Ruby => app(language, release).replace("'release'", "File.join(__dir__, 'release')"),
        Language::Lua => app(language, release).replace("'release'", "(require('oribi').directory .. '/release')"),
    }
}

/// Writes a release, and points the symbolic link to it.
fn deploy(folder: &Path, language: Language, release: &str) {
    let directory = folder.join("releases").join(release);
    std::fs::create_dir_all(&directory).expect("the folder is ours");
    std::fs::write(directory.join(language.file()), app(language, release)).expect("the folder is ours");
    std::fs::write(directory.join("release"), format!("{release}\n")).expect("the folder is ours");
    std::fs::write(directory.join("Gemfile"), "gem 'rack'\n").expect("the folder is ours");
    // A link cannot be replaced in one step; its name can.
    symlink(&directory, folder.join("next")).expect("the folder is ours");
    std::fs::rename(folder.join("next"), folder.join("current")).expect("the folder is ours");
}

/// Starts a server for the release to which the link points, in the way a shell does from there.
fn start(language: Language, edge: Edge, change: impl FnOnce(&Path, &mut Command)) -> Site {
    let folder = Folder::new();
    deploy(&folder.0, language, "1");
    let current = folder.file("current");
    let mut command = Command::new(program());
    command.current_dir(&current).env("PWD", &current);
    change(&folder.0, &mut command);
    Plan::of_app(command, language, folder, Path::new(language.file()), edge, &[]).start_and_look("/")
}

/// Starts a server in another directory, with the path of the app that `path` makes of the folder.
fn start_by_path(language: Language, edge: Edge, path: impl FnOnce(&Path) -> PathBuf) -> Site {
    let folder = Folder::new();
    deploy(&folder.0, language, "1");
    std::fs::write(folder.file("current").join(language.file()), app_beside(language, "1")).expect("the folder is ours");
    let mut command = Command::new(program());
    command.current_dir(&folder.0).env("PWD", &folder.0);
    let path = path(&folder.0).join(language.file());
    Plan::of_app(command, language, folder, &path, edge, &[]).start_and_look("/")
}

fn must_be(site: &Site, release: &str) {
    let expected = format!("{release} {release}\n");
    wait_until(&format!("release {release}"), || site.get("/").as_deref() == Some(&*expected));
}

fn a_reload_serves_the_release_to_which_the_link_leads(language: Language, edge: Edge) {
    let site = start(language, edge, |_, _| ());
    must_be(&site, "1");
    deploy(&site.folder.0, language, "2");
    site.reload();
    must_be(&site, "2");
    // Nothing of the server is left in the old one.
    std::fs::remove_dir_all(site.folder.file("releases/1")).expect("it is ours");
    site.reload();
    must_be(&site, "2");
    deploy(&site.folder.0, language, "3");
    upgrade(&site.server);
    must_be(&site, "3");
    deploy(&site.folder.0, language, "4");
    site.reload();
    must_be(&site, "4");
    site.stop();
}

fn a_path_over_the_link_leads_to_its_release(language: Language, edge: Edge) {
    let ways: [fn(&Path) -> PathBuf; 2] = [|folder| folder.join("current"), |_| PathBuf::from("current")];
    for path in ways {
        let site = start_by_path(language, edge, path);
        must_be(&site, "1");
        deploy(&site.folder.0, language, "2");
        std::fs::write(site.folder.file("current").join(language.file()), app_beside(language, "2")).expect("it is ours");
        std::fs::remove_dir_all(site.folder.file("releases/1")).expect("it is ours");
        site.reload();
        must_be(&site, "2");
        deploy(&site.folder.0, language, "3");
        std::fs::write(site.folder.file("current").join(language.file()), app_beside(language, "3")).expect("it is ours");
        upgrade(&site.server);
        must_be(&site, "3");
        site.stop();
    }
}

/// A mold that is killed is followed by another one. A worker that loads the app itself is followed by one that does so, too.
fn a_process_that_loads_the_app_again_follows_the_link(language: Language, edge: Edge) {
    let site = start(language, edge, |_, _| ());
    must_be(&site, "1");
    deploy(&site.folder.0, language, "2");
    let loader = if language.has_mold() { "mold" } else { "worker" };
    let killed = site.titled(loader);
    killed.iter().for_each(|process| send(*process, Signal::KILL));
    wait_until("other processes", || site.titled(loader).len() == killed.len() && site.titled(loader).is_disjoint(&killed));
    must_be(&site, "2");
    site.stop();
}

fn a_directory_that_is_gone_is_no_reason_to_end(language: Language, edge: Edge) {
    let site = start(language, edge, |_, _| ());
    std::fs::remove_file(site.folder.file("current")).expect("it is ours");
    site.server.signal(Signal::HUP);
    // Lua's workers look for the script by the path that leads over the link.
    wait_until("the outcome", || site.taken_over() + site.failures() > 0);
    must_be(&site, "1");
    site.stop();
}

fn the_gemfile_is_that_of_the_release(language: Language, edge: Edge) {
    let site = start(language, edge, |folder, command| {
        // As `bundle exec` finds it.
        let release = folder.join("releases/1").canonicalize().expect("it is there");
        command.env("BUNDLE_GEMFILE", release.join("Gemfile"));
    });
    must_be(&site, "1");
    deploy(&site.folder.0, language, "2");
    std::fs::remove_dir_all(site.folder.file("releases/1")).expect("it is ours");
    site.reload();
    must_be(&site, "2");
    deploy(&site.folder.0, language, "3");
    upgrade(&site.server);
    must_be(&site, "3");
    site.stop();
}
