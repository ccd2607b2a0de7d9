//! The memory of a pool and its descriptors, made before the first fork.

use crate::passing::line;
use crate::shape::{Layout, Shape};
use crate::sleep::Bell;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// The memory of a pool. The process that forks the edge and the workers makes it. Each of these then opens its own side, as an
/// [`Edge`](crate::Edge) or as a [`Worker`](crate::Worker), and drops the rest. The memory exists as long as one process keeps
/// it.
#[derive(Debug)]
pub struct Memory {
    pub(crate) layout: Layout,
    pub(crate) file: OwnedFd,
    pub(crate) edge_bell: Arc<Bell>,
    pub(crate) places: Vec<Place>,
}

/// The descriptors of a worker's place.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) bell: Arc<Bell>,
    pub(crate) edge_end: Arc<OwnedFd>,
    pub(crate) worker_end: Arc<OwnedFd>,
}

impl Memory {
    /// Makes memory of that shape.
    ///
    /// # Errors
    /// The shape is out of range, or the system refuses memory or descriptors: three for each worker and two more.
    pub fn new(shape: Shape) -> io::Result<Self> {
        let layout = Layout::new(shape)?;
        let file = memfd_create("oribi-pool", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, layout.size() as u64)?;
        // A process that could shrink the file could end all processes that read it.
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let place = |_| {
            let (edge_end, worker_end) = line()?;
            Ok(Place { bell: Arc::new(Bell::new()?), edge_end: Arc::new(edge_end), worker_end: Arc::new(worker_end) })
        };
        let places = (0..shape.workers).map(place).collect::<io::Result<_>>()?;
        Ok(Self { layout, file, edge_bell: Arc::new(Bell::new()?), places })
    }

    /// The shape of the memory.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.layout.shape
    }

    /// The bytes of the file that all processes write.
    #[must_use]
    pub fn claims(&self) -> Range<usize> {
        self.layout.claims()
    }

    /// The bytes of the file that a worker and the edge write.
    #[must_use]
    pub fn answers(&self, worker: u32) -> Range<usize> {
        self.layout.answers(worker)
    }
}

/// The file that holds the memory.
impl AsFd for Memory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
