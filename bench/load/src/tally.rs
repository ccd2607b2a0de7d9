//! The counts.

use crate::histogram::Histogram;
use std::fmt::Write as _;

/// The possible faults of a request. If a fault concerns several requests, it is counted for each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No connection came about.
    Connect = 0,
    /// The connection was lost before the response began, or the received bytes are not a response to the request.
    Broken = 1,
    /// The connection ended within the response.
    Short = 2,
    /// A status other than 200.
    Status = 3,
    /// Content of another length, or other bytes.
    Mismatch = 4,
    /// Nothing was sent or received for the time of `--timeout`.
    Timeout = 5,
}

const NAMES: [&str; 6] = ["connect", "broken", "short", "status", "mismatch", "timeout"];

/// Counts since the load began; faults and lost connections since the start of the program.
#[derive(Debug, Default)]
pub struct Tally {
    /// Responses that were complete and right.
    pub responses: u64,
    /// Requests that were begun.
    pub requests: u64,
    /// Bytes received, those of heads among them.
    pub bytes: u64,
    /// The times from when a request was due until its response was complete, in nanoseconds.
    pub latencies: Histogram,
    /// Idle connections that the server ended.
    pub idle_lost: u64,
    /// Connections whose end the server had announced, and that were opened again.
    pub reopened: u64,
    faults: [u64; NAMES.len()],
}

impl Tally {
    /// Counts a fault; the first of each kind is printed to standard error.
    pub fn fail(&mut self, fault: Fault, count: u64, why: &str) {
        let counted = &mut self.faults[fault as usize];
        if *counted == 0 {
            eprintln!("oribi-load: {}: {why}", NAMES[fault as usize]);
        }
        *counted += count;
    }

    /// Faults of all kinds.
    pub fn faults(&self) -> u64 {
        self.faults.iter().sum()
    }

    /// Begins again, but keeps the faults.
    pub fn reset(&mut self) {
        *self = Self { faults: self.faults, idle_lost: self.idle_lost, ..Self::default() };
    }

    /// One line of JSON.
    pub fn report(&self, seconds: f64, connections_open: usize) -> String {
        let mut line = format!(
            "{{\"responses\":{},\"requests\":{},\"seconds\":{seconds:.6},\"bytes\":{},\"errors\":{{",
            self.responses, self.requests, self.bytes
        );
        for (number, (name, count)) in NAMES.iter().zip(self.faults).enumerate() {
            let comma = if number == 0 { "" } else { "," };
            // Writing into a string does not fail.
            let _ = write!(line, "{comma}\"{name}\":{count}");
        }
        let micro = |nanoseconds: u64| nanoseconds as f64 / 1000.0;
        let quantile = |share| micro(self.latencies.quantile(share));
        let _ = write!(
            line,
            "}},\"p50_us\":{:.1},\"p99_us\":{:.1},\"p999_us\":{:.1},\"max_us\":{:.1},\"connections_open\":{connections_open},\
             \"idle_lost\":{},\"reopened\":{}}}",
            quantile(0.5),
            quantile(0.99),
            quantile(0.999),
            micro(self.latencies.largest()),
            self.idle_lost,
            self.reopened
        );
        line
    }
}
