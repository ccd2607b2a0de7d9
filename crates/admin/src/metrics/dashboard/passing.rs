//! Passes the history on to the next program of an upgrade.
//!
//! The file in memory is created together with the dashboard. The history is written to the file when the next program is
//! started, and once more when that program serves; then the history is final. The next program reads the file when it takes
//! over, and again until the history is final. It does not trust the file, and ignores a file of another format.

use super::history::{History, WORDS};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// "OribiHis" plus the number of words of a point, so that versions with different points ignore each other's files.
const MAGIC: u64 = u64::from_be_bytes(*b"OribiHis") + WORDS as u64;

/// The number of 64-bit words of the head: the format, whether the history is final, and the number of points of both tracks.
const HEAD: usize = 4;

/// The most bytes read.
const MOST: usize = 256 << 10;

/// The file of a dashboard for the next program.
#[derive(Debug)]
pub(super) struct Bequest(File);

impl Bequest {
    /// Creates the file.
    ///
    /// # Errors
    /// The operating system refused a call.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(File::from(memfd_create("oribi-history", MemfdFlags::CLOEXEC)?)))
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Writes `history` to the file. `whole`: whether the history is final.
    ///
    /// # Errors
    /// The operating system refused a call.
    pub(super) fn write(&self, history: &History, whole: bool) -> io::Result<()> {
        let [fine, coarse] = history.words();
        let number = |words: &[u64]| (words.len() / WORDS) as u64;
        let mut all = vec![MAGIC, 0, number(&fine), number(&coarse)];
        all.extend(fine.iter().chain(&coarse));
        let bytes: Vec<u8> = all.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.0.write_all_at(&bytes, 0)?;
        // Written last, so that a part of the history is never mistaken for the whole.
        self.0.write_all_at(&u64::from(whole).to_ne_bytes(), 8)
    }
}

/// The file of the previous program's dashboard.
#[derive(Debug)]
pub(super) struct Inheritance(File);

impl Inheritance {
    pub(super) fn of(file: OwnedFd) -> Self {
        Self(File::from(file))
    }

    /// Inserts the points in the file before those of `history`. Returns whether the file need not be read again, because its
    /// history is final or unusable. Otherwise more points may follow.
    pub(super) fn read(&self, history: &mut History) -> bool {
        let mut bytes = vec![0; MOST];
        let Ok(size) = self.0.read_at(&mut bytes, 0) else { return true };
        let words: Vec<u64> =
            bytes[..size].chunks_exact(8).filter_map(|word| word.try_into().ok().map(u64::from_ne_bytes)).collect();
        let Some((&[magic, whole, fine, coarse], points)) = words.split_first_chunk::<HEAD>() else { return true };
        let length = |number: u64| usize::try_from(number).ok().and_then(|number| number.checked_mul(WORDS));
        let (Some(fine), Some(coarse)) = (length(fine), length(coarse)) else { return true };
        let Some((fine, rest)) = points.split_at_checked(fine) else { return true };
        let Some((coarse, _)) = rest.split_at_checked(coarse) else { return true };
        if magic == MAGIC {
            history.inherit([fine, coarse]);
        }
        whole == 1 || magic != MAGIC
    }
}

#[cfg(test)]
mod tests {
    use super::super::history::{Reading, UNKNOWN};
    use super::*;
    use oribi_stats::totals::Counts;
    use std::time::{Duration, Instant, SystemTime};

    /// A history with points at these seconds, and as many connections as seconds.
    fn history(seconds: std::ops::Range<u64>) -> History {
        let (mut history, begun) = (History::new(), Instant::now());
        for second in seconds.step_by(2) {
            let after = Duration::from_secs(second);
            let reading = Reading::new(&Counts::default(), [second, 0, 0, 0, 0, 0, 0, UNKNOWN]);
            history.note(&reading, begun + after, SystemTime::UNIX_EPOCH + after);
        }
        history
    }

    fn inheritance(bequest: &Bequest) -> Inheritance {
        Inheritance::of(bequest.descriptor().try_clone_to_owned().expect("a descriptor"))
    }

    #[test]
    fn the_next_history_begins_with_the_one_before() {
        let bequest = Bequest::new().expect("a file in memory");
        bequest.write(&history(0..60), false).expect("there is memory");
        let (file, mut next) = (inheritance(&bequest), history(70..80));
        assert!(!file.read(&mut next), "there may be more");
        assert_eq!(next.times(), [(2..60).step_by(2).chain((72..80).step_by(2)).collect(), vec![16, 30, 46]]);
        bequest.write(&history(0..70), true).expect("there is memory");
        assert!(file.read(&mut next));
        assert_eq!(next.times(), [(2..80).step_by(2).filter(|at| *at != 70).collect::<Vec<_>>(), vec![16, 30, 46, 60]]);
        // This history also passes on the points that it has inherited.
        let further = Bequest::new().expect("a file in memory");
        further.write(&next, true).expect("there is memory");
        let mut last = History::new();
        assert!(inheritance(&further).read(&mut last));
        assert_eq!((last.words(), last.times()), (next.words(), next.times()));
    }

    #[test]
    fn the_newest_of_both_find_room_and_what_comes_later_is_not_inherited() {
        let bequest = Bequest::new().expect("a file in memory");
        // Both programs took samples at the same time for a while.
        bequest.write(&history(0..7950), true).expect("there is memory");
        let mut next = history(7900..7990);
        assert!(inheritance(&bequest).read(&mut next));
        let [fine, coarse] = next.times();
        assert!(fine.windows(2).all(|two| two[0] < two[1]), "{fine:?}");
        assert_eq!((fine.len(), fine.first(), fine.last()), (150, Some(&7688), Some(&7988)));
        assert!(coarse.is_sorted() && coarse.len() == 240, "{coarse:?}");
    }

    #[test]
    fn what_is_something_else_is_left_alone() {
        let read = |bytes: &[u8]| {
            let bequest = Bequest::new().expect("a file in memory");
            bequest.0.write_all_at(bytes, 0).expect("there is memory");
            let mut next = history(0..10);
            (inheritance(&bequest).read(&mut next), next.times()[0].len())
        };
        let head = |words: [u64; HEAD]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        for bytes in [
            Vec::new(),
            vec![7; 31],
            vec![0xff; 4 << 20],
            head([MAGIC + 1, 1, 0, 0]),
            head([MAGIC, 1, 1, 0]),
            head([MAGIC, 1, 0, u64::MAX]),
            head([MAGIC, 1, u64::MAX / 8, 1 << 60]),
        ] {
            assert_eq!(read(&bytes), (true, 4), "{:?}", &bytes[..bytes.len().min(32)]);
        }
        assert_eq!(read(&head([MAGIC, 0, 0, 0])), (false, 4));
    }
}
