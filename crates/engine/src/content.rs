//! Stores request content until the app gets it: in the input buffer, in memory, or in an unlinked file.

use super::bounds::Share;
use super::content_bounds::{ContentBounds, CountedFile, Held};
use super::input::{BUFFER_BYTES, Input};
use oribi_host::Content;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

/// Pieces for a file are collected up to this size: a client may send content in chunks of one byte, and a write of one byte
/// costs as much as a large one.
const GATHERED_BYTES: usize = 16 << 10;

/// Content smaller than this is not moved from memory to a separate file.
const LEAST_MOVED: usize = 4 << 10;

/// The bytes copied at a time from one file to another.
const COPIED_BYTES: usize = 64 << 10;

/// The content of one request, complete or being received.
#[derive(Debug, Default)]
pub(super) enum StoredContent {
    /// The request has no content.
    #[default]
    None,
    /// In the input buffer, starting at `start`. The buffer is counted after the first wait for the client.
    Inline { start: usize, size: usize, memory: Share },
    /// In memory. `bytes` has room for all expected bytes, or more; `filled` bytes have arrived.
    Memory { bytes: Vec<u8>, filled: usize, memory: Share },
    /// In a file, with the pieces collected for it.
    File(Box<FileContent>),
}

/// Content in an unlinked file, and the small pieces collected for it.
#[derive(Debug)]
pub(super) struct FileContent {
    file: CountedFile,
    gathered: Vec<u8>,
    /// The number of bytes of the content, including the collected ones.
    size: u64,
    /// Whether the file is in memory, because the disk refused it.
    in_memory: bool,
    memory: Share,
}

/// The places for content that is about to arrive.
pub(super) struct Room<'a> {
    /// The buffer with the head, if content may follow the head there.
    pub(super) input: Option<&'a mut Input>,
    /// Memory of earlier content.
    pub(super) spare: &'a mut Vec<u8>,
    pub(super) bounds: ContentBounds<'a>,
}

impl StoredContent {
    /// Content of no bytes.
    pub(super) const EMPTY: Self = Self::Memory { bytes: Vec::new(), filled: 0, memory: Share::NONE };

    /// Chooses a place for content: the input buffer if all of it fits after the received bytes, else memory, else a file.
    /// Content of unknown size begins in memory.
    pub(super) fn with_room(size: Option<u64>, room: &mut Room<'_>) -> io::Result<Self> {
        let Some(size) = size else { return Ok(Self::EMPTY) };
        if let Some(input) = &mut room.input
            && size <= BUFFER_BYTES.saturating_sub(input.position()) as u64
        {
            input.pinned = true;
            return Ok(Self::Inline { start: input.position(), size: 0, memory: Share::NONE });
        }
        if size > room.bounds.in_memory as u64 {
            return Ok(Self::File(FileContent::new(size, &room.bounds)?));
        }
        // A declared size alone costs nothing, because the kernel allocates fresh pages only when content arrives. Reused
        // pages also cost nothing, because the kernel need not clear them.
        let size = size as usize;
        let bytes = if room.spare.len() >= size { std::mem::take(room.spare) } else { vec![0; size] };
        Ok(Self::Memory { bytes, filled: 0, memory: Share::NONE })
    }

    /// Keeps memory of up to `largest` bytes for the next content.
    pub(super) fn recycle(self, spare: &mut Vec<u8>, largest: usize) {
        if let Self::Memory { bytes, .. } = self
            && bytes.len() > spare.len()
            && bytes.len() <= largest
        {
            *spare = bytes;
        }
    }

    /// Adds a piece. Content that outgrows its bound in memory moves to a file.
    pub(super) fn add(&mut self, piece: &[u8], bounds: &ContentBounds<'_>) -> io::Result<()> {
        if self.outgrows_memory(piece.len(), bounds) {
            self.move_to_file(piece.len(), bounds)?;
        }
        self.add_here(piece, bounds)
    }

    /// Whether the content is in memory, and would exceed the bound there with `more` bytes.
    pub(super) fn outgrows_memory(&self, more: usize, bounds: &ContentBounds<'_>) -> bool {
        matches!(self, Self::Memory { filled, .. } if *filled + more > bounds.in_memory)
    }

    /// Moves the content from memory to a file; `more` bytes will follow.
    pub(super) fn move_to_file(&mut self, more: usize, bounds: &ContentBounds<'_>) -> io::Result<()> {
        if let Self::Memory { bytes, filled, .. } = self {
            let mut moved = FileContent::new((*filled + more) as u64, bounds)?;
            moved.add(&bytes[..*filled], bounds)?;
            *self = Self::File(moved);
        }
        Ok(())
    }

    /// The number of counted bytes in memory that could be in a file instead. Content of less than a page is not worth a file.
    pub(super) fn movable(&self) -> u64 {
        match self {
            Self::None | Self::Inline { .. } => 0,
            Self::Memory { filled, .. } if *filled < LEAST_MOVED => 0,
            Self::Memory { memory, filled, .. } => memory.bytes().min(*filled as u64),
            // The disk has already refused this content.
            Self::File(content) if content.in_memory => 0,
            Self::File(content) => content.memory.bytes(),
        }
    }

    /// Moves the bytes of the content from memory to its file, or to a new file.
    pub(super) fn leave_memory(&mut self, bounds: &ContentBounds<'_>) -> io::Result<()> {
        self.move_to_file(0, bounds)?;
        self.complete(bounds)
    }

    /// Whether the content has a file.
    pub(super) const fn has_file(&self) -> bool {
        matches!(self, Self::File(_))
    }

    /// Adds a piece in the place where the content is, without a check of its bound in memory.
    pub(super) fn add_here(&mut self, piece: &[u8], bounds: &ContentBounds<'_>) -> io::Result<()> {
        match self {
            // Requests without content get no pieces.
            Self::None => {}
            Self::Inline { size, .. } => *size += piece.len(),
            Self::Memory { bytes, filled, .. } => {
                let end = *filled + piece.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[*filled..end].copy_from_slice(piece);
                *filled = end;
            }
            Self::File(content) => return content.add(piece, bounds),
        }
        Ok(())
    }

    /// Counts the memory of the content. For inline content, `more` is the size of its buffer; otherwise, it is the size of the
    /// head that waits with the content.
    pub(super) fn count(&mut self, more: usize, bounds: &ContentBounds<'_>) {
        let (memory, size) = match self {
            Self::Inline { memory, .. } => (memory, more),
            Self::Memory { memory, filled, .. } => (memory, *filled + more),
            Self::None | Self::File(_) => return,
        };
        if !memory.counts() {
            *memory = Share::of(&bounds.budget.memory);
        }
        memory.set(size as u64);
    }

    /// Notes that the app gets the content, so that the memory of the content no longer counts. A file counts until it is
    /// closed.
    #[inline]
    pub(super) fn pass_on(&mut self) {
        if !self.is_none() {
            self.leave_the_sums();
        }
    }

    #[inline(never)]
    fn leave_the_sums(&mut self) {
        match self {
            Self::None => {}
            Self::Inline { memory, .. } | Self::Memory { memory, .. } => memory.set(0),
            Self::File(content) => content.memory.set(0),
        }
    }

    /// The memory and the files of the content, as far as they have been counted.
    pub(super) fn held(&self) -> Held {
        match self {
            Self::None => Held::default(),
            Self::Inline { memory, .. } | Self::Memory { memory, .. } => Held { memory: memory.bytes(), files: 0 },
            Self::File(content) => Held { memory: content.memory.bytes(), files: 1 },
        }
    }

    /// The number of bytes that have arrived.
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::Inline { size, .. } => *size as u64,
            Self::Memory { filled, .. } => *filled as u64,
            Self::File(content) => content.size,
        }
    }

    /// Whether the request has no content at all.
    #[inline]
    pub(super) const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Whether no content has arrived.
    pub(super) fn is_empty(&self) -> bool {
        self.size() == 0
    }

    /// Writes the bytes that are still missing in the file of the content.
    #[inline]
    pub(super) fn complete(&mut self, bounds: &ContentBounds<'_>) -> io::Result<()> {
        if let Self::File(content) = self { content.complete(bounds) } else { Ok(()) }
    }

    /// The content in the form for hosts; `input` is the buffer with inline content.
    #[inline]
    pub(super) fn view<'a>(&'a self, input: &'a [u8]) -> Content<'a> {
        match self {
            Self::None => Content::None,
            Self::Inline { start, size, .. } => Content::Memory(&input[*start..*start + *size]),
            Self::Memory { bytes, filled, .. } => Content::Memory(&bytes[..*filled]),
            Self::File(content) => Content::File { file: content.file.as_fd(), size: content.size },
        }
    }
}

impl FileContent {
    /// Creates the file for content of at least `expected` bytes.
    fn new(expected: u64, bounds: &ContentBounds<'_>) -> io::Result<Box<Self>> {
        let on_disk = tempfile::tempfile_in(bounds.directory);
        let (file, in_memory) = match on_disk {
            Ok(file) => (file, false),
            Err(_) if expected <= bounds.small => (file_in_memory()?, true),
            Err(error) => return Err(error),
        };
        let file = CountedFile::new(file, &bounds.budget.files);
        Ok(Box::new(Self { file, gathered: Vec::new(), size: 0, in_memory, memory: Share::of(&bounds.budget.memory) }))
    }

    fn add(&mut self, piece: &[u8], bounds: &ContentBounds<'_>) -> io::Result<()> {
        if self.in_memory && self.size + piece.len() as u64 > bounds.small {
            self.move_to(tempfile::tempfile_in(bounds.directory)?)?;
            self.in_memory = false;
        }
        self.try_or_in_memory(piece.len(), bounds, |content| content.append(piece))
    }

    #[inline(never)]
    fn complete(&mut self, bounds: &ContentBounds<'_>) -> io::Result<()> {
        self.try_or_in_memory(0, bounds, |content| {
            content.write_gathered()?;
            content.gathered = Vec::new();
            Ok(())
        })
    }

    /// Calls `act`. If the disk refuses, and the content with `more` bytes is small, moves the content to memory and calls
    /// `act` again.
    fn try_or_in_memory(
        &mut self,
        more: usize,
        bounds: &ContentBounds<'_>,
        act: impl Fn(&mut Self) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut done = act(self);
        if done.is_err() && !self.in_memory && self.size + more as u64 <= bounds.small {
            self.move_to(file_in_memory()?)?;
            self.in_memory = true;
            done = act(self);
        }
        self.memory.set(if self.in_memory { self.size } else { self.gathered.len() as u64 });
        done
    }

    /// Appends a piece. On failure, the content is unchanged.
    fn append(&mut self, piece: &[u8]) -> io::Result<()> {
        if self.gathered.len() + piece.len() > GATHERED_BYTES {
            self.write_gathered()?;
        }
        if piece.len() < GATHERED_BYTES {
            self.gathered.extend_from_slice(piece);
        } else {
            self.file.write_all_at(piece, self.size)?;
        }
        self.size += piece.len() as u64;
        Ok(())
    }

    fn write_gathered(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.gathered, self.written())?;
        self.gathered.clear();
        Ok(())
    }

    /// The number of bytes in the file.
    fn written(&self) -> u64 {
        self.size - self.gathered.len() as u64
    }

    /// Moves the bytes of the file to another file.
    fn move_to(&mut self, file: File) -> io::Result<()> {
        let (mut position, written) = (0, self.written());
        let mut buffer = vec![0; COPIED_BYTES.min(written as usize)];
        while position < written {
            let count = (written - position).min(COPIED_BYTES as u64) as usize;
            self.file.read_exact_at(&mut buffer[..count], position)?;
            file.write_all_at(&buffer[..count], position)?;
            position += count as u64;
        }
        self.file.replace(file);
        Ok(())
    }
}

/// Creates a file in memory.
fn file_in_memory() -> io::Result<File> {
    Ok(memfd_create("oribi-content", MemfdFlags::CLOEXEC)?.into())
}

#[cfg(test)]
mod tests {
    use super::super::content_bounds::ContentBudget;
    use super::*;
    use oribi_config::Settings;
    use std::path::PathBuf;

    /// Bounds under which content of up to `small` bytes stays in memory if the disk is full.
    fn bounds(directory: PathBuf, small: usize) -> ContentBounds<'static> {
        let mut settings = Settings { temporary_directory: directory, ..Settings::default() };
        (settings.limits.content_memory_bytes, settings.limits.content_small_bytes) = (100, small);
        let budget: &'static ContentBudget = Box::leak(Box::default());
        ContentBounds::new(Box::leak(Box::new(settings)), budget)
    }

    fn pieces(sizes: impl IntoIterator<Item = usize>) -> Vec<Vec<u8>> {
        let mut start = 0;
        let piece = |size| {
            start += size;
            (start - size..start).map(|number| (number % 251) as u8).collect()
        };
        sizes.into_iter().map(piece).collect()
    }

    fn read(content: &StoredContent) -> Vec<u8> {
        match content.view(&[]) {
            Content::None => Vec::new(),
            Content::Memory(bytes) => bytes.to_vec(),
            Content::File { file, size } => {
                let file = File::from(file.try_clone_to_owned().expect("a descriptor"));
                assert_eq!(file.metadata().expect("it is open").len(), size);
                let mut bytes = vec![0; size as usize];
                file.read_exact_at(&mut bytes, 0).expect("all has been written");
                bytes
            }
        }
    }

    #[test]
    fn small_pieces_reach_a_file_in_blocks_and_in_order() {
        let bounds = bounds(std::env::temp_dir(), 0);
        let mut content = StoredContent::File(FileContent::new(u64::MAX, &bounds).expect("a file"));
        let sizes =
            std::iter::repeat_n(1, 3 * GATHERED_BYTES).chain([GATHERED_BYTES - 1, 2, 3 * GATHERED_BYTES, 5, GATHERED_BYTES, 7]);
        let (mut lengths, pieces) = (Vec::new(), pieces(sizes));
        for piece in &pieces {
            content.add(piece, &bounds).expect("there is room");
            let StoredContent::File(content) = &content else { panic!("it stays a file") };
            lengths.push(content.file.metadata().expect("it is open").len());
        }
        lengths.dedup();
        assert!(lengths.len() < 12, "{} writes", lengths.len());
        content.complete(&bounds).expect("there is room");
        assert!(read(&content) == pieces.concat());
    }

    #[test]
    fn content_is_counted_until_it_is_passed_on_or_dropped() {
        let bounds = bounds(std::env::temp_dir(), 0);
        let sums = || (bounds.budget.memory.bytes(), bounds.budget.files.bytes());
        let mut content = StoredContent::EMPTY;
        for (size, expected) in [(40, (40, 0)), (60, (100, 0)), (1, (101, 1)), (5000, (5101, 1)), (20_000, (0, 1))] {
            content.add(&vec![0; size], &bounds).expect("there is room");
            content.count(0, &bounds);
            assert_eq!(sums(), expected);
        }
        drop(content);
        assert_eq!(sums(), (0, 0));
        let mut inline = StoredContent::Inline { start: 0, size: 5, memory: Share::NONE };
        assert_eq!(sums(), (0, 0), "what has come with its head is not counted");
        inline.count(4096, &bounds);
        assert_eq!((sums(), inline.held()), ((4096, 0), Held { memory: 4096, files: 0 }));
        inline.pass_on();
        assert_eq!(sums(), (0, 0));
    }

    #[test]
    fn small_content_needs_no_disk() {
        const SMALL: usize = 100_000;
        let nowhere = bounds(PathBuf::from("/nonexistent/oribi"), SMALL);
        for sizes in [vec![50, 60], vec![1; 5000], vec![SMALL], vec![SMALL / 2, SMALL / 2], vec![30_000, 5, 60_000]] {
            let (mut content, pieces) = (StoredContent::EMPTY, pieces(sizes));
            for piece in &pieces {
                content.add(piece, &nowhere).expect("it needs no disk");
            }
            content.complete(&nowhere).expect("it needs no disk");
            let size = pieces.concat().len() as u64;
            assert_eq!(content.held(), Held { memory: size, files: 1 });
            assert!(read(&content) == pieces.concat());
            content.pass_on();
            assert_eq!(nowhere.budget.memory.bytes(), 0);
        }
        let mut large = StoredContent::EMPTY;
        large.add(&[1; SMALL], &nowhere).expect("it needs no disk");
        assert!(large.add(&[1], &nowhere).is_err(), "what is large does");
        let room = &mut Room { input: None, spare: &mut Vec::new(), bounds: nowhere };
        assert!(StoredContent::with_room(Some(SMALL as u64 + 1), room).is_err());
        assert!(StoredContent::with_room(Some(SMALL as u64), room).is_ok());
    }

    #[test]
    fn content_leaves_a_disk_that_is_full_and_comes_back() {
        let directory = std::env::temp_dir();
        let full = || File::options().write(true).read(true).open("/dev/full").expect("it is there");
        let bounds = bounds(directory, 100_000);
        let mut content = FileContent::new(u64::MAX, &bounds).expect("a file");
        let pieces = pieces([20_000, 30, 20_000, 100, 70_000]);
        content.add(&pieces[0], &bounds).expect("there is room");
        // A read from the full disk returns no bytes, so the content begins here.
        content.file.replace(full());
        content.size = 0;
        content.add(&pieces[0], &bounds).expect("it fits into memory");
        assert!(content.in_memory);
        for piece in &pieces[1..] {
            content.add(piece, &bounds).expect("there is room");
        }
        assert!(!content.in_memory, "it is too large for memory");
        content.complete(&bounds).expect("there is room");
        assert!(read(&StoredContent::File(content)) == pieces.concat());
        let mut last = FileContent::new(u64::MAX, &bounds).expect("a file");
        last.file.replace(full());
        last.add(b"few", &bounds).expect("they are gathered");
        last.complete(&bounds).expect("it fits into memory");
        assert_eq!(read(&StoredContent::File(last)), b"few");
    }
}
