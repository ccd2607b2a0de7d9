//! Chooses a route repeatedly, so that a counter of instructions can measure the cost of one choice:
//!
//! ```sh
//! cargo build --release --package oribi-route --example route_cost
//! for rules in 1 10 100 1000; do for path in / /api/users; do for turns in 1000 11000; do
//!     valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/route_cost $rules $path $turns
//! done; done; done
//! ```
//!
//! The difference of the two counts divided by 10000 is the cost of one choice. One fifth of the rules have a host of their
//! own; among the others, prefixes and exact paths take turns; the last rule has no condition. The request is one for the
//! first of the hosts, and no rule but the last one matches `/`; `/api/users` is an exact path of the rule in the middle.
use oribi_route::{FieldLines, RequestView, Rule, Scheme, Scratch, Table};
use std::hint::black_box;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: usize| arguments.next().and_then(|text| text.parse().ok()).unwrap_or(default);
    let count = number(100);
    let path = std::env::args().nth(2).unwrap_or_else(|| "/api/users".to_owned());
    let turns = std::env::args().nth(3).and_then(|turns| turns.parse().ok()).unwrap_or(1000);
    let table = Table::compile(&rules(count)).expect("the rules are valid");
    let request = RequestView {
        method: b"GET",
        scheme: Scheme::Http,
        host: Some(b"app0.example.com"),
        target: path.as_bytes(),
        source: None,
        destination: None,
        fields: FieldLines::Pairs(&[]),
    };
    let mut scratch = Scratch::default();
    let mut chosen = None;
    for _ in 0..turns {
        chosen = table.choose(black_box(&request), &mut scratch).rule;
        black_box(chosen);
    }
    println!("{path} is for rule {chosen:?} of {}", table.len());
}

fn rules(count: usize) -> Vec<Rule> {
    let mut rules: Vec<Rule> = (0..count)
        .map(|index| match index % 5 {
            0 => {
                Rule { host: vec![format!("app{index}.example.com")], path: vec![format!("/only{index}/*")], ..Rule::default() }
            }
            1 | 2 => Rule { path: vec![format!("/part{index}/*")], ..Rule::default() },
            _ => Rule { path: vec![format!("/page{index}")], ..Rule::default() },
        })
        .collect();
    let middle = count / 2;
    if let Some(rule) = rules.get_mut(middle) {
        *rule = Rule { path: vec!["/api/users".to_owned()], ..Rule::default() };
    }
    if count > 1 {
        rules[count - 1] = Rule::default();
    }
    rules
}
