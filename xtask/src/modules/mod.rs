//! Finds cycles of modules in a crate: modules with the same parent, each with everything below it, must not form one. Then a
//! module can be read, tested and changed with only those modules in mind that it uses.

mod cycles;
mod file;
mod tokens;
mod tree;

use cycles::Level;
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

/// The name of the level below the module `name`: `crates/server::engine`.
fn level_name(root: &Path, name: &[String]) -> String {
    let folder = root.ancestors().nth(2).unwrap_or(root).display().to_string();
    std::iter::once(folder).chain(name.iter().cloned()).collect::<Vec<_>>().join("::")
}
