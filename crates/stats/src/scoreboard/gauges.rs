//! The number of connections in each state, as far as their deadlines show the state. Each process has a cache line for these
//! counters, beside the number of its connections. The lanes of the process add and subtract their changes there before they
//! wait.

use oribi_io::process::SharedLine;
use std::iter::Sum;
use std::sync::atomic::Ordering::Relaxed;

/// The number of counters in the line.
pub const GAUGE_COUNT: usize = 8;

/// The counters of one lane, in their order in memory.
pub type GaugeValues = [u32; GAUGE_COUNT];

/// The line of a process.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionGauges(pub(super) &'static SharedLine);

impl ConnectionGauges {
    /// Replaces the counters of one lane in the sums of the process: `before` by `now`.
    pub fn change(self, before: &GaugeValues, now: &GaugeValues) {
        for ((half, before), now) in self.0.halves.iter().zip(before).zip(now) {
            // Most counters are unchanged. A decrease wraps around to the correct sum.
            if before != now {
                half.fetch_add(now.wrapping_sub(*before), Relaxed);
            }
        }
    }

    /// Sets what clients hold in this process. Its lanes count together.
    pub fn set_held(self, held: &Holdings) {
        self.0.words.iter().zip(held.words()).for_each(|(word, value)| word.store(value, Relaxed));
    }

    /// Resets the counters: the process has ended, or is about to start.
    pub(super) fn clear(self) {
        self.0.halves.iter().for_each(|half| half.store(0, Relaxed));
        self.set_held(&Holdings::default());
    }
}

/// The memory and the files that clients hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Bytes in memory of the bodies of unfinished requests.
    pub body_memory: u64,
    /// Open files with bodies of requests.
    pub body_files: u64,
    /// Bytes in memory of responses that wait for their clients.
    pub response_memory: u64,
    /// Bytes in files of these responses.
    pub response_files: u64,
}

impl Holdings {
    /// In the order of the fields.
    #[must_use]
    pub const fn of([body_memory, body_files, response_memory, response_files]: [u64; 4]) -> Self {
        Self { body_memory, body_files, response_memory, response_files }
    }

    /// In the order of the fields.
    #[must_use]
    pub const fn words(&self) -> [u64; 4] {
        [self.body_memory, self.body_files, self.response_memory, self.response_files]
    }
}

/// The connections of one process or of several, by state and protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// Connections on which a request is being received, or on which no request has been sent yet.
    pub reading: u64,
    /// Connections whose request waits for a worker or is being answered.
    pub answering: u64,
    /// Connections whose client reads the response more slowly than it is produced.
    pub sending: u64,
    /// Connections that wait for their next request.
    pub idle: u64,
    /// Connections that the server has closed and the client has not.
    pub lingering: u64,
    /// Connections that speak HTTP/2, in any state.
    pub http2: u64,
    /// Connections of web servers (FastCGI), in any state.
    pub fastcgi: u64,
    /// The memory and the files that their clients hold.
    pub held: Holdings,
}

impl Connections {
    /// Decodes the counters of a process that has `all` connections. The counters need not be trusted, because they are only
    /// displayed.
    pub(super) fn of(all: u32, numbers: GaugeValues, held: [u64; 4]) -> Self {
        let [head, content, idle, sending, lingering, kept, http2, fastcgi] = numbers.map(u64::from);
        let (reading, idle) = (head + content, idle + kept);
        let answering = u64::from(all).saturating_sub(reading + idle + sending + lingering);
        Self { reading, answering, sending, idle, lingering, http2, fastcgi, held: Holdings::of(held) }
    }

    /// Returns the number in each state, with the state's name for users.
    pub const fn by_state(&self) -> [(&'static str, u64); 5] {
        let Self { reading, answering, sending, idle, lingering, .. } = *self;
        [("reading", reading), ("answering", answering), ("sending", sending), ("idle", idle), ("lingering", lingering)]
    }

    /// Returns the number for each protocol.
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
            held: Holdings {
                body_memory: sum.held.body_memory.saturating_add(one.held.body_memory),
                body_files: sum.held.body_files.saturating_add(one.held.body_files),
                response_memory: sum.held.response_memory.saturating_add(one.held.response_memory),
                response_files: sum.held.response_files.saturating_add(one.held.response_files),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn halves(line: &SharedLine) -> GaugeValues {
        line.halves.each_ref().map(|half| half.load(Relaxed))
    }

    fn words(line: &SharedLine) -> [u64; 4] {
        line.words.each_ref().map(|word| word.load(Relaxed))
    }

    #[test]
    fn several_lanes_say_what_they_have_and_take_it_back() {
        let line: &SharedLine = Box::leak(Box::default());
        let gauges = ConnectionGauges(line);
        let (none, one, other) = ([0; GAUGE_COUNT], [1, 2, 3, 4, 5, 6, 1, 2], [0, 0, 9, 0, 0, 0, 4, 0]);
        gauges.change(&none, &one);
        gauges.change(&none, &other);
        let held = Holdings { body_memory: 1, body_files: 2, response_memory: 3, response_files: 4 };
        gauges.set_held(&held);
        let connections = Connections::of(40, halves(line), words(line));
        let expected =
            Connections { reading: 3, answering: 10, sending: 4, idle: 18, lingering: 5, http2: 5, fastcgi: 2, held };
        assert_eq!(connections, expected);
        assert_eq!(connections.by_protocol(), [("http1", 33), ("http2", 5), ("fastcgi", 2)]);
        let both = [connections, connections].into_iter().sum::<Connections>();
        assert_eq!((both.idle, both.held.response_files), (36, 8));
        gauges.change(&one, &[1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(halves(line), [1, 0, 9, 0, 0, 0, 4, 0]);
        gauges.clear();
        assert_eq!(Connections::of(0, halves(line), words(line)), Connections::default());
    }

    #[test]
    fn nonsense_is_shown_and_does_no_harm() {
        let connections = Connections::of(3, [u32::MAX; GAUGE_COUNT], [u64::MAX; 4]);
        assert_eq!([connections, connections].into_iter().sum::<Connections>().held.body_files, u64::MAX);
        assert_eq!((connections.answering, connections.idle), (0, u64::from(u32::MAX) * 2));
        assert_eq!(connections.by_protocol()[0].1, u64::from(u32::MAX) * 4);
    }
}
