//! The rules of the crate's documentation, written down as plainly as possible: each rule is tried in turn, and each text is
//! read anew.

use oribi_route::{Destination, FieldLines, NamedPattern, RequestView, Rule, Scheme};
use regex::bytes::RegexBuilder;
use std::net::IpAddr;

/// The index of the first rule that matches, and the normalized path. The rules are valid.
pub fn choose(rules: &[Rule], request: &RequestView<'_>) -> (Option<usize>, Option<Vec<u8>>) {
    let (authority, path, query) = parts(request.target);
    let host = host(authority.or(request.host).unwrap_or_default());
    let path = path.map(normalize);
    let pairs = pairs(query);
    let FieldLines::Pairs(lines) = request.fields else { panic!("the reference reads pairs") };
    let fields = |name: &str| -> Vec<Vec<u8>> {
        let lines = lines.iter().filter(|(line, _)| line.eq_ignore_ascii_case(name.as_bytes()));
        lines.map(|(_, value)| value.to_vec()).collect()
    };
    let values = |name: &str| -> Vec<Vec<u8>> {
        pairs.iter().filter(|(pair, _)| pair == name.as_bytes()).map(|(_, value)| value.clone()).collect()
    };
    let scheme = if request.scheme == Scheme::Https { "https" } else { "http" };
    let rule = rules.iter().position(|rule| {
        admits(&rule.host, |pattern| is_host(pattern, &host))
            && admits(&rule.path, |pattern| path.as_ref().is_some_and(|path| is_text(pattern, path)))
            && admits(&rule.method, |pattern| is_text(pattern, request.method))
            && admits(&rule.source, |network| request.source.is_some_and(|source| is_in(network, source)))
            && admits(&rule.destination, |pattern| request.destination.is_some_and(|place| is_at(pattern, place)))
            && admits(&rule.scheme, |pattern| pattern == scheme)
            && admits_named(&rule.field, str::eq_ignore_ascii_case, fields)
            && admits_named(&rule.query, |one, other| one == other, values)
    });
    (rule, path)
}

fn admits(patterns: &[String], matches: impl Fn(&str) -> bool) -> bool {
    let (negative, positive): (Vec<&String>, Vec<&String>) = patterns.iter().partition(|pattern| pattern.starts_with('!'));
    (positive.is_empty() || positive.iter().any(|pattern| matches(pattern)))
        && !negative.iter().any(|pattern| matches(&pattern[1..]))
}

fn admits_named(conditions: &[NamedPattern], same: impl Fn(&str, &str) -> bool, values: impl Fn(&str) -> Vec<Vec<u8>>) -> bool {
    let of_name = |name: &str| conditions.iter().filter(|one| same(&one.name, name)).collect::<Vec<_>>();
    conditions.iter().all(|condition| admits_one_name(&of_name(&condition.name), &values))
}

fn admits_one_name(conditions: &[&NamedPattern], values: impl Fn(&str) -> Vec<Vec<u8>>) -> bool {
    let mut positive = None;
    for NamedPattern { name, value } in conditions {
        let present = values(name);
        match value.as_deref() {
            Some(pattern) if pattern.starts_with('!') => {
                if present.iter().any(|value| is_text(&pattern[1..], value)) {
                    return false;
                }
            }
            pattern => {
                let matches = present.iter().any(|value| pattern.is_none_or(|pattern| is_text(pattern, value)));
                positive = Some(positive.unwrap_or(false) || matches);
            }
        }
    }
    positive.unwrap_or(true)
}

fn is_text(pattern: &str, value: &[u8]) -> bool {
    if let Some(expression) = pattern.strip_prefix('~') {
        let mut builder = RegexBuilder::new(expression);
        return builder.unicode(false).dot_matches_new_line(true).build().expect("the pattern is valid").is_match(value);
    }
    is_wildcard(pattern, value)
}

fn is_wildcard(pattern: &str, value: &[u8]) -> bool {
    // Whether the pattern so far matches the first bytes of the value, for each number of bytes.
    let mut matched = vec![false; value.len() + 1];
    matched[0] = true;
    for byte in pattern.bytes() {
        if byte == b'*' {
            for length in 1..matched.len() {
                matched[length] |= matched[length - 1];
            }
        } else {
            for length in (1..matched.len()).rev() {
                matched[length] = matched[length - 1] && value[length - 1] == byte;
            }
            matched[0] = false;
        }
    }
    matched[value.len()]
}

fn is_host(pattern: &str, host: &[u8]) -> bool {
    if pattern == "*" {
        return true;
    }
    let pattern = pattern.to_ascii_lowercase();
    if let Some(address) = pattern.strip_prefix('[') {
        let of = |literal: &str| literal.strip_suffix(']')?.parse::<std::net::Ipv6Addr>().ok();
        let text = std::str::from_utf8(host).unwrap_or_default();
        return text.strip_prefix('[').is_some_and(|text| of(text).is_some() && of(text) == of(address));
    }
    let pattern = pattern.strip_suffix('.').unwrap_or(&pattern);
    match pattern.strip_prefix('*') {
        Some(end) => {
            !host.starts_with(b".") && !host.starts_with(b"[") && host.len() > end.len() && host.ends_with(end.as_bytes())
        }
        None => host == pattern.as_bytes(),
    }
}

fn is_in(network: &str, source: IpAddr) -> bool {
    let bits = |address: IpAddr| -> Vec<bool> {
        let bytes = match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1 == 1)).collect()
    };
    let (address, prefix) = network.split_once('/').unwrap_or((network, "128"));
    let network: IpAddr = address.parse().expect("the network is valid");
    let source = bits(source.to_canonical());
    let mut network_bits = bits(network);
    let mut prefix = prefix.parse::<usize>().expect("the prefix is valid");
    if network_bits.len() == 128 && prefix >= 96 && matches!(network.to_canonical(), IpAddr::V4(_)) {
        network_bits.drain(..96);
        prefix -= 96;
    }
    source.len() == network_bits.len() && source.iter().zip(&network_bits).take(prefix).all(|(one, other)| one == other)
}

fn is_at(pattern: &str, place: Destination<'_>) -> bool {
    let (address, port) = match place {
        Destination::Internet { address, port } => (address, port),
        Destination::Unix(path) => {
            let wanted = pattern.strip_prefix("unix://").or_else(|| pattern.strip_prefix("unix:"));
            let wanted = wanted.map(|wanted| wanted.strip_prefix("./").unwrap_or(wanted));
            let path = path.strip_prefix(b"./").unwrap_or(path);
            return pattern == "unix" || wanted.is_some_and(|wanted| is_wildcard(wanted, path));
        }
    };
    if pattern == "unix" || pattern.starts_with("unix:") {
        return false;
    }
    let colons = pattern.matches(':').count();
    let (network, ports) = match pattern.strip_prefix('[') {
        Some(_) if pattern.ends_with(']') => (pattern, ""),
        None if colons > 1 => (pattern, ""),
        _ => pattern.rsplit_once(':').unwrap_or((pattern, "")),
    };
    let network = network.trim_matches(['[', ']']);
    let mut bounds = ports.split('-').filter(|text| !text.is_empty()).map(|text| text.parse::<u16>().expect("a port"));
    let first = bounds.next();
    let last = bounds.next().or(first);
    let fits = first.is_none_or(|first| first <= port) && last.is_none_or(|last| port <= last);
    fits && (matches!(network, "" | "*") || address.is_some_and(|address| is_in(network, address)))
}

fn host(host: &[u8]) -> Vec<u8> {
    let mut host = host.to_ascii_lowercase();
    if let Some(colon) = host.iter().rposition(|byte| *byte == b':')
        && host[colon + 1..].iter().all(u8::is_ascii_digit)
    {
        host.truncate(colon);
    }
    if host.last() == Some(&b'.') {
        host.pop();
    }
    host
}

type Parts<'a> = (Option<&'a [u8]>, Option<&'a [u8]>, &'a [u8]);

fn parts(target: &[u8]) -> Parts<'_> {
    let split = |text: &'static [u8]| target.get(..text.len()).filter(|start| start.eq_ignore_ascii_case(text));
    let (authority, rest) = if target.starts_with(b"/") {
        (None, target)
    } else {
        let Some(scheme) = split(b"http://").or_else(|| split(b"https://")) else { return (None, None, b"") };
        let rest = &target[scheme.len()..];
        let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
        (Some(&rest[..end]), &rest[end..])
    };
    let mut halves = rest.splitn(2, |byte| *byte == b'?');
    let path = halves.next().filter(|path| !path.is_empty()).unwrap_or(b"/");
    (authority, Some(path), halves.next().unwrap_or_default())
}

fn decode(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::new();
    let mut place = 0;
    while place < text.len() {
        let escape = text.get(place + 1..place + 3).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        match escape {
            Some(digits) if text[place] == b'%' => {
                let digits = std::str::from_utf8(digits).expect("the digits are ASCII");
                decoded.push(u8::from_str_radix(digits, 16).expect("the digits are hexadecimal"));
                place += 3;
            }
            _ => {
                decoded.push(text[place]);
                place += 1;
            }
        }
    }
    decoded
}

pub fn normalize(path: &[u8]) -> Vec<u8> {
    let decoded = decode(path);
    let segments: Vec<&[u8]> = decoded.split(|byte| *byte == b'/').collect();
    let mut kept: Vec<&[u8]> = Vec::new();
    for segment in &segments {
        match *segment {
            b"" | b"." => {}
            b".." => drop(kept.pop()),
            name => kept.push(name),
        }
    }
    let mut path = Vec::new();
    for name in &kept {
        path.push(b'/');
        path.extend_from_slice(name);
    }
    if matches!(segments.last(), Some(&(b"" | b"." | b".."))) {
        path.push(b'/');
    }
    path
}

fn pairs(query: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let form = |text: &[u8]| {
        let spaces: Vec<u8> = text.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
        decode(&spaces)
    };
    let pairs = query.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let mut halves = pair.splitn(2, |byte| *byte == b'=');
            (form(halves.next().unwrap_or_default()), form(halves.next().unwrap_or_default()))
        })
        .collect()
}
