//! Creates the memory that edges share with workers, and passes it to a mold.
//!
//! `ORIBI_POOLS=1060,110000,24,64,262144:5,6,7,8,...;...` describes the memory of each edge: the numbers of its shape, then,
//! after the colon, its descriptors.

use super::super::scaling;
use oribi_config::Settings;
use oribi_config::value::show_size;
use oribi_edge::shape;
use oribi_engine::shortage::explain;
use oribi_io::process::{LiftedFileSize, adopt, claim};
use oribi_pool::{Memory, Shape};
use rustix::process::{Resource, getrlimit};
use std::os::fd::AsRawFd;

/// The variable by which a master passes the memory to its mold.
pub(in super::super) const POOLS: &str = "ORIBI_POOLS";

/// Creates the memory of one of `apps` apps for all edges, and for workers with `lanes` lanes each.
///
/// # Errors
/// The system refuses.
pub(super) fn make(settings: &Settings, lanes: usize, (edges, apps): (usize, usize)) -> Result<Vec<Memory>, String> {
    let descriptors = getrlimit(Resource::Nofile).maximum;
    let capacity = scaling::pool_capacity(settings, lanes, descriptors, apps);
    let capacity = u32::try_from(capacity).unwrap_or(u32::MAX).min(65_535);
    let _lifted = LiftedFileSize::new();
    let make = |_| {
        Memory::new(shape(settings, capacity)).map_err(|error| {
            let descriptors = capacity.saturating_mul(3).saturating_add(3);
            let size = show_size(shape(settings, capacity).size() as u64);
            let remedy = if apps > 1 {
                "fewer with fewer apps or smaller numbers for --workers and --threads; or raise the limit of open files"
            } else {
                "fewer with smaller numbers for --workers and --threads, and none with --edge off"
            };
            format!(
                "cannot make memory for an edge and workers with {capacity} threads in all: {}; it needs {size} of addresses \
                 and {descriptors} descriptors, {remedy}",
                explain(&error)
            )
        })
    };
    (0..edges).map(make).collect()
}

/// Returns the value of [`POOLS`] for `pools`.
pub(in super::super) fn describe(pools: &[Memory]) -> String {
    let one = |memory: &Memory| {
        let Shape { slots, request_bytes, workers, areas, area_bytes } = memory.shape();
        let numbers: Vec<String> = memory.descriptors().map(|descriptor| descriptor.as_raw_fd().to_string()).collect();
        format!("{slots},{request_bytes},{workers},{areas},{area_bytes}:{}", numbers.join(","))
    };
    pools.iter().map(one).collect::<Vec<_>>().join(";")
}

/// Takes over the memory that `value` describes.
///
/// # Errors
/// A part of it is unusable; the message says which, and why.
pub(in super::super) fn inherit(value: &str) -> Result<Vec<Memory>, String> {
    let mut pools = Vec::new();
    for (shape, numbers) in parse(value)? {
        let failed = |what: &str, error: std::io::Error| format!("{POOLS}: {what}: {error}");
        let mut descriptors = Vec::new();
        for number in numbers {
            descriptors.push(adopt(number).map_err(|error| failed(&format!("descriptor {number}"), error))?);
        }
        pools.push(Memory::adopt(shape, descriptors).map_err(|error| failed("cannot share memory with an edge", error))?);
    }
    Ok(pools)
}

/// Hides the descriptors of the memory that `value` describes from programs that the app starts.
pub(in super::super) fn claim_all(value: &str) {
    for number in parse(value).unwrap_or_default().into_iter().flat_map(|(_, numbers)| numbers) {
        // The later take-over reports errors.
        let _ = claim(number);
    }
}

fn parse(value: &str) -> Result<Vec<(Shape, Vec<i32>)>, String> {
    let one = |entry: &str| {
        let (shape, numbers) = entry.split_once(':')?;
        let mut sizes = shape.split(',').map(|number| number.parse::<u32>().ok());
        let mut next = || sizes.next().flatten();
        let (slots, request_bytes, workers, areas, area_bytes) = (next()?, next()?, next()?, next()?, next()?);
        if sizes.next().is_some() {
            return None;
        }
        let numbers = numbers.split(',').map(|number| number.parse().ok()).collect::<Option<_>>()?;
        Some((Shape { slots, request_bytes, workers, areas, area_bytes }, numbers))
    };
    let entries = value.split(';').filter(|entry| !entry.is_empty());
    entries.map(|entry| one(entry).ok_or_else(|| format!("{POOLS}: cannot understand {entry:?}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::IntoRawFd;

    const SHAPE: Shape = Shape { slots: 4, request_bytes: 64, workers: 2, areas: 2, area_bytes: 512 };

    #[test]
    fn what_is_described_is_inherited_once() {
        let memory = Memory::new(SHAPE).expect("memory");
        // An executed program inherits descriptors without CLOEXEC.
        let copy = |descriptor| rustix::io::dup(descriptor).expect("a descriptor").into_raw_fd();
        let numbers: Vec<String> = memory.descriptors().map(|descriptor| copy(descriptor).to_string()).collect();
        let (shape, own) = (describe(&[memory]), numbers.join(","));
        let value = format!("{}:{own}", shape.split_once(':').expect("the numbers follow").0);
        claim_all(&value);
        assert_eq!(inherit(&value).expect("it is memory")[0].shape(), SHAPE);
        assert!(inherit(&value).is_err(), "it has been adopted already");
        assert!(inherit("").expect("nothing").is_empty());
    }

    #[test]
    fn what_makes_no_sense_is_an_error() {
        for value in
            ["1", "1,2,3,4:5", "1,2,3,4,5", "1,2,3,4,5:", "1,2,3,4,5:x", "1,2,3,4,5,6:7", "1,2,x,4,5:6", "1,2,3,4,5:6,"]
        {
            assert!(parse(value).is_err(), "{value:?}");
        }
    }
}
