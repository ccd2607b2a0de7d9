//! Sorts and filters rows.

use super::model::ProcessRow;
use super::snapshot::Request;
use std::cmp::Ordering;

/// The column by which the table of processes is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessKey {
    Name,
    Pid,
    Generation,
    State,
    Age,
    Connections,
    Requests,
    Rate,
    Cpu,
    Memory,
    Running,
}

/// The column by which the table of requests is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKey {
    State,
    Age,
    Quiet,
    Deadline,
    Worker,
    Client,
    What,
}

/// A key, and its direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order<Key> {
    pub key: Key,
    /// Whether the order is the reverse of the usual order of the key.
    pub reversed: bool,
}

/// Keys in the order of their columns.
pub trait Keys: Copy + PartialEq + 'static {
    const ALL: &'static [Self];

    /// Whether the usual order begins with the greatest value.
    fn falls(self) -> bool;
}

impl Keys for ProcessKey {
    const ALL: &'static [Self] = &[
        Self::Name,
        Self::Pid,
        Self::Generation,
        Self::State,
        Self::Age,
        Self::Connections,
        Self::Requests,
        Self::Rate,
        Self::Cpu,
        Self::Memory,
        Self::Running,
    ];

    fn falls(self) -> bool {
        !matches!(self, Self::Name | Self::Pid | Self::State)
    }
}

impl Keys for RequestKey {
    const ALL: &'static [Self] = &[Self::State, Self::Age, Self::Quiet, Self::Deadline, Self::Worker, Self::Client, Self::What];

    fn falls(self) -> bool {
        matches!(self, Self::Age | Self::Quiet)
    }
}

impl<Key: Keys> Order<Key> {
    pub const fn by(key: Key) -> Self {
        Self { key, reversed: false }
    }

    /// The column of the key, counted from 0, and whether the greatest values are first.
    pub fn column(&self) -> (usize, bool) {
        let column = Key::ALL.iter().position(|key| *key == self.key).unwrap_or_default();
        (column, self.key.falls() != self.reversed)
    }

    /// Moves to the next column or the one before.
    pub fn step(&mut self, forward: bool) {
        let (column, count) = (self.column().0, Key::ALL.len());
        let next = if forward { column + 1 } else { column + count - 1 } % count;
        *self = Self::by(Key::ALL[next]);
    }

    fn directed(&self, ordering: Ordering) -> Ordering {
        if self.column().1 { ordering.reverse() } else { ordering }
    }
}

/// Returns the processes that pass the filter, sorted. Processes with equal keys keep the server's order.
pub fn processes(mut rows: Vec<ProcessRow>, order: Order<ProcessKey>, filter: &str) -> Vec<ProcessRow> {
    rows.retain(|row| {
        let process = &row.process;
        let (what, client) = row.runs.as_ref().map_or(("", ""), |(request, _)| (&request.what, &request.client));
        let name = format!("{} {} {}", process.name(), process.pid, process.state);
        passes(filter, &[&name, what, client])
    });
    let age = |row: &ProcessRow| row.runs.as_ref().map(|(request, _)| request.age);
    rows.sort_by(|left, right| {
        let (one, other) = (&left.process, &right.process);
        order.directed(match order.key {
            ProcessKey::Name => one.kind.cmp(&other.kind).then(one.number.cmp(&other.number)),
            ProcessKey::Pid => one.pid.cmp(&other.pid),
            ProcessKey::Generation => {
                one.generation.len().cmp(&other.generation.len()).then(one.generation.cmp(&other.generation))
            }
            ProcessKey::State => one.state.cmp(&other.state),
            ProcessKey::Age => one.age.total_cmp(&other.age),
            ProcessKey::Connections => one.connections.total_cmp(&other.connections),
            ProcessKey::Requests => one.requests.total_cmp(&other.requests),
            ProcessKey::Rate => floats(left.rate, right.rate),
            ProcessKey::Cpu => floats(left.usage.cpu, right.usage.cpu),
            ProcessKey::Memory => left.usage.memory.cmp(&right.usage.memory),
            ProcessKey::Running => floats(age(left), age(right)),
        })
    });
    rows
}

/// The requests that pass the filter, sorted.
pub fn requests<'a>(requests: &'a [Request], order: Order<RequestKey>, filter: &str) -> Vec<&'a Request> {
    let shown = |request: &&Request| passes(filter, &[&request.state, &request.client, &request.what]);
    let mut rows: Vec<&'a Request> = requests.iter().filter(shown).collect();
    rows.sort_by(|one, other| {
        order.directed(match order.key {
            RequestKey::State => one.state.cmp(&other.state).then(one.position.cmp(&other.position)),
            RequestKey::Age => one.age.total_cmp(&other.age),
            RequestKey::Quiet => floats(one.quiet, other.quiet),
            // Requests without a deadline are last.
            RequestKey::Deadline => one.deadline.unwrap_or(f64::MAX).total_cmp(&other.deadline.unwrap_or(f64::MAX)),
            RequestKey::Worker => one.worker.cmp(&other.worker),
            RequestKey::Client => one.client.cmp(&other.client),
            RequestKey::What => one.what.cmp(&other.what),
        })
    });
    rows
}

/// Compares numbers; an unknown one counts as the least.
fn floats(one: Option<f64>, other: Option<f64>) -> Ordering {
    one.unwrap_or(-1.0).total_cmp(&other.unwrap_or(-1.0))
}

fn passes(filter: &str, texts: &[&str]) -> bool {
    let filter = filter.to_lowercase();
    texts.iter().any(|text| text.to_lowercase().contains(&filter))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::resources::Usage;
    use crate::top::snapshot::Process;

    fn row(kind: &str, number: u64, cpu: Option<f64>, runs: Option<&str>) -> ProcessRow {
        let runs = runs.map(|what| (Request { what: what.to_owned(), ..Request::default() }, 0));
        let process = Process { kind: kind.to_owned(), number, ..Process::default() };
        ProcessRow { process, rate: None, usage: Usage { cpu, memory: None }, runs }
    }

    fn names(order: Order<ProcessKey>, filter: &str) -> String {
        let rows = vec![
            row("worker", 2, None, Some("GET /Cart")),
            row("worker", 10, Some(7.0), None),
            row("edge", 1, Some(90.0), None),
        ];
        let names = processes(rows, order, filter).into_iter().map(|row| format!("{}{}", row.process.kind, row.process.number));
        names.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn processes_are_sorted_by_numbers_and_filtered_by_what_they_run() {
        assert_eq!(names(Order::by(ProcessKey::Name), ""), "edge1 worker2 worker10");
        assert_eq!(names(Order { key: ProcessKey::Name, reversed: true }, ""), "worker10 worker2 edge1");
        assert_eq!(names(Order::by(ProcessKey::Cpu), ""), "edge1 worker10 worker2");
        assert_eq!(names(Order { key: ProcessKey::Cpu, reversed: true }, ""), "worker2 worker10 edge1");
        assert_eq!(names(Order::by(ProcessKey::State), ""), "worker2 worker10 edge1", "the server's order");
        assert_eq!(names(Order::by(ProcessKey::Name), "cart"), "worker2");
        assert_eq!(names(Order::by(ProcessKey::Name), "WORKER"), "worker2 worker10");
    }

    #[test]
    fn requests_without_a_deadline_come_last() {
        let one = |what: &str, deadline| Request { what: what.to_owned(), deadline, ..Request::default() };
        let all = [one("/a", None), one("/b", Some(3.0)), one("/c", Some(1.0))];
        let whats = |order, filter| requests(&all, order, filter).iter().map(|one| one.what.as_str()).collect::<String>();
        assert_eq!(whats(Order::by(RequestKey::Deadline), ""), "/c/b/a");
        assert_eq!(whats(Order { key: RequestKey::What, reversed: true }, ""), "/c/b/a");
        assert_eq!(whats(Order::by(RequestKey::What), "B"), "/b");
    }

    #[test]
    fn each_column_is_reached_in_both_directions() {
        let mut order = Order { key: RequestKey::State, reversed: true };
        for key in RequestKey::ALL.iter().skip(1).chain(&RequestKey::ALL[..1]) {
            order.step(true);
            assert_eq!(order, Order::by(*key));
        }
        order.step(false);
        assert_eq!(order.key, RequestKey::What);
    }
}
