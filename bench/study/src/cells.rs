//! The cells: one way of loading servers each. The whole product is gone through, so that every omission has a reason.

use std::fmt;

/// The use of connections by clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pattern {
    /// One request after the other on each.
    KeepAlive,
    /// A connection for each request.
    Short,
    /// Sixteen requests at once on each.
    Pipelined,
    /// As [`Pattern::KeepAlive`], but the client takes its answer slowly.
    SlowReaders,
    /// As [`Pattern::KeepAlive`], but the client sends its request slowly.
    SlowSenders,
}

impl Pattern {
    /// All, in the order of the report.
    pub const ALL: [Pattern; 5] =
        [Pattern::KeepAlive, Pattern::Short, Pattern::Pipelined, Pattern::SlowReaders, Pattern::SlowSenders];

    /// The beginning of the names of cells.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::KeepAlive => "keep-alive",
            Pattern::Short => "short",
            Pattern::Pipelined => "pipelined",
            Pattern::SlowReaders => "slow-readers",
            Pattern::SlowSenders => "slow-senders",
        }
    }

    /// Its name in headings.
    pub fn title(self) -> &'static str {
        match self {
            Pattern::KeepAlive => "Keep-alive",
            Pattern::Short => "Short connections",
            Pattern::Pipelined => "Pipelined, 16 deep",
            Pattern::SlowReaders => "Slow readers",
            Pattern::SlowSenders => "Slow senders",
        }
    }

    /// The pattern of that name.
    pub fn parse(name: &str) -> Option<Pattern> {
        Pattern::ALL.into_iter().find(|pattern| pattern.name() == name)
    }

    /// Whether the clients are slow and so determine the amount of work; then there is neither a peak nor a fixed rate.
    pub fn is_slow(self) -> bool {
        matches!(self, Pattern::SlowReaders | Pattern::SlowSenders)
    }
}

/// The transport of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transport {
    /// TCP over the loopback interface.
    Tcp,
    /// Unix sockets.
    Unix,
}

impl Transport {
    /// The end of the names of cells.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Tcp => "tcp",
            Transport::Unix => "unix",
        }
    }

    /// Its name in headings.
    pub fn title(self) -> &'static str {
        match self {
            Transport::Tcp => "TCP",
            Transport::Unix => "Unix sockets",
        }
    }

    /// The transport of that name.
    pub fn parse(name: &str) -> Option<Transport> {
        [Transport::Tcp, Transport::Unix].into_iter().find(|transport| transport.name() == name)
    }
}

/// The question to which a cell belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StudyQuestion {
    /// The I/O models: one lane in each server.
    Io,
    /// How connections get to several lanes: this number of lanes in each server.
    Network {
        /// Lanes of each server.
        lanes: usize,
        /// The number of CPUs that the lanes share; with the load generator, if the machine has no more CPUs.
        cpus: usize,
    },
}

/// One way of loading servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The question it belongs to.
    pub part: StudyQuestion,
    /// The behaviours of clients.
    pub pattern: Pattern,
    /// The number of open connections. With [`Pattern::Short`], it counts the requests at the same time and the idle
    /// connections.
    pub connections: usize,
    /// The number of active ones; the others are idle.
    pub active: usize,
    /// Bytes of content in each answer.
    pub body: usize,
    /// The transport of connections.
    pub transport: Transport,
}

impl Cell {
    /// Whether the study has targets for this cell: cells of one lane with `CONNECTIONS_OF_TARGETS` connections have.
    pub fn has_target(&self) -> bool {
        self.part == StudyQuestion::Io && self.connections == CONNECTIONS_OF_TARGETS && !self.pattern.is_slow()
    }

    /// Whether one source address has too few ports to open the connections quickly: the kernel first tries every other port,
    /// and then one port after another. With several source addresses, a port is reserved before its connection is known, and
    /// for a minute after that clients without a fixed address cannot use the port. So these cells are measured last.
    pub fn needs_sources(&self) -> bool {
        self.transport == Transport::Tcp && self.connections > 10_000
    }

    /// Whether the memory of the connections can be distinguished from the server's own memory: there are thousands of
    /// connections, or each holds output that its client has not received yet.
    pub fn tells_memory(&self) -> bool {
        self.connections >= 4096 || self.pattern.is_slow()
    }
}

impl fmt::Display for Cell {
    /// Its name, as in `keep-alive-256-1k-tcp`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let StudyQuestion::Network { lanes, cpus } = self.part {
            write!(out, "lanes-{lanes}-cpus-{cpus}-")?;
        }
        let (pattern, transport) = (self.pattern.name(), self.transport.name());
        write!(out, "{pattern}-{}-{}-{transport}", self.connections, short_size(self.body))
    }
}

/// Bytes as names of cells have them: `12b`, `1k`, `1m`.
pub fn short_size(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes}b"),
        1024..0x10_0000 => format!("{}k", bytes >> 10),
        _ => format!("{}m", bytes >> 20),
    }
}

/// Bytes as tables have them: `12 B`, `1 KiB`, `1 MiB`.
pub fn size(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..0x10_0000 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

/// The four sizes of the study.
const BODIES: [usize; 4] = [12, KIB, 64 * KIB, MIB];
const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
/// Open connections.
const CONNECTIONS: [usize; 5] = [1, 16, 256, 4096, 16384];
/// The connections for which the targets are stated.
const CONNECTIONS_OF_TARGETS: usize = 64;
/// The number of active connections where most are idle.
const ACTIVE: usize = 256;
/// Bytes that a slow reader takes in a second.
pub const READER: usize = MIB;
/// Bytes that a slow sender sends in a second: its request of some forty bytes takes a tenth of a second.
pub const SENDER: usize = 400;

/// A cell that is not measured, by name, and why.
pub type LeftOut = (String, &'static str);

/// Every cell of the study, and every one that is left out.
pub fn all() -> (Vec<Cell>, Vec<LeftOut>) {
    let (mut cells, mut left_out) = (Vec::new(), Vec::new());
    for transport in [Transport::Tcp, Transport::Unix] {
        for pattern in [Pattern::KeepAlive, Pattern::Short, Pattern::Pipelined] {
            for body in BODIES {
                let stated = body == 12 && transport == Transport::Tcp && pattern != Pattern::Pipelined;
                for connections in CONNECTIONS.into_iter().chain(stated.then_some(CONNECTIONS_OF_TARGETS)) {
                    let idle = connections > 4096 || connections == 4096 && body > KIB;
                    let active = if idle { ACTIVE } else { connections };
                    let cell = Cell { part: StudyQuestion::Io, pattern, connections, active, body, transport };
                    match reason_to_leave_out(&cell) {
                        Some(reason) => left_out.push((cell.to_string(), reason)),
                        None => cells.push(cell),
                    }
                }
            }
        }
    }
    let slow = |pattern, connections, body, transport| {
        let active = connections;
        Cell { part: StudyQuestion::Io, pattern, connections, active, body, transport }
    };
    cells.push(slow(Pattern::SlowReaders, 64, MIB, Transport::Tcp));
    cells.push(slow(Pattern::SlowReaders, 64, MIB, Transport::Unix));
    cells.push(slow(Pattern::SlowSenders, 256, 12, Transport::Tcp));
    for (lanes, cpus) in [(2, 1), (4, 1), (2, 2), (4, 2)] {
        for (pattern, connections) in [(Pattern::KeepAlive, 256), (Pattern::Short, 64)] {
            let (part, active) = (StudyQuestion::Network { lanes, cpus }, connections);
            cells.push(Cell { part, pattern, connections, active, body: 12, transport: Transport::Tcp });
        }
    }
    cells.sort_by_key(|cell| (cell.needs_sources(), cell.part, cell.transport, cell.pattern, cell.body, cell.connections));
    (cells, left_out)
}

/// Returns the reason to leave out a cell, which would show nothing or the same as others; `None` for a cell to measure.
fn reason_to_leave_out(cell: &Cell) -> Option<&'static str> {
    let Cell { pattern, connections, body, transport, .. } = *cell;
    if transport == Transport::Unix {
        let kept = match (pattern, body) {
            (Pattern::KeepAlive, 12) => true,
            (Pattern::KeepAlive, MIB) => connections == 16,
            (Pattern::KeepAlive, _) | (_, 12) => connections == 256,
            _ => false,
        };
        return (!kept).then_some(
            "Unix sockets change what the kernel does for a byte and for a connection, for every model alike: one cell for each \
             body and pattern, and every number of connections with the smallest",
        );
    }
    match (pattern, body) {
        (_, MIB) if connections >= 4096 => Some(
            "a round would be over before each connection had its answer; what idle connections cost is in the smaller bodies",
        ),
        (Pattern::Short, KIB | 65536) if !matches!(connections, 16 | 256) => Some(
            "a connection costs the same whatever it carries, and bytes cost what they cost with keep-alive: 16 and 256 show it",
        ),
        (Pattern::Short, MIB) if connections != 16 => Some("almost all of the time goes to the bytes, as with keep-alive"),
        (Pattern::Pipelined, MIB) => {
            Some("sixteen answers of 1 MiB fill the socket's buffer many times over: it is keep-alive again")
        }
        (Pattern::Pipelined, 65536) if connections != 16 => {
            Some("the bytes outweigh what pipelining saves: 16 connections show it")
        }
        (Pattern::Pipelined, KIB) if !matches!(connections, 16 | 256) => {
            Some("between the cells with 12 B and those of keep-alive")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_product_is_whole() {
        let (cells, left_out) = all();
        let mut names: BTreeSet<String> = cells.iter().map(Cell::to_string).collect();
        assert_eq!(names.len(), cells.len(), "names are unique");
        names.extend(left_out.iter().map(|(name, _)| name.clone()));
        for pattern in ["keep-alive", "short", "pipelined"] {
            for connections in CONNECTIONS {
                for body in ["12b", "1k", "64k", "1m"] {
                    for transport in ["tcp", "unix"] {
                        assert!(names.contains(&format!("{pattern}-{connections}-{body}-{transport}")));
                    }
                }
            }
        }
    }

    #[test]
    fn idle_connections_are_the_most_where_there_are_very_many() {
        for cell in all().0 {
            assert!(cell.active <= cell.connections && (cell.connections < 16384 || cell.active == ACTIVE), "{cell}");
        }
    }

    #[test]
    fn sizes_are_read_by_people() {
        assert_eq!([12, 1024, 65536, 1 << 20].map(size), ["12 B", "1 KiB", "64 KiB", "1 MiB"]);
        assert_eq!([12, 1024, 65536, 1 << 20].map(short_size), ["12b", "1k", "64k", "1m"]);
    }
}
