//! A plan: the routes of a server and the settings of its apps, in a form that the first process sends to running edges.
//!
//! Compiled routes cannot be sent to another process. So the first process sends the text from which it has compiled them itself,
//! with all files that belong to it, and each edge compiles them once more by the same code ([`PlanReader`]). Files of users
//! are read once more when the plan is sent, because apps may have loaded for long since the text was read.

use crate::routes::Routes;
use oribi_config::Settings;
use oribi_io::process::LiftedFileSize;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fmt::Debug;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// Reads plans, in edges. It opens no file.
pub trait PlanReader: Debug {
    /// Reads a plan.
    ///
    /// # Errors
    /// The plan cannot be used; the message says why.
    fn read(&self, plan: &[u8]) -> Result<EdgePlan, String>;
}

/// The plan of an edge.
#[derive(Debug)]
pub struct EdgePlan {
    /// The routes, without the counts of their limits; `None`: the first app answers all requests.
    pub routes: Option<Routes>,
    /// The settings of all apps, in the order of their memory.
    pub apps: Vec<Settings>,
}

/// Puts several texts into one, for [`unpack`].
#[must_use]
pub fn pack<T: AsRef<[u8]>>(parts: impl IntoIterator<Item = T>) -> Vec<u8> {
    let mut all = Vec::new();
    for part in parts {
        all.extend((part.as_ref().len() as u64).to_ne_bytes());
        all.extend_from_slice(part.as_ref());
    }
    all
}

/// Returns the texts that were put into one. `None` if it does not consist of whole texts.
#[must_use]
pub fn unpack(mut all: &[u8]) -> Option<Vec<&[u8]>> {
    let mut parts = Vec::new();
    while !all.is_empty() {
        let (size, rest) = all.split_first_chunk()?;
        let (part, rest) = rest.split_at_checked(usize::try_from(u64::from_ne_bytes(*size)).ok()?)?;
        parts.push(part);
        all = rest;
    }
    Some(parts)
}

/// A plan in a file in memory, for edges.
#[derive(Debug)]
pub struct PlanFile(OwnedFd);

impl PlanFile {
    /// Writes a plan with its number.
    ///
    /// # Errors
    /// The system has no memory.
    pub fn new(number: u32, plan: &[u8]) -> io::Result<Self> {
        let _lifted = LiftedFileSize::new();
        let mut file = File::from(memfd_create("oribi-plan", MemfdFlags::CLOEXEC)?);
        file.write_all(&number.to_ne_bytes())?;
        file.write_all(plan)?;
        Ok(Self(file.into()))
    }

    /// Reads the number and the plan. All edges have the same file, so its position is of no use.
    pub(crate) fn read(file: OwnedFd) -> io::Result<(u32, Vec<u8>)> {
        let file = File::from(file);
        let mut bytes = vec![0; usize::try_from(file.metadata()?.len()).unwrap_or_default()];
        file.read_exact_at(&mut bytes, 0)?;
        let number = bytes.first_chunk().map(|number| u32::from_ne_bytes(*number)).ok_or(io::ErrorKind::InvalidData)?;
        bytes.drain(..size_of::<u32>());
        Ok((number, bytes))
    }
}

impl AsFd for PlanFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_out_as_they_went_in_and_a_part_of_them_is_refused() {
        let all = pack(["one", "", "three"]);
        assert_eq!(unpack(&all), Some(vec![&b"one"[..], b"", b"three"]));
        let whole = [0, 11, 19];
        for size in (0..all.len()).filter(|size| !whole.contains(size)) {
            assert_eq!(unpack(&all[..size]), None, "{size} bytes");
        }
        assert_eq!(unpack(&[0xff; 16]), None);
    }

    #[test]
    fn each_edge_reads_the_whole_plan() {
        let file = PlanFile::new(7, b"text").expect("memory");
        for _ in 0..2 {
            let copy = file.as_fd().try_clone_to_owned().expect("a descriptor");
            assert_eq!(PlanFile::read(copy).expect("it is whole"), (7, b"text".to_vec()));
        }
    }
}
