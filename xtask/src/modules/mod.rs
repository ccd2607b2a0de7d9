//! Finds cycles of modules in a crate. A module counts together with everything below it, and modules with the same parent must
//! not form a cycle. So one can read, test and change a module and consider only the modules that it uses. The same rule holds
//! for the C files of a host.

mod c;
mod cycles;
mod file;
mod tokens;
mod tree;

use cycles::Level;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tree::Tree;

/// The breaches of the crates with these root files, in `repository`.
pub fn check(repository: &Path, roots: &[PathBuf]) -> Vec<String> {
    let mut breaches = Vec::new();
    for root in roots {
        match Tree::read(root, &|place| std::fs::read_to_string(repository.join(place)).ok()) {
            Ok(tree) => {
                for (name, uses) in tree.levels() {
                    breaches.extend(Level { name: level_name(root, &name), uses }.breaches());
                }
            }
            Err(error) => breaches.push(error),
        }
    }
    breaches
}

/// The breaches of the C files of the hosts among `files`.
pub fn check_hosts(repository: &Path, files: &[String]) -> Vec<String> {
    let mut hosts = BTreeMap::<String, Vec<(String, String)>>::new();
    let mut breaches = Vec::new();
    for file in files {
        let Some(host) = host(file) else { continue };
        match std::fs::read(repository.join(file)) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                hosts.entry(host).or_default().push((file.clone(), text));
            }
            Err(error) => breaches.push(format!("{file}: {error}")),
        }
    }
    for (name, texts) in hosts {
        match c::Files::read(texts) {
            Ok(files) => breaches.extend(Level { name, uses: files.uses() }.breaches()),
            Err(error) => breaches.push(error),
        }
    }
    breaches
}

/// The folder of the host to which a C file belongs: `hosts/perl`.
fn host(file: &str) -> Option<String> {
    let (name, inside) = file.strip_prefix("hosts/")?.split_once('/')?;
    let ending = Path::new(inside).extension()?;
    (ending == "c" || ending == "h" || ending == "xs").then(|| format!("hosts/{name}"))
}

/// The name of the level below the module `name`: `crates/server::engine`.
fn level_name(root: &Path, name: &[String]) -> String {
    let folder = root.ancestors().nth(2).unwrap_or(root).display().to_string();
    std::iter::once(folder).chain(name.iter().cloned()).collect::<Vec<_>>().join("::")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_c_files_of_hosts_are_seen() {
        assert_eq!(host("hosts/perl/src/call.c").as_deref(), Some("hosts/perl"));
        assert_eq!(host("hosts/ruby/ext/oribi/ruby_host.h").as_deref(), Some("hosts/ruby"));
        assert_eq!(host("hosts/perl/Oribi.xs").as_deref(), Some("hosts/perl"));
        assert_eq!(host("hosts/perl/Makefile.PL"), None);
        assert_eq!(host("bench/peers/evhttp.c"), None);
    }

    /// Checks that the rule about C files does not pass only because no files are found.
    #[test]
    fn the_files_of_this_repository_use_one_another() {
        let root = crate::root();
        let files = crate::sources::tracked(&root).expect("git lists the files");
        for (folder, from, to) in [("hosts/perl", "call", "protected"), ("hosts/ruby", "call", "response")] {
            let own = files.iter().filter(|file| host(file).as_deref() == Some(folder));
            let texts = own.map(|file| (file.clone(), std::fs::read_to_string(root.join(file)).expect("the file is there")));
            let uses = c::Files::read(texts).expect("it can be parsed").uses();
            assert!(uses.contains_key(&(from.to_owned(), to.to_owned())), "{folder}: {from} -> {to}");
        }
    }
}
