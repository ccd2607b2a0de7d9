//! Renders the facts about the server, and the growth of its numbers.

use crate::top::model::{Growth, Model};
use crate::top::number_format::{count, few, span};
use crate::top::picture::{Style, StyledLine, wrapped};
use crate::top::snapshot::{Numbers, Snapshot};
use crate::top::table::{Column, Layout, Row};

/// The columns of the table of growth. Columns without room in a terminal of 80 columns are omitted first.
const GROWTH: [Column; 17] = [
    Column::right("LAST", 9, 5),
    Column::right("REQ/S", 9, 5),
    Column::right("1XX", 1, 5),
    Column::right("2XX", 5, 5),
    Column::right("3XX", 2, 5),
    Column::right("4XX", 5, 5),
    Column::right("5XX", 8, 5),
    Column::right("IN/S", 4, 5),
    Column::right("OUT/S", 4, 5),
    Column::right("CONN/S", 3, 6),
    Column::right("P50", 6, 5),
    Column::right("P95", 3, 5),
    Column::right("P99", 8, 5),
    Column::right("WAIT", 7, 5),
    Column::right("LOST", 6, 5),
    Column::right("TIMEOUTS", 6, 8),
    Column::right("RESTARTS", 6, 8),
];

/// Renders the first lines of the picture.
pub fn lines(model: &Model, width: usize, height: Option<usize>) -> Vec<StyledLine> {
    let Some(present) = &model.present else { return Vec::new() };
    let mut lines = Vec::new();
    if let Some(trouble) = &model.trouble {
        lines.push(StyledLine::of("No answer: these are the last numbers. Retrying.", Style::Bad));
        let why: Vec<char> = trouble.chars().collect();
        lines.extend(
            why.chunks(width.max(1)).take(2).map(|part| StyledLine::of(part.iter().collect::<String>(), Style::Doubtful)),
        );
    }
    // In low terminals the tables keep their room.
    let most = height.map_or(usize::MAX, |height| (height / 5).max(1));
    lines.extend(wrapped(facts(present), width).into_iter().take(most));
    let spans = match height {
        Some(..12) => 0,
        Some(12..18) => 1,
        _ => 3,
    };
    if spans > 0 {
        // Rows that are still unknown keep their place in a live picture.
        let known = model.growth().iter().flatten().count();
        lines.extend(growth(model, width, if height.is_none() { known } else { spans }));
        lines.push(StyledLine::default());
    }
    lines
}

fn facts(present: &Snapshot) -> Vec<StyledLine> {
    let server = &present.server;
    let plain = |text: String| StyledLine::of(text, Style::Plain);
    let many = |count: u64, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
    let state = if server.state == "serving" { Style::Good } else { Style::Doubtful };
    let mut facts = vec![
        StyledLine::of(format!("oribi {} ", server.version), Style::Strong).with(server.state.clone(), state),
        plain(server.app.clone()),
        plain(format!("pid {}", server.pid)),
        plain(format!("up {}", span(server.uptime))),
    ];
    facts.extend(server.addresses.iter().take(4).map(|address| StyledLine::of(address.clone(), Style::Strong)));
    if let Some(others @ 1..) = server.addresses.len().checked_sub(4) {
        facts.push(plain(format!("and {}", many(others as u64, "address").replace("addresss", "addresses"))));
    }
    facts.extend(server.generations.iter().map(|generation| plain(format!("generation {generation}"))));
    if server.edges > 0 {
        facts.push(plain(many(server.edges, "edge")));
    }
    facts.push(plain(format!("{} x {}", many(server.workers, "worker"), many(server.threads, "thread"))));
    if let Some(busy) = present.traffic.busy(server.threads) {
        let all = present.processes.iter().filter(|process| process.kind == "worker").count() as u64 * server.threads.max(1);
        let style = if busy > 0 && busy >= all { Style::Doubtful } else { Style::Plain };
        facts.push(StyledLine::of(format!("{busy} of {} busy", many(all, "thread")), style));
    }
    if let Some((length, oldest)) = present.traffic.queue() {
        let mut text = format!("queue {length}");
        if length > 0 {
            text += &format!(", oldest {}", span(oldest));
        }
        if server.longest_wait > 0.0 {
            text += &format!(", longest ever {}", span(server.longest_wait));
        }
        facts.push(StyledLine::of(text, if length > 0 { Style::Doubtful } else { Style::Plain }));
    }
    facts.retain(|fact| fact.width() > 0);
    facts
}

/// Renders the growth of the numbers, in a row for each span.
fn growth(model: &Model, width: usize, spans: usize) -> Vec<StyledLine> {
    let growth = model.growth();
    let rows: Vec<Row> = growth.iter().take(spans).map(|growth| growth.as_ref().map_or_else(unknown, row)).collect();
    let layout = Layout::new(&GROWTH, None, &rows, width);
    std::iter::once(layout.heads()).chain(rows.iter().map(|row| layout.line(row))).collect()
}

fn unknown() -> Row {
    Row { cells: GROWTH.iter().map(|_| ("-".to_owned(), Style::Faint)).collect(), selected: false }
}

fn row(growth: &Growth) -> Row {
    let rate = |of: fn(&Numbers) -> f64| few(growth.rate(of));
    let toned = |number: f64, text: String, tone: Style| (text, if number > 0.0 { tone } else { Style::Plain });
    let class = |class: usize, tone: Style| toned(growth.by.responses[class], few(growth.rate(|by| by.responses[class])), tone);
    let plain = |text: String| (text, Style::Plain);
    let counted = |number: f64, tone: Style| toned(number, count(number), tone);
    let by = &growth.by;
    let quantile = |part: f64| match by.times.quantile(part) {
        None => "-".to_owned(),
        Some(time) if time.is_infinite() => ">100s".to_owned(),
        Some(time) => span(time),
    };
    let cells = vec![
        (length(growth.span), Style::Faint),
        (rate(|by| by.responses.iter().sum()), Style::Strong),
        class(0, Style::Plain),
        class(1, Style::Good),
        class(2, Style::Plain),
        class(3, Style::Doubtful),
        class(4, Style::Bad),
        plain(rate(|by| by.received)),
        plain(rate(|by| by.sent)),
        plain(rate(|by| by.accepted)),
        plain(quantile(0.5)),
        plain(quantile(0.95)),
        plain(quantile(0.99)),
        plain(growth.mean_wait().map_or_else(|| "-".to_owned(), span)),
        counted(by.lost, Style::Bad),
        counted(by.timeouts, Style::Bad),
        counted(by.restarts, Style::Doubtful),
    ];
    Row { cells, selected: false }
}

/// The length of a span; a long one is nearly a whole number of seconds.
fn length(seconds: f64) -> String {
    match seconds.round() {
        whole @ 1.0..60.0 if (seconds - whole).abs() < 0.1 => format!("{whole}s"),
        60.0 => "60s".to_owned(),
        _ => span(seconds),
    }
}
