//! The memory of a pool and its descriptors, made before the first fork.

use crate::mapping::Shared;
use crate::passing::line;
use crate::shape::{Layout, Shape};
use crate::sleep::Doorbell;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// The memory of a pool, made by the process that forks the edge and the workers. Each forked process then opens its own side,
/// as an [`Edge`](crate::Edge) or as a [`Worker`](crate::Worker), and drops the rest. If another program forks the workers, the
/// process passes the [descriptors](Memory::descriptors) to that program, which [adopts](Memory::adopt) them. The memory exists
/// as long as one process keeps it.
#[derive(Debug)]
pub struct Memory {
    pub(crate) layout: Layout,
    pub(crate) file: OwnedFd,
    /// The file with the edge's notes; `None` in adopted memory, because workers do not use them.
    pub(crate) notes: Option<OwnedFd>,
    pub(crate) edge_doorbell: Arc<Doorbell>,
    pub(crate) workers: Vec<WorkerDescriptors>,
}

/// The descriptors of a worker's place.
#[derive(Clone, Debug)]
pub(crate) struct WorkerDescriptors {
    pub(crate) doorbell: Arc<Doorbell>,
    /// `None` in adopted memory, where no edge is made.
    pub(crate) edge_end: Option<Arc<OwnedFd>>,
    pub(crate) worker_end: Arc<OwnedFd>,
}

impl Memory {
    /// Creates memory of that shape.
    ///
    /// # Errors
    /// The shape is out of range ([`io::ErrorKind::InvalidInput`]), or the operating system refuses memory or file descriptors:
    /// three for each worker and three more.
    pub fn new(shape: Shape) -> io::Result<Self> {
        let layout = Layout::new(shape)?;
        let file = sealed_file("oribi-pool", layout.size())?;
        let notes = Some(sealed_file("oribi-notes", layout.notes_size())?);
        let ends = |_| {
            let (edge_end, worker_end) = line()?;
            Ok(WorkerDescriptors {
                doorbell: Arc::new(Doorbell::new()?),
                edge_end: Some(Arc::new(edge_end)),
                worker_end: Arc::new(worker_end),
            })
        };
        let workers = (0..shape.workers).map(ends).collect::<io::Result<_>>()?;
        Ok(Self { layout, file, notes, edge_doorbell: Arc::new(Doorbell::new()?), workers })
    }

    /// Returns the file descriptors for a program whose processes become workers of this memory. The program passes them to
    /// [`Memory::adopt`] in this order.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let workers = self.workers.iter().flat_map(|ends| [ends.doorbell.as_fd(), ends.worker_end.as_fd()]);
        [self.file.as_fd(), self.edge_doorbell.as_fd()].into_iter().chain(workers)
    }

    /// Opens the memory of another process for its workers; an edge cannot be created from it.
    ///
    /// # Errors
    /// The descriptors are not [those](Memory::descriptors) of memory of that shape, or the operating system refuses to inspect
    /// the file.
    pub fn adopt(shape: Shape, descriptors: impl IntoIterator<Item = OwnedFd>) -> io::Result<Self> {
        let layout = Layout::new(shape)?;
        let mut descriptors = descriptors.into_iter();
        let mut next = || descriptors.next().ok_or_else(|| misfit("there are too few descriptors"));
        let file = next()?;
        let size = fstat(&file)?.st_size;
        if u64::try_from(size).ok() != Some(layout.size() as u64) || !fcntl_get_seals(&file)?.contains(SealFlags::SHRINK) {
            return Err(misfit("the file is not memory of that shape"));
        }
        let edge_doorbell = Arc::new(Doorbell::from(next()?));
        let ends = |_| {
            Ok(WorkerDescriptors { doorbell: Arc::new(Doorbell::from(next()?)), edge_end: None, worker_end: Arc::new(next()?) })
        };
        let workers = (0..shape.workers).map(ends).collect::<io::Result<_>>()?;
        match descriptors.next() {
            None => Ok(Self { layout, file, notes: None, edge_doorbell, workers }),
            Some(_) => Err(misfit("there are too many descriptors")),
        }
    }

    /// Returns the file descriptors for an edge that was forked before this memory was made. The process passes them to
    /// [`Memory::adopt_for_edge`] in this order.
    pub fn edge_descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        fn of_worker(ends: &WorkerDescriptors) -> [Option<BorrowedFd<'_>>; 2] {
            [Some(ends.doorbell.as_fd()), ends.edge_end.as_ref().map(|end| end.as_fd())]
        }
        let notes = self.notes.as_ref().map(AsFd::as_fd);
        let first = [Some(self.file.as_fd()), notes, Some(self.edge_doorbell.as_fd())];
        first.into_iter().chain(self.workers.iter().flat_map(of_worker)).flatten()
    }

    /// Opens the memory of the parent process for its edge. No worker can be attached from it.
    ///
    /// # Errors
    /// The descriptors are not [those](Memory::edge_descriptors) of memory of that shape, or the operating system refuses to
    /// inspect the files.
    pub fn adopt_for_edge(shape: Shape, descriptors: impl IntoIterator<Item = OwnedFd>) -> io::Result<Self> {
        let layout = Layout::new(shape)?;
        let mut descriptors = descriptors.into_iter();
        let mut next = || descriptors.next().ok_or_else(|| misfit("there are too few descriptors"));
        let (file, notes) = (next()?, next()?);
        for (file, size) in [(&file, layout.size()), (&notes, layout.notes_size())] {
            if u64::try_from(fstat(file)?.st_size).ok() != Some(size as u64)
                || !fcntl_get_seals(file)?.contains(SealFlags::SHRINK)
            {
                return Err(misfit("the file is not memory of that shape"));
            }
        }
        let edge_doorbell = Arc::new(Doorbell::from(next()?));
        let ends = |_| {
            let (doorbell, end) = (Arc::new(Doorbell::from(next()?)), Arc::new(next()?));
            Ok(WorkerDescriptors { doorbell, edge_end: Some(Arc::clone(&end)), worker_end: end })
        };
        let workers = (0..shape.workers).map(ends).collect::<io::Result<_>>()?;
        match descriptors.next() {
            None => Ok(Self { layout, file, notes: Some(notes), edge_doorbell, workers }),
            Some(_) => Err(misfit("there are too many descriptors")),
        }
    }

    /// The shape of the memory.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.layout.shape
    }

    /// Reports that the process with the id `process`, if it is a worker's, executes another program and no longer has this
    /// memory: [`Edge::take_executed`](crate::Edge::take_executed) then returns its place.
    ///
    /// # Errors
    /// The operating system refuses to map the memory.
    pub fn report_executed(&self, process: u32) -> io::Result<()> {
        for worker in 0..self.layout.shape.workers {
            let answers = Shared::map(self.as_fd(), self.layout.answers(worker))?;
            let words = answers.words();
            if words[Layout::ATTACHED].load(SeqCst) == u64::from(process) {
                words[Layout::EXECUTED].store(u64::from(process), SeqCst);
            }
        }
        // The edge checks all places when this count has changed.
        Shared::map(self.as_fd(), self.layout.claims())?.words()[Layout::ARRIVALS].fetch_add(1, SeqCst);
        self.edge_doorbell.ring();
        Ok(())
    }

    /// Informs the edge that another generation of the app answers from now on.
    ///
    /// # Errors
    /// The operating system refuses to map the memory.
    pub fn begin_generation(&self) -> io::Result<()> {
        let requests = Shared::map(self.as_fd(), self.layout.requests())?;
        requests.words()[Layout::GENERATION].fetch_add(1, SeqCst);
        Ok(())
    }

    /// The bytes of the file that all processes may write.
    #[must_use]
    pub fn claims(&self) -> Range<usize> {
        self.layout.claims()
    }

    /// The bytes of the file that a worker and the edge may write.
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

/// Creates a file in memory with a fixed size.
fn sealed_file(name: &str, size: usize) -> io::Result<OwnedFd> {
    let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, size as u64)?;
    // A process that could shrink the file could crash all processes that read it.
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}

fn misfit(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("this is not the memory of a pool: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Edge, Worker};

    const SHAPE: Shape = Shape { slots: 4, request_bytes: 64, workers: 3, areas: 2, area_bytes: 512 };

    fn copies(memory: &Memory) -> Vec<OwnedFd> {
        memory.descriptors().map(|descriptor| descriptor.try_clone_to_owned().expect("a descriptor")).collect()
    }

    #[test]
    fn adopted_memory_is_the_same_memory() {
        let memory = Memory::new(SHAPE).expect("memory");
        let adopted = Memory::adopt(SHAPE, copies(&memory)).expect("its own descriptors");
        assert!(Edge::new(&adopted).is_err(), "it has no lines to workers");
        let mut edge = Edge::new(&memory).expect("memory");
        let mut worker = Worker::attach_free(&adopted).expect("a place");
        let mut reserved = edge.reserve().expect("a slot");
        edge.room(&mut reserved)[..4].copy_from_slice(b"text");
        edge.submit(reserved, 4);
        let taken = worker.take().expect("a request");
        assert_eq!(worker.request(&taken), b"text");
        worker.finish(taken);
    }

    #[test]
    fn what_is_not_memory_of_that_shape_is_not_adopted() {
        let memory = Memory::new(SHAPE).expect("memory");
        assert!(Memory::adopt(Shape { slots: 9_000, ..SHAPE }, copies(&memory)).is_err(), "another size");
        assert!(Memory::adopt(Shape { workers: 2, ..SHAPE }, copies(&memory)).is_err(), "fewer places");
        assert!(Memory::adopt(Shape { workers: 4, ..SHAPE }, copies(&memory)).is_err(), "more places");
        let mut few = copies(&memory);
        few.pop();
        assert!(Memory::adopt(SHAPE, few).is_err(), "one is missing");
        let mut more = copies(&memory);
        more.extend(copies(&memory).pop());
        assert!(Memory::adopt(SHAPE, more).is_err(), "one too many");
        let file = memfd_create("x", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("a file");
        ftruncate(&file, memory.layout.size() as u64).expect("a size");
        let mut unsealed = copies(&memory);
        unsealed[0] = file;
        assert!(Memory::adopt(SHAPE, unsealed).is_err(), "somebody could shrink it");
    }
}
