//! What the connections of a process are doing, as far as their deadlines tell: in a cache line of the process, beside the number of its
//! connections. Its lanes add and subtract what has changed there before they wait.

use oribi_io::process::SharedLine;
use std::iter::Sum;
use std::sync::atomic::Ordering::Relaxed;

/// Numbers in the line.
pub const PLACES: usize = 8;

/// The numbers of one lane, in the order in which they stand in memory.
pub type Numbers = [u32; PLACES];

/// The line of a process.
#[derive(Clone, Copy, Debug)]
pub struct Standing(pub(super) &'static SharedLine);

impl Standing {
    /// Replaces what one lane has said by what it says now.
    pub fn change(self, before: &Numbers, now: &Numbers) {
        for ((place, before), now) in self.0.halves.iter().zip(before).zip(now) {
            // Most stay. A lane that has fewer than before wraps to the same sum.
            if before != now {
                place.fetch_add(now.wrapping_sub(*before), Relaxed);
            }
        }
    }

    /// There are no connections, because there is no process, or one that is about to begin.
    pub(super) fn clear(self) {
        self.0.halves.iter().for_each(|place| place.store(0, Relaxed));
    }
}

/// The connections of a process, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// A request is being received, or nothing has been asked yet.
    pub reading: u64,
    /// A request waits for a worker, or is answered.
    pub answering: u64,
    /// The client does not take a response as fast as it is there.
    pub sending: u64,
    /// The next request is waited for.
    pub idle: u64,
    /// The server has ended them, and the client has not.
    pub lingering: u64,
    /// How many of all speak HTTP/2.
    pub http2: u64,
    /// How many are those of web servers.
    pub fastcgi: u64,
}

impl Connections {
    /// What the numbers of a process mean that has so many connections. Whatever they are, they are shown and nothing else.
    pub(super) fn of(all: u32, numbers: Numbers) -> Self {
        let [head, content, idle, sending, lingering, kept, http2, fastcgi] = numbers.map(u64::from);
        let (reading, idle) = (head + content, idle + kept);
        let answering = u64::from(all).saturating_sub(reading + idle + sending + lingering);
        Self { reading, answering, sending, idle, lingering, http2, fastcgi }
    }

    /// How many are in each state, with the names by which users know these.
    pub const fn by_state(&self) -> [(&'static str, u64); 5] {
        let Self { reading, answering, sending, idle, lingering, .. } = *self;
        [("reading", reading), ("answering", answering), ("sending", sending), ("idle", idle), ("lingering", lingering)]
    }

    /// How many speak each protocol.
    pub fn by_protocol(&self) -> [(&'static str, u64); 3] {
        let Self { http2, fastcgi, .. } = *self;
        let all: u64 = self.by_state().iter().map(|(_, number)| number).sum();
        [("http1", all.saturating_sub(http2 + fastcgi)), ("http2", http2), ("fastcgi", fastcgi)]
    }
}

impl Sum for Connections {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            reading: sum.reading + one.reading,
            answering: sum.answering + one.answering,
            sending: sum.sending + one.sending,
            idle: sum.idle + one.idle,
            lingering: sum.lingering + one.lingering,
            http2: sum.http2 + one.http2,
            fastcgi: sum.fastcgi + one.fastcgi,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn halves(line: &SharedLine) -> Numbers {
        line.halves.each_ref().map(|half| half.load(Relaxed))
    }

    #[test]
    fn several_lanes_say_what_they_have_and_take_it_back() {
        let line: &SharedLine = Box::leak(Box::default());
        let standing = Standing(line);
        let (none, one, other) = ([0; PLACES], [1, 2, 3, 4, 5, 6, 1, 2], [0, 0, 9, 0, 0, 0, 4, 0]);
        standing.change(&none, &one);
        standing.change(&none, &other);
        let connections = Connections::of(40, halves(line));
        let expected = Connections { reading: 3, answering: 10, sending: 4, idle: 18, lingering: 5, http2: 5, fastcgi: 2 };
        assert_eq!(connections, expected);
        assert_eq!(connections.by_protocol(), [("http1", 33), ("http2", 5), ("fastcgi", 2)]);
        assert_eq!([connections, connections].into_iter().sum::<Connections>().idle, 36);
        standing.change(&one, &[1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(halves(line), [1, 0, 9, 0, 0, 0, 4, 0]);
        standing.clear();
        assert_eq!(Connections::of(0, halves(line)), Connections::default());
    }

    #[test]
    fn nonsense_is_shown_and_does_no_harm() {
        let connections = Connections::of(3, [u32::MAX; PLACES]);
        assert_eq!((connections.answering, connections.idle), (0, u64::from(u32::MAX) * 2));
        assert_eq!(connections.by_protocol()[0].1, u64::from(u32::MAX) * 4);
    }
}
