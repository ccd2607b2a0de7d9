//! The rows of the tables of processes and of requests.

use crate::top::model::ProcessRow;
use crate::top::number_format::{count, few, memory, span};
use crate::top::picture::Style;
use crate::top::snapshot::Request;
use crate::top::table::{Column, Row};

/// The columns of the table of processes. The columns by which rows can be sorted are in the order of the sort keys.
pub const PROCESSES: [Column; 13] = [
    Column::left("PROCESS", 9, 9),
    Column::right("PID", 6, 6),
    Column::right("GEN", 1, 3),
    Column::left("STATE", 8, 8),
    Column::right("AGE", 3, 6),
    Column::right("CONN", 2, 4),
    Column::right("REQUESTS", 4, 8),
    Column::right("REQ/S", 5, 5),
    Column::right("CPU%", 7, 5),
    Column::right("PSS", 6, 5),
    Column::right("FOR", 8, 5),
    Column::left("CLIENT", 2, 6),
    Column::left("RUNS", 8, 10),
];

pub const REQUESTS: [Column; 7] = [
    Column::left("STATE", 8, 9),
    Column::right("AGE", 9, 6),
    Column::right("QUIET", 3, 6),
    Column::right("DEADLINE", 4, 8),
    Column::right("WORKER", 6, 6),
    Column::left("CLIENT", 5, 9),
    Column::left("REQUEST", 7, 12),
];

pub fn process(row: &ProcessRow, selected: Option<u32>) -> Row {
    let ProcessRow { process, rate, usage, runs } = row;
    let plain = |text: String| (text, Style::Plain);
    let known = |text: Option<String>| text.map_or(("-".to_owned(), Style::Faint), |text| (text, Style::Plain));
    let present = |text: &str| known((!text.is_empty()).then(|| text.to_owned()));
    let state = match process.state.as_str() {
        "ready" => Style::Good,
        _ => Style::Doubtful,
    };
    let (age, client, what) = match runs {
        None => (("".to_owned(), Style::Plain), plain(String::new()), plain(String::new())),
        Some((request, others)) => {
            let more = if *others > 0 { format!(" and {others} more") } else { String::new() };
            ((span(request.age), tone(request)), present(&request.client), (format!("{}{more}", request.what), Style::Plain))
        }
    };
    let cells = vec![
        (process.name(), Style::Plain),
        plain(process.pid.to_string()),
        present(&process.generation),
        (process.state.clone(), state),
        plain(span(process.age)),
        plain(count(process.connections)),
        plain(format!("{:.0}", process.requests)),
        known(rate.map(few)),
        known(usage.cpu.map(|percent| format!("{percent:.1}"))),
        known(usage.memory.map(memory)),
        age,
        client,
        what,
    ];
    Row { cells, selected: selected == Some(process.pid) }
}

pub fn request(request: &Request) -> Row {
    let time = |time: Option<f64>| time.map_or(("-".to_owned(), Style::Faint), |time| (span(time), Style::Plain));
    let state = match request.position {
        Some(position) => format!("{} {position}", request.state),
        None => request.state.clone(),
    };
    let worker = match (request.worker, request.pid) {
        (Some(number), _) => number.to_string(),
        (None, Some(pid)) => format!("pid {pid}"),
        (None, None) => "-".to_owned(),
    };
    let client = if request.client.is_empty() { "-" } else { &request.client };
    let cells = vec![
        (state, tone(request)),
        (span(request.age), Style::Plain),
        time(request.quiet),
        time(request.deadline),
        (worker, Style::Plain),
        (client.to_owned(), Style::Plain),
        (request.what.clone(), Style::Plain),
    ];
    Row { cells, selected: false }
}

fn tone(request: &Request) -> Style {
    match request.state.as_str() {
        "interrupted" | "abandoned" => Style::Bad,
        "queued" => Style::Doubtful,
        _ => Style::Plain,
    }
}
