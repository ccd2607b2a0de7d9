//! Cycles among the modules that have the same parent.

use super::tree::{Mention, Uses};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The most lines that are shown for each use in a cycle.
const SHOWN: usize = 4;

/// The children of one module, and their uses of each other.
pub struct Level {
    /// The name of the level in messages.
    pub name: String,
    pub uses: Uses,
}

impl Level {
    /// The cycles, with the lines that cause them.
    pub fn breaches(&self) -> Vec<String> {
        Graph::new(self.uses.keys()).cycles().iter().map(|cycle| self.describe(cycle)).collect()
    }

    fn describe(&self, cycle: &[String]) -> String {
        let mut text = format!("{}: {} -> {} is a cycle:", self.name, cycle.join(" -> "), cycle[0]);
        for (at, from) in cycle.iter().enumerate() {
            let to = &cycle[(at + 1) % cycle.len()];
            let mentions = self.uses.get(&(from.clone(), to.clone())).map_or(&[][..], Vec::as_slice);
            for Mention { file, line, path } in mentions.iter().take(SHOWN) {
                text += &format!("\n    {}:{line}: {path}", file.display());
            }
            if mentions.len() > SHOWN {
                text += &format!("\n    and {} more uses of {to} by {from}", mentions.len() - SHOWN);
            }
        }
        text
    }
}

/// The uses as a graph.
struct Graph<'a> {
    edges: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl<'a> Graph<'a> {
    fn new(edges: impl Iterator<Item = &'a (String, String)>) -> Self {
        let mut graph = Self { edges: BTreeMap::new() };
        for (from, to) in edges {
            graph.edges.entry(from).or_default().insert(to);
        }
        graph
    }

    /// Returns the shortest cycle through each edge of the graph, if there is one. Each cycle is listed once and starts with
    /// the name that is first in the alphabet. Short cycles are first.
    fn cycles(&self) -> Vec<Vec<String>> {
        let mut cycles = BTreeSet::new();
        for (from, targets) in &self.edges {
            for way in targets.iter().filter_map(|to| self.way(to, from)) {
                let first = way.iter().enumerate().min_by_key(|(_, name)| **name).map_or(0, |(at, _)| at);
                let cycle: Vec<_> = way[first..].iter().chain(&way[..first]).map(|name| (*name).to_owned()).collect();
                cycles.insert((cycle.len(), cycle));
            }
        }
        cycles.into_iter().map(|(_, cycle)| cycle).collect()
    }

    /// The shortest path from one module to another, both included.
    fn way<'b>(&'b self, from: &'b str, to: &str) -> Option<Vec<&'b str>> {
        let mut came_from = BTreeMap::from([(from, from)]);
        let mut next = VecDeque::from([from]);
        while let Some(at) = next.pop_front() {
            if at == to {
                let steps = std::iter::successors(Some(at), |at| (*at != from).then(|| came_from[at]));
                let mut way: Vec<_> = steps.collect();
                way.reverse();
                return Some(way);
            }
            for target in self.edges.get(at).into_iter().flatten() {
                came_from.entry(target).or_insert_with(|| {
                    next.push_back(target);
                    at
                });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn level(edges: &[(&str, &str)]) -> Level {
        let owned = |edge: &(&str, &str)| (edge.0.to_owned(), edge.1.to_owned());
        let mention = |edge: &(&str, &str)| {
            vec![Mention { file: PathBuf::from(format!("{}.rs", edge.0)), line: 7, path: format!("crate::{}", edge.1) }]
        };
        Level { name: "crates/server".to_owned(), uses: edges.iter().map(|edge| (owned(edge), mention(edge))).collect() }
    }

    #[test]
    fn modules_without_a_cycle_are_fine() {
        assert_eq!(level(&[("a", "b"), ("a", "c"), ("b", "c")]).breaches(), Vec::<String>::new());
    }

    #[test]
    fn a_cycle_is_shown_once_with_the_lines_that_make_it() {
        let breaches = level(&[("c", "a"), ("a", "b"), ("b", "c"), ("d", "a")]).breaches();
        assert_eq!(
            breaches,
            ["crates/server: a -> b -> c -> a is a cycle:\n    a.rs:7: crate::b\n    b.rs:7: crate::c\n    c.rs:7: crate::a"]
        );
    }

    #[test]
    fn every_edge_of_a_cycle_is_in_one_that_is_shown() {
        let breaches = level(&[("a", "b"), ("b", "a"), ("b", "c"), ("c", "a")]).breaches();
        let shown: Vec<_> = breaches.iter().map(|breach| breach.split(" is a").next().expect("it has a start")).collect();
        assert_eq!(shown, ["crates/server: a -> b -> a", "crates/server: a -> b -> c -> a"]);
    }
}
