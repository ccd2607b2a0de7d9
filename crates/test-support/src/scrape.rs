//! A client of a server's metrics.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// The address of the metrics.
#[derive(Clone, Debug)]
pub enum MetricsAddress {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl MetricsAddress {
    /// Returns the address that a server has written to its log.
    pub fn said_in(log: &str) -> Self {
        let said = log.split("metrics are at http://").nth(1).unwrap_or_else(|| panic!("it names no port:\n{log}"));
        Self::Tcp(said.split('/').next().and_then(|address| address.parse().ok()).expect("an address"))
    }

    /// Sends a request and returns the whole response.
    pub fn request(&self, request: &str) -> String {
        self.ask(request).expect("it answers")
    }

    /// Like [`MetricsAddress::request`]; `None` without an answer.
    fn ask(&self, request: &str) -> Option<String> {
        let (mut answer, patience) = (String::new(), Some(Duration::from_secs(30)));
        match self {
            Self::Tcp(address) => {
                let mut stream = TcpStream::connect(address).ok()?;
                stream.set_read_timeout(patience).ok()?;
                stream.write_all(request.as_bytes()).ok()?;
                stream.read_to_string(&mut answer).ok()?;
            }
            Self::Unix(path) => {
                let mut stream = UnixStream::connect(path).ok()?;
                stream.set_read_timeout(patience).ok()?;
                stream.write_all(request.as_bytes()).ok()?;
                stream.read_to_string(&mut answer).ok()?;
            }
        }
        Some(answer).filter(|answer| !answer.is_empty())
    }

    /// Sends a request whose response does not end. Returns the response as soon as it contains `words`.
    pub fn beginning(&self, request: &str, words: &str) -> String {
        let Self::Tcp(address) = self else { panic!("it is a port") };
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("it is ours");
        stream.write_all(request.as_bytes()).expect("it reads");
        let (mut answer, mut buffer) = (String::new(), [0; 4096]);
        while !answer.contains(words) {
            let count = stream.read(&mut buffer).expect("it goes on");
            assert!(count > 0, "it has ended: {answer}");
            answer.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        answer
    }
}

/// The metrics of one moment: the values of all series.
#[derive(Clone, Debug)]
pub struct Scrape(BTreeMap<String, f64>);

impl Scrape {
    /// The metrics from an address that must answer.
    pub fn of(place: &MetricsAddress) -> Self {
        Self::ask(place).expect("it answers")
    }

    /// Like [`Scrape::of`]; `None` without an answer.
    pub fn ask(place: &MetricsAddress) -> Option<Self> {
        place.ask("GET /metrics HTTP/1.1\r\nHost: test\r\n\r\n").map(|answer| Self::read(&answer))
    }

    /// The metrics in a response.
    pub fn read(answer: &str) -> Self {
        let (head, text) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let length = head.split("Content-Length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
        assert_eq!(length, Some(text.len()), "it is whole");
        let samples = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
            let (series, value) = line.rsplit_once(' ').expect("a series and a value");
            (series.to_owned(), value.parse().expect("a number"))
        });
        Self(samples.collect())
    }

    pub fn get(&self, series: &str) -> f64 {
        *self.0.get(series).unwrap_or_else(|| panic!("{series} is not there: {self:#?}"))
    }

    /// Checks that no counter is less than in `before`.
    pub fn must_not_shrink(&self, before: &Self) {
        let only_grow = ["_total", "_bucket", "_sum", "_count"];
        let is_counter =
            |series: &str| series.split('{').next().is_some_and(|name| only_grow.iter().any(|ending| name.ends_with(ending)));
        for (series, value) in before.0.iter().filter(|(series, _)| is_counter(series)) {
            assert!(self.get(series) >= *value, "{series} has shrunk from {value} to {}", self.get(series));
        }
    }
}
