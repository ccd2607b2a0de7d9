//! The cost of each coding at each level: time, ratio, and memory of an encoder. A report; nothing is judged by it.
//!
//! `cargo run --release -p oribi-encode --example encode_cost [MILLISECONDS]`: the time for each figure, 200 by default.

use oribi_encode::{Coding, Encoder, levels};
use std::fmt::Write as _;
use std::hint::black_box;
use std::process::Command;
use std::time::{Duration, Instant};

/// The number of encoders whose memory is measured at once.
const ENCODERS: usize = 32;

fn main() {
    if let (Some("--memory"), Some(name), Some(level)) = (argument(1).as_deref(), argument(2), argument(3)) {
        let coding = Coding::ALL.into_iter().find(|coding| coding.name() == name).expect("the name of a coding");
        return println!("{}", memory(coding, level.parse().expect("a level")));
    }
    let milliseconds = argument(1).and_then(|text| text.parse().ok()).unwrap_or(200);
    let time = Duration::from_millis(milliseconds);
    let samples: Vec<(&str, Vec<u8>)> =
        [4, 32, 256].into_iter().flat_map(|size| [("html", html(size * 1024)), ("json", json(size * 1024))]).collect();
    println!("each figure: MB of content a second / size of the output, in percent; KiB: memory of an encoder");
    print!("{:<8}", "");
    for (kind, content) in &samples {
        print!("{:>16}", format!("{kind} {}k", content.len() / 1024));
    }
    println!("{:>9}", "KiB");
    for coding in Coding::ALL {
        for level in levels(coding) {
            print!("{:<8}", format!("{} {level}", coding.name()));
            let mut encoder = Encoder::new(coding, level);
            for (_, content) in &samples {
                let (rate, size) = measure(&mut encoder, content, time);
                print!("{:>16}", format!("{rate:.0} / {:.1}", size as f64 * 100.0 / content.len() as f64));
            }
            println!("{:>9}", memory_in_new_process(coding, level));
        }
    }
}

fn argument(index: usize) -> Option<String> {
    std::env::args().nth(index)
}

/// The figure of [`memory`], from a process that has no free memory left over from other measurements.
fn memory_in_new_process(coding: Coding, level: u8) -> String {
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new(program).args(["--memory", coding.name(), &level.to_string()]).output().expect("it starts");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Encodes `content` again and again. Returns the megabytes a second, and the size of the output.
fn measure(encoder: &mut Encoder, content: &[u8], time: Duration) -> (f64, usize) {
    let mut output = Vec::with_capacity(content.len());
    let start = Instant::now();
    let mut rounds = 0;
    while start.elapsed() < time {
        output.clear();
        encoder.reset();
        encode(encoder, black_box(content), &mut output);
        rounds += 1;
    }
    (content.len() as f64 * f64::from(rounds) / start.elapsed().as_secs_f64() / 1e6, output.len())
}

fn encode(encoder: &mut Encoder, content: &[u8], output: &mut Vec<u8>) {
    // Workers pass content on in pieces of up to so many bytes.
    for piece in content.chunks(16 * 1024) {
        encoder.write(piece, output).expect("the encoder is open");
    }
    encoder.finish(output).expect("the encoder is open");
}

/// The memory of an encoder that has been used for responses of several sizes, in KiB, as the kernel counts it.
fn memory(coding: Coding, level: u8) -> usize {
    let content = html(1024 * 1024);
    let mut output = Vec::with_capacity(content.len());
    let before = resident();
    let mut encoders: Vec<Encoder> = (0..ENCODERS).map(|_| Encoder::new(coding, level)).collect();
    for encoder in &mut encoders {
        for size in [1024 * 1024, 100, 50_000, 300_000, 10_000, 1024 * 1024] {
            output.clear();
            encoder.reset();
            encode(encoder, &content[..size], &mut output);
        }
    }
    (resident().saturating_sub(before)) / ENCODERS
}

/// The memory of this process, in KiB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("this is Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the line is always there");
    line.trim().trim_end_matches("kB").trim().parse().expect("a number")
}

/// Numbers that are the same in every run (xorshift64*).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit
    }

    fn words(&mut self, count: usize) -> String {
        const WORDS: &str = "the of and to in a is that for it as was with be by on not he this are or his from at which but have \
            an had they you were their one all we can her has there been if more when will would who so no out up into only \
            order customer invoice shipping address weight price stock warehouse delivery return discount basket account \
            password settings profile message thread reply subject attachment archive project task deadline meeting report";
        let words: Vec<&str> = WORDS.split_whitespace().collect();
        // Frequent words come first, as in a language.
        let mut text = String::new();
        for _ in 0..count {
            let index = self.below(words.len()).min(self.below(words.len()));
            let _ = write!(text, "{} ", words[index]);
        }
        text.trim_end().to_owned()
    }
}

fn html(size: usize) -> Vec<u8> {
    let mut numbers = Numbers(7);
    let mut page = String::from(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>Orders</title></head>\n<body>\n",
    );
    while page.len() < size {
        let (number, words) = (numbers.below(1_000_000), 4 + numbers.below(20));
        let (name, text) = (numbers.words(2), numbers.words(words));
        let _ = write!(
            page,
            "<tr class=\"order {}\">\n  <td><a href=\"/orders/{number}/edit?return=%2Forders\">{name}</a></td>\n  \
             <td class=\"text\">{text}</td>\n  <td class=\"price\">{}.{:02} EUR</td>\n</tr>\n",
            ["open", "paid", "sent"][numbers.below(3)],
            numbers.below(500),
            numbers.below(100)
        );
    }
    page.truncate(size);
    page.into_bytes()
}

fn json(size: usize) -> Vec<u8> {
    let mut numbers = Numbers(11);
    let mut text = String::from("[");
    while text.len() < size {
        let words = 3 + numbers.below(12);
        let _ = write!(
            text,
            "{{\"id\":{},\"created_at\":\"2026-{:02}-{:02}T{:02}:{:02}:00Z\",\"customer\":{{\"name\":\"{}\",\"active\":{}}},\
             \"note\":\"{}\",\"total\":{}.{:02},\"token\":\"{:08x}{:08x}\"}},",
            numbers.below(1_000_000),
            1 + numbers.below(12),
            1 + numbers.below(28),
            numbers.below(24),
            numbers.below(60),
            numbers.words(2),
            numbers.below(2) == 0,
            numbers.words(words),
            numbers.below(900),
            numbers.below(100),
            numbers.below(usize::MAX),
            numbers.below(usize::MAX)
        );
    }
    text.truncate(size);
    text.into_bytes()
}
