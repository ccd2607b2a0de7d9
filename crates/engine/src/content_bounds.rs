//! Bounds for the request content that a process holds until its apps get the content: memory, and open files.
//!
//! Most content is complete when its head has been read, and is not counted. All other content has a [`Share`] of each sum
//! as long as it is held. [`uploads`](super::uploads) enforces the bounds.

use super::bounds::{Share, Sum, usual};
use oribi_config::{Settings, memory_allowed};
use rustix::process::{Resource, getrlimit};
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::Path;
use std::time::Duration;

/// Content may have one in this many of the descriptors that a process may open: connections and files of responses need the
/// rest.
const PART_OF_DESCRIPTORS: u64 = 4;

/// The unfinished requests of one connection may have one in this many bytes of the memory.
const PART_OF_MEMORY: u64 = 8;

/// The most files of the unfinished requests of one connection.
const FILES_OF_CONNECTION: u64 = 16;

/// The rate, in bytes a second, at which content must arrive so that it does not become late: see [`Held::weight`].
const BYTES_PER_SECOND: u64 = 16 << 10;

/// The sums of all engines of a process.
#[derive(Debug, Default)]
pub(super) struct ContentBudget {
    pub(super) memory: Sum,
    pub(super) files: Sum,
}

impl ContentBudget {
    /// The budget of this process.
    pub(super) fn of_process() -> &'static Self {
        static BUDGET: ContentBudget = ContentBudget { memory: Sum::EMPTY, files: Sum::EMPTY };
        &BUDGET
    }
}

/// A bound that is exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Excess {
    Memory,
    Files,
}

/// The bounds of one engine.
#[derive(Clone, Copy, Debug)]
pub(super) struct ContentBounds<'a> {
    pub(super) budget: &'static ContentBudget,
    /// The most bytes of one content in memory; more goes to a file.
    pub(super) in_memory: usize,
    /// Content of at most this size is kept in a file in memory if the disk refuses it.
    pub(super) small: u64,
    /// The directory of the files.
    pub(super) directory: &'a Path,
    memory_total: u64,
    files_total: u64,
}

impl<'a> ContentBounds<'a> {
    pub(super) fn new(settings: &'a Settings, budget: &'static ContentBudget) -> Self {
        let limits = &settings.limits;
        let descriptors =
            || getrlimit(Resource::Nofile).current.map_or(u64::MAX, |number| (number / PART_OF_DESCRIPTORS).max(1));
        Self {
            budget,
            in_memory: limits.content_memory_bytes,
            small: limits.content_memory_bytes.max(limits.content_small_bytes) as u64,
            directory: &settings.temporary_directory,
            memory_total: limits.content_memory_total.unwrap_or_else(|| usual(memory_allowed())),
            files_total: limits.content_files_total.unwrap_or_else(descriptors),
        }
    }

    /// The bound that is exceeded, if any.
    #[inline]
    pub(super) fn excess(&self) -> Option<Excess> {
        if self.budget.files.bytes() > self.files_total {
            return Some(Excess::Files);
        }
        (self.budget.memory.bytes() > self.memory_total).then_some(Excess::Memory)
    }

    /// Whether content that is being moved to files must go on moving: until an eighth of the memory is free, so that not every
    /// new piece has to move others.
    pub(super) fn is_memory_short(&self) -> bool {
        self.budget.memory.bytes() > self.memory_total - self.memory_total / PART_OF_MEMORY
    }

    /// The most bytes in memory of the unfinished requests of a connection.
    pub(super) const fn memory_of_connection(&self) -> u64 {
        self.memory_total / PART_OF_MEMORY
    }

    /// The most files of the unfinished requests of a connection; one request may always have one.
    pub(super) fn files_of_connection(&self) -> u64 {
        FILES_OF_CONNECTION.min(self.files_total).max(1)
    }

    /// Whether another file is within the bound.
    pub(super) fn has_file(&self) -> bool {
        self.budget.files.bytes() < self.files_total
    }

    /// Whether `number` more files are within the bound.
    pub(super) fn has_files(&self, number: u64) -> bool {
        self.budget.files.bytes() + number <= self.files_total
    }

    /// Whether some connection may have more memory than its share.
    #[inline]
    pub(super) fn may_exceed_share(&self) -> bool {
        self.budget.memory.bytes() > self.memory_of_connection()
    }
}

/// The memory and the files of content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) memory: u64,
    pub(super) files: u64,
}

impl Held {
    pub(super) fn add(&mut self, other: Self) {
        self.memory += other.memory;
        self.files += other.files;
    }

    /// The burden of content for other requests: the memory or the number of files that it holds, whichever is exceeded,
    /// multiplied by the milliseconds by which it is late. Its reception began `age` ago, and `received` bytes have arrived.
    pub(super) fn weight(self, excess: Excess, age: Duration, received: u64) -> u128 {
        let amount = match excess {
            Excess::Memory => self.memory,
            Excess::Files => self.files,
        };
        let behind = age.saturating_sub(Duration::from_millis(received.saturating_mul(1000) / BYTES_PER_SECOND));
        u128::from(amount) * (behind.as_millis() + 1)
    }
}

/// A file with content. It counts in a sum of files as long as it is open.
#[derive(Debug)]
pub struct CountedFile {
    file: File,
    share: Share,
}

impl CountedFile {
    /// A file that counts in `files`.
    pub fn new(file: File, files: &'static Sum) -> Self {
        let mut share = Share::of(files);
        share.set(1);
        Self { file, share }
    }

    /// Another descriptor of the file, which counts as well.
    ///
    /// # Errors
    /// The operating system refused a call.
    pub fn try_clone(&self) -> io::Result<Self> {
        let mut share = self.share.another();
        share.set(1);
        Ok(Self { file: self.file.try_clone()?, share })
    }

    /// Replaces the file by another.
    pub(super) fn replace(&mut self, file: File) {
        self.file = file;
    }
}

impl Deref for CountedFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(memory: u64, files: u64) -> ContentBounds<'static> {
        let budget = Box::leak(Box::default());
        ContentBounds {
            budget,
            in_memory: 1000,
            small: 1000,
            directory: Path::new("/"),
            memory_total: memory,
            files_total: files,
        }
    }

    #[test]
    fn a_bound_is_exceeded_as_long_as_more_is_held() {
        let bounds = bounds(100, 2);
        let open = || CountedFile::new(File::open("/dev/null").expect("it is there"), &bounds.budget.files);
        let mut memory = Share::of(&bounds.budget.memory);
        memory.set(100);
        let mut files = vec![open(), open()];
        assert_eq!(bounds.excess(), None);
        files.push(open());
        memory.set(101);
        assert_eq!(bounds.excess(), Some(Excess::Files));
        files[0].replace(File::open("/dev/zero").expect("it is there"));
        assert_eq!(bounds.budget.files.bytes(), 3, "another file in its place counts as one");
        files.pop();
        assert_eq!(bounds.excess(), Some(Excess::Memory));
        drop(memory);
        assert_eq!((bounds.excess(), bounds.may_exceed_share()), (None, false));
        drop(files);
        assert_eq!(bounds.budget.files.bytes(), 0);
    }

    #[test]
    fn a_connection_has_a_part_and_never_nothing() {
        for (memory, files, expected) in [(64 << 20, 256, (8 << 20, 16)), (800, 3, (100, 3)), (0, 0, (0, 1))] {
            let bounds = bounds(memory, files);
            assert_eq!((bounds.memory_of_connection(), bounds.files_of_connection()), expected);
        }
    }

    #[test]
    fn old_and_large_content_is_heavier_than_new_content_and_than_content_that_comes() {
        let second = Duration::from_secs(1);
        let weight = |memory, age: u32, received| Held { memory, files: 1 }.weight(Excess::Memory, second * age, received);
        assert!(weight(1000, 10, 1000) > weight(1000, 5, 1000), "older");
        assert!(weight(1000, 10, 1000) > weight(500, 10, 500), "larger");
        assert!(weight(1000, 10, 1000) > weight(1000, 60, 1 << 20), "it comes");
        let of_file = |age: u32, received| Held { memory: 0, files: 1 }.weight(Excess::Files, second * age, received);
        assert!(of_file(60, 0) > of_file(60, 1 << 20) && of_file(2, 0) > of_file(1, 0));
    }
}
