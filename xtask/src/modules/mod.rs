//! Which modules of a crate use which: those that stand next to one another, each with all that is below it, form no cycle. Then
//! every one of them can be read, tested and changed with only those in mind that it uses.

mod cycles;
mod file;
mod tokens;
mod tree;

use cycles::Level;
use std::path::{Path, PathBuf};
use tree::Tree;

/// The breaches of the crates whose root files these are, below `repository`.
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

/// What the level below the module `name` is called: `crates/server::engine`.
fn level_name(root: &Path, name: &[String]) -> String {
    let folder = root.ancestors().nth(2).unwrap_or(root).display().to_string();
    std::iter::once(folder).chain(name.iter().cloned()).collect::<Vec<_>>().join("::")
}
