//! Measures one cell. All of its servers run at the same time, and each round loads one after the other. So if the machine is
//! slow for a while, this also affects the yardstick.

use crate::cell::{Cell, Encryption};
use crate::client;
use crate::http2;
use crate::interrupt;
use crate::load::{Failures, Load, Outcome};
use crate::process_tree::Cpu;
use crate::server::{Installation, START, Server};
use crate::setup::{Participation, Setup};
use crate::statistics::Spread;
use crate::tls;
use std::collections::BTreeMap;
use std::time::Duration;

/// The time for which a server is loaded before anything counts, in seconds.
const WARM_UP: u64 = 1;
/// The time from the start of the warm-up until a new client connects and memory is read: wrk has long opened its connections
/// then.
const INTO_WARM_UP: Duration = Duration::from_millis(300);
/// The time for which the new client waits for an answer. It ends shortly before the warm-up, so that the client cannot get its
/// answer because of the end of the warm-up.
pub const NEWCOMER_PATIENCE: Duration = Duration::from_millis(500);
/// The time from the end of a load until the next measurement, in which the server notices that its clients are gone.
const SETTLE: Duration = Duration::from_millis(100);
/// The interval over which the CPU time of servers without clients is measured.
const IDLE: Duration = Duration::from_millis(250);
/// The time that servers may take to become idle, in seconds. A server that handles one connection after another notices only
/// then that thousands of waiting connections are closed.
const WIND_DOWN: u64 = 5;
/// The number of intervals in which servers may become idle.
const IDLE_LOOKS: u64 = WIND_DOWN * 1000 / IDLE.as_millis() as u64;
/// The share of [`IDLE`] above which a server without clients is called busy.
const IDLE_SHARE: f64 = 0.2;

/// One server under load once.
#[derive(Clone, Debug)]
pub struct Round {
    /// The results of wrk.
    pub outcome: Outcome,
    /// The CPU time that the processes of the server used during the load.
    pub cpu: Cpu,
}

impl Round {
    /// CPU microseconds per request, user and system; none without a request.
    pub fn microseconds(&self) -> Option<f64> {
        (self.outcome.requests > 0).then(|| self.cpu.total().as_secs_f64() * 1e6 / self.outcome.requests as f64)
    }

    /// As [`Round::microseconds`], but only the time in user space.
    pub fn user_microseconds(&self) -> Option<f64> {
        (self.outcome.requests > 0).then(|| self.cpu.user.as_secs_f64() * 1e6 / self.outcome.requests as f64)
    }

    /// Returns the share of a CPU that the server's processes used. If it is well below 1, something else limited the load,
    /// usually wrk.
    pub fn busy(&self) -> f64 {
        self.cpu.total().as_secs_f64() / self.outcome.duration.as_secs_f64().max(1e-6)
    }

    /// Requests per second.
    pub fn rate(&self) -> f64 {
        self.outcome.requests as f64 / self.outcome.duration.as_secs_f64().max(1e-6)
    }
}

/// One server in one cell.
#[derive(Debug, Default)]
pub struct Entry {
    /// The set-up's name.
    pub name: String,
    /// The set-up's title.
    pub title: String,
    /// The reason why it is not measured although nothing failed.
    pub cannot: Option<String>,
    /// Faults beside the failures that wrk counted.
    pub problems: Vec<String>,
    /// KiB of all its processes, under load.
    pub memory: u64,
    /// The time for which a new client waited for its answer under load; none when it got none.
    pub newcomer: Option<Duration>,
    /// One for each round; none when the round itself failed.
    pub rounds: Vec<Option<Round>>,
}

impl Entry {
    /// The rounds that gave a figure.
    pub fn measured(&self) -> impl Iterator<Item = &Round> {
        self.rounds.iter().flatten()
    }

    /// The failures that wrk counted, over all rounds.
    pub fn failures(&self) -> Failures {
        let mut sum = Failures::default();
        self.measured().for_each(|round| sum.add(round.outcome.failures));
        sum
    }

    /// Whether anything was wrong.
    pub fn failed(&self) -> bool {
        !self.problems.is_empty() || self.failures().total() > 0
    }

    /// CPU per request as a ratio to `yardstick`, round by round.
    pub fn ratio(&self, yardstick: &Entry) -> Option<Spread> {
        let pairs = self.rounds.iter().zip(&yardstick.rounds);
        let cost = |round: &Option<Round>| round.as_ref().and_then(Round::microseconds);
        Spread::of(pairs.filter_map(|(own, other)| Some(cost(own)? / cost(other).filter(|other| *other > 0.0)?)))
    }
}

/// All servers in one cell.
#[derive(Debug)]
pub struct CellResult {
    /// The cell.
    pub cell: &'static Cell,
    /// The yardstick first, if it takes part.
    pub entries: Vec<Entry>,
}

/// The way in which a cell is measured.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The number of loads of each server.
    pub rounds: usize,
    /// For how long each time.
    pub seconds: u64,
}

/// Measures a cell. `broken` has the servers that did not start in an earlier cell, with the reason; they are not started
/// again.
///
/// # Errors
/// The user wants to stop. Faults of a server are a part of the result.
pub fn measure(
    installation: &Installation,
    cell: &'static Cell,
    setups: &[Setup],
    plan: Plan,
    broken: &mut BTreeMap<String, String>,
) -> Result<CellResult, String> {
    let mut entries = Vec::new();
    let mut servers: Vec<Option<Server>> = Vec::new();
    for setup in setups {
        let mut entry = Entry { name: setup.name.clone(), title: setup.title.clone(), ..Entry::default() };
        let started = match setup.part(cell.name) {
            Participation::Skips => continue,
            Participation::Cannot(reason) => {
                entry.cannot = Some(reason.to_owned());
                None
            }
            Participation::Takes => match broken.get(&setup.name) {
                Some(reason) => {
                    entry.problems.push(reason.clone());
                    None
                }
                None => start(installation, setup, cell, &mut entry, broken),
            },
        };
        interrupt::check()?;
        entries.push(entry);
        servers.push(started);
    }
    for (entry, server) in entries.iter_mut().zip(&mut servers) {
        if let Some(running) = server {
            if let Err(e) = warm_up(installation, running, cell, entry) {
                entry.problems.push(e);
                *server = None;
            }
            interrupt::check()?;
        }
    }
    let count = entries.len();
    for number in 0..plan.rounds {
        // Each round begins with another server, so that none is always the one after the heaviest.
        for index in (0..count).map(|offset| (number + offset) % count) {
            let Some(server) = &servers[index] else { continue };
            match round(installation, server, cell, plan.seconds) {
                Ok(round) => entries[index].rounds.push(Some(round)),
                Err(e) => {
                    entries[index].problems.push(e);
                    entries[index].rounds.push(None);
                }
            }
            interrupt::check()?;
        }
    }
    find_the_busy(&mut entries, &servers)?;
    for (entry, server) in entries.iter_mut().zip(servers) {
        if let Some(server) = server {
            if let Err(e) = server.check(cell) {
                entry.problems.push(format!("after the load: {e}"));
            }
            if !server.end(Duration::from_secs(5)) {
                entry.problems.push("did not end within 5 s of TERM".to_owned());
            }
        }
        interrupt::check()?;
    }
    Ok(CellResult { cell, entries })
}

fn start(
    installation: &Installation,
    setup: &Setup,
    cell: &Cell,
    entry: &mut Entry,
    broken: &mut BTreeMap<String, String>,
) -> Option<Server> {
    match Server::start(installation, setup, cell, &[], START) {
        Ok(server) => Some(server),
        Err(e) => {
            entry.problems.push(e.clone());
            if e.contains("before it listened") || e.contains("cannot connect") {
                broken.insert(setup.name.clone(), e);
            }
            None
        }
    }
}

/// Loads a server without counting. Meanwhile a new client connects, and memory is read while all connections are open.
fn warm_up(installation: &Installation, server: &Server, cell: &Cell, entry: &mut Entry) -> Result<(), String> {
    let load = Load::start(installation, server, cell, WARM_UP)?;
    interrupt::sleep(INTO_WARM_UP)?;
    let newcomer = match cell.encryption {
        Encryption::None if cell.streams > 0 => http2::newcomer,
        Encryption::None => client::newcomer,
        Encryption::Tls | Encryption::Resumed => tls::newcomer,
    };
    entry.newcomer = newcomer(cell, server.port, NEWCOMER_PATIENCE);
    entry.memory = server.memory();
    load.finish()?;
    interrupt::sleep(SETTLE)
}

fn round(installation: &Installation, server: &Server, cell: &Cell, seconds: u64) -> Result<Round, String> {
    let before = server.cpu();
    let outcome = Load::start(installation, server, cell, seconds)?.finish()?;
    let cpu = server.cpu().since(before);
    interrupt::sleep(SETTLE)?;
    if outcome.requests == 0 {
        return Err(format!("not one response in {seconds} s ({} failures)", outcome.failures.describe()));
    }
    Ok(Round { outcome, cpu })
}

/// Notes a problem of each server that still works long after its clients are gone: it has lost track of a connection.
fn find_the_busy(entries: &mut [Entry], servers: &[Option<Server>]) -> Result<(), String> {
    let cpu = |server: &Option<Server>| server.as_ref().map(Server::cpu).unwrap_or_default();
    let mut shares = Vec::new();
    for _ in 0..IDLE_LOOKS {
        let before: Vec<Cpu> = servers.iter().map(cpu).collect();
        interrupt::sleep(IDLE)?;
        let spent = servers.iter().zip(before).map(|(server, before)| cpu(server).since(before).total());
        shares = spent.map(|spent| spent.as_secs_f64() / IDLE.as_secs_f64()).collect();
        if shares.iter().all(|share| *share <= IDLE_SHARE) {
            return Ok(());
        }
    }
    for (entry, share) in entries.iter_mut().zip(shares).filter(|(_, share)| *share > IDLE_SHARE) {
        entry.problems.push(format!("still uses {:.0} % of a CPU {} s after its clients left", share * 100.0, WIND_DOWN));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(costs: &[Option<u64>]) -> Entry {
        let round = |cost: &Option<u64>| {
            cost.map(|microseconds| Round {
                outcome: Outcome { requests: 1000, duration: Duration::from_secs(1), ..Outcome::default() },
                cpu: Cpu { user: Duration::from_micros(microseconds * 1000), system: Duration::ZERO },
            })
        };
        Entry { rounds: costs.iter().map(round).collect(), ..Entry::default() }
    }

    #[test]
    fn ratios_are_taken_inside_a_round() {
        let yardstick = entry(&[Some(10), Some(20), Some(40)]);
        let own = entry(&[Some(20), Some(40), Some(80)]);
        assert_eq!(own.ratio(&yardstick), Some(Spread { median: 2.0, low: 2.0, high: 2.0 }));
    }

    #[test]
    fn a_round_that_failed_on_either_side_gives_no_ratio() {
        let yardstick = entry(&[Some(10), None, Some(10)]);
        let own = entry(&[Some(30), Some(40), None]);
        assert_eq!(own.ratio(&yardstick).map(|spread| spread.high), Some(3.0));
        assert_eq!(entry(&[None]).ratio(&yardstick), None);
    }

    #[test]
    fn a_round_without_a_request_has_no_cost() {
        let round = Round { outcome: Outcome::default(), cpu: Cpu::default() };
        assert_eq!(round.microseconds(), None);
        assert_eq!(round.user_microseconds(), None);
    }
}
