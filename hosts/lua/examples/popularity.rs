//! Shows the pool under a skewed load: 200 scripts share 20 states. Clients request 10 of the scripts (hot) most of the time,
//! and should not notice requests for the others (cold).
//!
//! `cargo run --release -p oribi-lua --example popularity -- target/release/oribi 60`
//!
//! Makes two runs, each of the number of seconds in the last argument: hot scripts alone, then hot and cold ones together.
//! Prints the response times of the hot scripts, and the server's statistics of its pool at the end. Exits with 1 if a hot
//! script was evicted in the second run.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const SCRIPTS: usize = 200;
const HOT: usize = 10;
const STATES: usize = 20;
/// One thread for each client: so if a lane loads a cold script, only the client of that lane waits.
const THREADS: usize = HOT_CLIENTS + COLD_CLIENTS;
const HOT_CLIENTS: usize = 8;
const COLD_CLIENTS: usize = 2;
/// The interval at which a client sends requests, however slow the answers are: a client that waited for a slow answer would
/// send fewer requests just when the server is slow.
const HOT_EVERY: Duration = Duration::from_millis(8);
const COLD_EVERY: Duration = Duration::from_millis(100);

/// A script with a top level that is as much work as reading a few templates.
const SCRIPT: &str = "local words = {}
for number = 1, 2000 do words[number] = 'word ' .. number end
return function(request) return 200, { ['Content-Type'] = 'text/plain' }, words[#request.path] .. '\\n' end
";

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let oribi = arguments.next().ok_or("usage: popularity PATH-OF-ORIBI [SECONDS]")?;
    let seconds = arguments.next().map_or(Ok(60), |text| text.parse())?;
    let folder = tempfile::tempdir()?;
    for number in 0..SCRIPTS {
        std::fs::write(folder.path().join(format!("{number}.lua")), SCRIPT)?;
    }
    let mut evicted = 0;
    for cold in [false, true] {
        let mut server = start(&oribi, folder.path())?;
        let (port, log) = listen_to(&mut server)?;
        let mut times = run(port, Duration::from_secs(seconds), cold)?;
        Command::new("kill").arg(server.id().to_string()).status()?;
        server.wait()?;
        times.sort_unstable();
        let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_secs_f64() * 1000.0;
        let with = if cold { "with" } else { "without" };
        println!(
            "{with} cold scripts: {} hot requests, p50 {:.3} ms, p99 {:.3} ms, p99.9 {:.3} ms",
            times.len(),
            at(0.5),
            at(0.99),
            at(0.999)
        );
        for line in log.lines() {
            let line = line?;
            if line.contains("evict") {
                println!("  {}", line.split("] ").last().unwrap_or_default());
            }
            if cold {
                evicted += evictions_of_hot(&line, folder.path());
            }
        }
    }
    if evicted > 0 { Err(format!("{evicted} states of hot scripts were evicted").into()) } else { Ok(()) }
}

fn start(oribi: &str, folder: &Path) -> Outcome<Child> {
    let mut command = Command::new(oribi);
    command.arg(folder).args(["--document-root", "--port", "0", "--workers", "1"]);
    command.args(["--states".to_owned(), STATES.to_string(), "--threads".to_owned(), THREADS.to_string()]);
    Ok(command.stderr(Stdio::piped()).spawn()?)
}

/// The port that the server has logged, and the rest of its log.
fn listen_to(server: &mut Child) -> Outcome<(u16, BufReader<std::process::ChildStderr>)> {
    let mut log = BufReader::new(server.stderr.take().ok_or("no log")?);
    let mut line = String::new();
    loop {
        line.clear();
        if log.read_line(&mut line)? == 0 {
            return Err("the server has ended".into());
        }
        if let Some((_, address)) = line.split_once("http://127.0.0.1:") {
            let digits: String = address.chars().take_while(char::is_ascii_digit).collect();
            return Ok((digits.parse()?, log));
        }
    }
}

/// The response times of the hot requests.
fn run(port: u16, time: Duration, cold: bool) -> Outcome<Vec<Duration>> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..HOT_CLIENTS)
            .map(|client| (client, 0..HOT, HOT_EVERY))
            .chain((0..if cold { COLD_CLIENTS } else { 0 }).map(|client| (client + 100, HOT..SCRIPTS, COLD_EVERY)))
            .map(|(client, scripts, every)| {
                let over = &over;
                scope.spawn(move || ask(port, client, &scripts, every, over).map(|times| (scripts.start == 0, times)))
            })
            .collect();
        std::thread::sleep(time);
        over.store(true, Relaxed);
        let mut all = Vec::new();
        for client in clients {
            let (hot, times) = client.join().map_err(|_| "a client has failed")??;
            if hot {
                all.extend(times);
            }
        }
        Ok(all)
    })
}

fn ask(
    port: u16,
    client: usize,
    scripts: &std::ops::Range<usize>,
    every: Duration,
    over: &AtomicBool,
) -> Outcome<Vec<Duration>> {
    let mut connection = BufReader::new(TcpStream::connect(("127.0.0.1", port))?);
    let mut random = client as u64 + 1;
    let mut times = Vec::new();
    let mut due = Instant::now();
    while !over.load(Relaxed) {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // The first of them more often than the last.
        let part = (random >> 11) as f64 / (1_u64 << 53) as f64;
        let script = scripts.start + (part * part * scripts.len() as f64) as usize;
        // In one piece: the kernel holds a second one back until the first is acknowledged.
        connection.get_mut().write_all(format!("GET /{script}.lua HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())?;
        read_answer(&mut connection)?;
        // From when it should have been asked: time spent waiting for the answer before counts as well.
        times.push(due.elapsed());
        due += every;
    }
    Ok(times)
}

fn read_answer(connection: &mut BufReader<TcpStream>) -> Outcome<()> {
    let (mut line, mut length) = (String::new(), 0);
    connection.read_line(&mut line)?;
    if !line.starts_with("HTTP/1.1 200 ") {
        return Err(format!("the server answers {line:?}").into());
    }
    while line != "\r\n" {
        if let Some(("Content-Length", value)) = line.split_once(": ") {
            length = value.trim().parse()?;
        }
        line.clear();
        connection.read_line(&mut line)?;
    }
    connection.read_exact(&mut vec![0; length])?;
    Ok(())
}

/// The evictions of a hot script in a line of the log.
fn evictions_of_hot(line: &str, folder: &Path) -> u64 {
    let hot = (0..HOT).any(|number| line.contains(&format!("{}/{number}.lua:", folder.display())));
    let before = line.split(" evictions").next().and_then(|text| text.rsplit(' ').next());
    if hot { before.and_then(|number| number.parse().ok()).unwrap_or(0) } else { 0 }
}
