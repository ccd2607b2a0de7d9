//! The resources of the processes that live as long as the server: leaks show there.

use crate::scene::Scene;
use crate::server::descendants;

/// The permitted growth of the memory in bytes. Allocators keep some memory; a leak exceeds this limit.
const GROWTH: u64 = 16 << 20;

/// The permitted growth of the number of descriptors: short connections need some.
const MORE: usize = 12;

/// The resources of the master or supervisor, and of all edges, together.
#[derive(Clone, Debug, Default)]
pub struct Held {
    /// Private memory in bytes.
    pub memory: u64,
    pub descriptors: usize,
    /// The number of descriptors of the guardian, if there is one.
    pub guardian: usize,
}

impl Held {
    pub fn by(scene: &Scene) -> Self {
        let steady: Vec<u32> = ["master", "supervisor", "edge"].iter().flat_map(|role| scene.called(role)).collect();
        let guardian = scene.called("guardian").into_iter().map(descriptors).sum();
        Self {
            memory: steady.iter().map(|process| private(*process)).sum(),
            descriptors: steady.iter().map(|process| descriptors(*process)).sum(),
            guardian,
        }
    }

    /// The resources that have grown too much since `before`.
    pub fn leak_since(&self, before: &Self) -> Option<String> {
        let leaks = self.memory > before.memory + GROWTH
            || self.descriptors > before.descriptors + MORE
            || before.guardian > 0 && self.guardian > before.guardian;
        leaks.then(|| format!("the server holds more than it should: {before}, then {self}"))
    }
}

impl std::fmt::Display for Held {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:.1} MiB, {} descriptors", self.memory as f64 / f64::from(1 << 20), self.descriptors)?;
        if self.guardian > 0 { write!(out, " (guardian: {})", self.guardian) } else { Ok(()) }
    }
}

fn private(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
    let own = text.lines().filter(|line| line.starts_with("Private_Dirty:") || line.starts_with("Private_Clean:"));
    own.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum::<u64>() << 10
}

fn descriptors(process: u32) -> usize {
    std::fs::read_dir(format!("/proc/{process}/fd")).map_or(0, Iterator::count)
}

/// The processes of a server, to see later that none is left.
pub fn processes(scene: &Scene) -> Vec<u32> {
    descendants(scene.site.server.pid())
}
