//! The modules of a crate, one for each file, and their uses of each other.

use super::file::File;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The names of the modules from the root of the crate to one module; empty for the root.
pub type Name = Vec<String>;

/// A place where one module uses another: the line with the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention {
    pub file: PathBuf,
    pub line: usize,
    pub path: String,
}

/// All modules of a crate that have files of their own.
#[derive(Default)]
pub struct Tree {
    modules: BTreeMap<Name, Module>,
}

struct Module {
    place: PathBuf,
    file: File,
}

impl Tree {
    /// Reads the crate with the root file `root`. `source` returns the text of a file.
    ///
    /// # Errors
    /// A module has no file, or a file cannot be read.
    pub fn read(root: &Path, source: &impl Fn(&Path) -> Option<String>) -> Result<Self, String> {
        let mut tree = Self::default();
        tree.add(Name::new(), root.to_owned(), root.parent().unwrap_or(Path::new("")), source)?;
        Ok(tree)
    }

    /// Adds the module `name`, whose file is `place` and whose children are in `folder`.
    fn add(
        &mut self,
        name: Name,
        place: PathBuf,
        folder: &Path,
        source: &impl Fn(&Path) -> Option<String>,
    ) -> Result<(), String> {
        let text = source(&place).ok_or_else(|| format!("{} cannot be read", place.display()))?;
        let file = File::read(&text);
        for child in &file.children {
            let inside = folder.join(child);
            let places = [inside.with_extension("rs"), inside.join("mod.rs")];
            let found = places.into_iter().find(|place| source(place).is_some());
            let found = found.ok_or_else(|| format!("{}: no file for `mod {child}`", place.display()))?;
            let name = name.iter().chain([child]).cloned().collect();
            self.add(name, found, &inside, source)?;
        }
        self.modules.insert(name, Module { place, file });
        Ok(())
    }

    /// Returns, for every module with children, the uses of the children among each other, with their places. A child counts
    /// together with everything below it, and uses within that are not listed.
    pub fn levels(&self) -> BTreeMap<Name, Uses> {
        let mut levels = BTreeMap::<Name, Uses>::new();
        for (from, module) in &self.modules {
            for (path, line) in &module.file.paths {
                let Some(to) = self.find(from, path, &mut BTreeSet::new()) else { continue };
                let common = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
                if common < from.len() && common < to.len() {
                    let uses = levels.entry(from[..common].to_vec()).or_default();
                    let mentions = uses.entry((from[common].clone(), to[common].clone())).or_default();
                    mentions.push(Mention { file: module.place.clone(), line: *line, path: path.join("::") });
                }
            }
        }
        levels
    }

    /// Returns the module that defines the item at `path`, which is written in the module `from`; `None` if another crate
    /// defines the item. An imported name (`pub use`) is looked up in the module from which it is imported. `seen` has the
    /// imports that were followed, and prevents endless searches.
    fn find(&self, from: &Name, path: &[String], seen: &mut BTreeSet<(Name, String)>) -> Option<Name> {
        let mut rest = path;
        let mut module = match path.first()?.as_str() {
            "crate" => Name::new(),
            "self" | "super" => from.clone(),
            name if self.is_module(from, name) => from.clone(),
            name => return self.brought_in(from, name, &path[1..], seen),
        };
        while let Some((name, behind)) = rest.split_first() {
            match name.as_str() {
                "crate" | "self" => {}
                "super" => {
                    module.pop()?;
                }
                name if self.is_module(&module, name) => module.push(name.to_owned()),
                name => return self.brought_in(&module, name, behind, seen).or(Some(module)),
            }
            rest = behind;
        }
        Some(module)
    }

    /// Returns the module that defines the item at `name::behind`, where `module` imports `name`.
    fn brought_in(&self, module: &Name, name: &str, behind: &[String], seen: &mut BTreeSet<(Name, String)>) -> Option<Name> {
        let (_, path) = self.modules.get(module)?.file.imports.iter().find(|(brought, _)| brought == name)?;
        // `use log;` and `use name::name` name a crate by the word that they import.
        if path[0] == name || !seen.insert((module.clone(), name.to_owned())) {
            return None;
        }
        let path: Vec<_> = path.iter().chain(behind).cloned().collect();
        self.find(module, &path, seen)
    }

    fn is_module(&self, module: &Name, name: &str) -> bool {
        let child: Name = module.iter().map(String::as_str).chain([name]).map(str::to_owned).collect();
        self.modules.contains_key(&child)
    }
}

/// The uses between modules, with their places.
pub type Uses = BTreeMap<(String, String), Vec<Mention>>;

#[cfg(test)]
mod tests {
    use super::*;

    /// The edges of the levels of a crate that is made of `files`, as `level: from -> to`.
    fn edges(files: &[(&str, &str)]) -> Vec<String> {
        let source = |place: &Path| {
            let file = files.iter().find(|(name, _)| Path::new(name) == place);
            file.map(|(_, text)| (*text).to_owned())
        };
        let tree = Tree::read(Path::new("src/lib.rs"), &source).expect("the files are all there");
        let levels = tree.levels().into_iter();
        let uses = levels.flat_map(|(level, uses)| {
            uses.into_keys().map(move |(from, to)| format!("crate::{}: {from} -> {to}", level.join("::")))
        });
        uses.collect()
    }

    #[test]
    fn modules_next_to_one_another_use_one_another() {
        let found = edges(&[
            ("src/lib.rs", "mod a; mod b; mod c;"),
            ("src/a.rs", "use crate::b::B;"),
            ("src/b/mod.rs", "mod d; mod e;"),
            ("src/b/d.rs", "use super::e::E; use crate::c;"),
            ("src/b/e.rs", "fn f() { super::super::a::g() }"),
            ("src/c.rs", ""),
        ]);
        assert_eq!(found, ["crate::: a -> b", "crate::: b -> a", "crate::: b -> c", "crate::b: d -> e"]);
    }

    #[test]
    fn parent_and_child_may_use_one_another() {
        let found = edges(&[
            ("src/lib.rs", "mod a; use a::A;"),
            ("src/a.rs", "mod b; use b::B;"),
            ("src/a/b.rs", "use super::A; use crate::C;"),
        ]);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn a_name_that_was_brought_in_is_used_where_it_is_defined() {
        let found = edges(&[
            ("src/lib.rs", "mod a; mod b; pub use b::d::E as F;"),
            ("src/a.rs", "use crate::{b::D, F}; use std::io;"),
            ("src/b.rs", "mod c; mod d; pub use d::D; use std::io;"),
            ("src/b/c.rs", "use super::D; use super::io;"),
            ("src/b/d.rs", ""),
        ]);
        assert_eq!(found, ["crate::: a -> b", "crate::b: c -> d"]);
    }

    #[test]
    fn names_that_are_brought_in_in_a_circle_end_the_search() {
        let found = edges(&[
            ("src/lib.rs", "mod a; mod b; mod c;"),
            ("src/a.rs", "pub use crate::b::X;"),
            ("src/b.rs", "pub use crate::a::X;"),
            ("src/c.rs", "use crate::a::X;"),
        ]);
        assert!(found.contains(&"crate::: c -> a".to_owned()) || found.contains(&"crate::: c -> b".to_owned()), "{found:?}");
    }

    #[test]
    fn a_module_without_a_file_is_an_error() {
        let source = |place: &Path| (place == Path::new("src/lib.rs")).then(|| "mod a;".to_owned());
        let error = Tree::read(Path::new("src/lib.rs"), &source).err();
        assert_eq!(error.as_deref(), Some("src/lib.rs: no file for `mod a`"));
    }
}
