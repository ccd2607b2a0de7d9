//! The cost of a server in a cell, round by round, and whether two of them differ.

use crate::cells::{Cell, Pattern, StudyQuestion};
use crate::raw::{Count, Load, Program, Raw};
use crate::rows::Family;
use oribi_bench::statistics::Spread;

/// The smallest relative difference that counts. A smaller one does not count even if each round has it: code that has moved by
/// a few bytes can cause as much.
const SMALLEST: f64 = 0.03;
/// The smallest relative difference of latencies that counts; latencies depend on a few answers.
const SMALLEST_LATENCY: f64 = 0.10;
/// If the server used at least this share of a CPU, the server limited the load, and not the load generator.
const AT_ITS_LIMIT: f64 = 0.9;
/// The number of answers that a round must have for its 99th percentile, and for its 99.9th: ten answers are above it then.
const ENOUGH: (u64, u64) = (1_000, 10_000);

/// The compared measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// CPU microseconds of the server for each answer, as fast as it goes.
    Cpu,
    /// The same at the fixed rate.
    CpuAtRate,
    /// Answers a second, as fast as it goes.
    Peak,
    /// Microseconds within which half of the answers came at the fixed rate.
    Median,
    /// 99 of 100.
    P99,
    /// 999 of 1000.
    P999,
    /// The share of a CPU that the server had, as fast as it goes.
    Busy,
    /// Context switches for each answer, as fast as it goes.
    Switches,
    /// The share of the busiest thread, times the number of lanes: 1 is even.
    Uneven,
}

impl Metric {
    fn smallest(self) -> f64 {
        match self {
            Metric::Median | Metric::P99 | Metric::P999 => SMALLEST_LATENCY,
            _ => SMALLEST,
        }
    }
}

/// One server in one cell.
#[derive(Debug)]
pub struct Figures<'a> {
    /// The row.
    pub program: &'a Program,
    closed: Vec<Option<&'a Load>>,
    open: Vec<Option<&'a Load>>,
    /// Facts that were counted once.
    pub count: Option<&'a Count>,
    /// The faults.
    pub problems: Vec<&'a str>,
}

/// One cell with its servers.
#[derive(Debug)]
pub struct CellFigures<'a> {
    /// The cell.
    pub cell: Cell,
    /// Requests a second in the open loop.
    pub rate: Option<f64>,
    /// In the order of the rows.
    pub servers: Vec<Figures<'a>>,
}

/// From this number of rounds on, not all of them have to agree.
const VERY_MANY: usize = 20;

/// Whether one figure is less than another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is less in every round (see [`agreement`]), by more than the smallest difference that counts.
    Less,
    /// It is more in every round, by more than the smallest difference that counts.
    More,
    /// The rounds do not agree, or the difference is too small.
    Tie,
}

/// One figure as a multiple of another, computed in each round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Over the rounds.
    pub spread: Spread,
    /// Its meaning.
    pub verdict: Verdict,
}

/// The divisor of a cell's figures.
#[derive(Clone, Copy)]
struct Scale {
    lanes: usize,
    /// For slow readers: the number of bytes of one answer. All slow readers get their answers at the same time, so a load
    /// completes none of the answers or many. So the number of answers is computed from the received bytes.
    by_bytes: Option<usize>,
}

/// Everything, cell by cell.
pub fn collect(raw: &Raw) -> Vec<CellFigures<'_>> {
    let mut cells: Vec<CellFigures<'_>> = Vec::new();
    for finished in &raw.finished {
        let name = finished.cell.to_string();
        let loads: Vec<&Load> = raw.loads.iter().filter(|load| load.cell == name).collect();
        let rounds = loads.iter().map(|load| load.round).max().unwrap_or(0);
        let servers = raw.programs.iter().filter_map(|program| {
            let problems: Vec<&str> = raw
                .problems
                .iter()
                .filter(|problem| problem.cell == name && problem.row == program.row)
                .map(|problem| problem.what.as_str())
                .collect();
            let count = raw.counts.iter().find(|count| count.cell == name && count.row == program.row);
            let pick = |round: usize, open: bool| {
                let mine = |load: &&&Load| load.row == program.row && load.round == round && load.rate.is_some() == open;
                loads.iter().find(mine).copied().filter(|load| load.errors == 0 && load.bytes > 0)
            };
            let series = |open: bool| (1..=rounds).map(|round| pick(round, open)).collect();
            let takes_part = count.is_some() || !problems.is_empty();
            takes_part.then(|| Figures { program, closed: series(false), open: series(true), count, problems })
        });
        cells.push(CellFigures { cell: finished.cell, rate: finished.rate, servers: servers.collect() });
    }
    cells.sort_by_key(|figures| {
        let cell = &figures.cell;
        (cell.part, cell.transport, cell.pattern, cell.body, cell.connections)
    });
    cells
}

impl<'a> CellFigures<'a> {
    /// The server of a row, if it took part.
    pub fn server(&self, row: &str) -> Option<&Figures<'a>> {
        self.servers.iter().find(|server| server.program.row == row)
    }

    /// One row as a multiple of another.
    pub fn ratio(&self, row: &str, of: &str, metric: Metric) -> Option<Ratio> {
        let scale = self.scale();
        let (own, other) = (self.server(row)?.rounds(metric, scale), self.server(of)?.rounds(metric, scale));
        let ratios: Vec<f64> = own.iter().zip(&other).filter_map(|(own, other)| Some((*own)? / (*other)?)).collect();
        let at_its_limit = |row| self.spread(row, Metric::Busy).is_some_and(|busy| busy.median >= AT_ITS_LIMIT);
        // Where the load generator is the limit, both have its peak.
        if metric == Metric::Peak && !at_its_limit(row) && !at_its_limit(of) {
            return None;
        }
        Ratio::of(&ratios, metric.smallest())
    }

    /// A figure's spread over the rounds.
    pub fn spread(&self, row: &str, metric: Metric) -> Option<Spread> {
        Spread::of(self.server(row)?.rounds(metric, self.scale()).into_iter().flatten())
    }

    fn scale(&self) -> Scale {
        Scale {
            lanes: match self.cell.part {
                StudyQuestion::Io => 1,
                StudyQuestion::Network { lanes, .. } => lanes,
            },
            by_bytes: (self.cell.pattern == Pattern::SlowReaders).then_some(self.cell.body),
        }
    }
}

impl Figures<'_> {
    /// Returns a figure in each round; `None` for a round that failed or that had too few answers.
    fn rounds(&self, metric: Metric, scale: Scale) -> Vec<Option<f64>> {
        let series = match metric {
            Metric::Cpu | Metric::Peak | Metric::Busy | Metric::Switches | Metric::Uneven => &self.closed,
            Metric::CpuAtRate | Metric::Median | Metric::P99 | Metric::P999 => &self.open,
        };
        series.iter().map(|load| figure((*load)?, metric, scale)).collect()
    }

    /// The family of its row.
    pub fn family(&self) -> Family {
        Family::parse(&self.program.family).unwrap_or(Family::Peer)
    }

    /// System calls for each answer.
    pub fn calls(&self) -> Option<f64> {
        let count = self.count?;
        (count.responses > 0).then_some(count.calls? as f64 / count.responses as f64)
    }

    /// Bytes of user memory for each connection; none where there are too few to distinguish them from the server's own.
    pub fn bytes_per_connection(&self, cell: &Cell) -> Option<f64> {
        let count = self.count.filter(|_| cell.tells_memory())?;
        Some((count.open_memory as f64 - count.idle_memory as f64).max(0.0) * 1024.0 / cell.connections as f64)
    }

    /// Whether anything went wrong.
    pub fn failed(&self) -> bool {
        !self.problems.is_empty()
    }
}

fn figure(load: &Load, metric: Metric, scale: Scale) -> Option<f64> {
    let answers = scale.by_bytes.map_or(load.responses as f64, |body| load.bytes as f64 / body as f64);
    if answers <= 0.0 {
        return None;
    }
    match metric {
        Metric::Cpu | Metric::CpuAtRate => Some(load.running as f64 / 1000.0 / answers).filter(|cpu| *cpu > 0.0),
        Metric::Peak => Some(answers / load.seconds),
        Metric::Busy => Some(load.running as f64 / 1e9 / load.seconds),
        Metric::Switches => Some((load.voluntary + load.involuntary) as f64 / answers),
        Metric::Uneven => Some(load.busiest as f64 * scale.lanes as f64 / load.running as f64).filter(|_| load.running > 0),
        Metric::Median => Some(load.p50).filter(|time| *time > 0.0),
        Metric::P99 => Some(load.p99).filter(|_| load.responses >= ENOUGH.0),
        Metric::P999 => Some(load.p999).filter(|_| load.responses >= ENOUGH.1),
    }
}

/// Returns the number of rounds that have to agree. These are all rounds, or three quarters of them if there are very many:
/// such an agreement happens by chance even more rarely than that of five of five rounds.
fn agreement(rounds: usize) -> usize {
    if rounds < VERY_MANY { rounds } else { rounds.div_ceil(4) * 3 }
}

impl Ratio {
    /// Returns the common verdict of the rounds; `None` with fewer than two rounds.
    fn of(ratios: &[f64], smallest: f64) -> Option<Ratio> {
        let spread = Spread::of(ratios.iter().copied()).filter(|_| ratios.len() > 1)?;
        let agreed = |says: fn(f64) -> bool| ratios.iter().filter(|ratio| says(**ratio)).count() >= agreement(ratios.len());
        let verdict = if agreed(|ratio| ratio < 1.0) && spread.median <= 1.0 - smallest {
            Verdict::Less
        } else if agreed(|ratio| ratio > 1.0) && spread.median >= 1.0 + smallest {
            Verdict::More
        } else {
            Verdict::Tie
        };
        Some(Ratio { spread, verdict })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_every_round_says_is_a_difference() {
        let verdict = |ratios: &[f64]| Ratio::of(ratios, SMALLEST).map(|ratio| ratio.verdict);
        assert_eq!(verdict(&[0.90, 0.95, 0.99]), Some(Verdict::Less));
        assert_eq!(verdict(&[1.10, 1.05, 1.01]), Some(Verdict::More));
        assert_eq!(verdict(&[0.50, 0.60, 1.01]), Some(Verdict::Tie));
        assert_eq!(verdict(&[0.98, 0.985, 0.99]), Some(Verdict::Tie));
        assert_eq!(verdict(&[0.5]), None);
    }

    #[test]
    fn of_very_many_rounds_some_may_differ() {
        let verdict = |less: usize| {
            let ratios: Vec<f64> = (0..40).map(|round| if round < less { 0.9 } else { 1.1 }).collect();
            Ratio::of(&ratios, SMALLEST).map(|ratio| ratio.verdict)
        };
        assert_eq!([40, 30, 29, 11, 10, 0].map(verdict), {
            use Verdict::{Less, More, Tie};
            [Less, Less, Tie, Tie, More, More].map(Some)
        });
    }
}
