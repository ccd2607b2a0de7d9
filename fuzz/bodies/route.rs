//! Properties of all rules of a configuration, and of all requests.

use crate::reference;
use oribi_route::{Destination, FieldLines, NamedPattern, PathExpressions, RequestView, Rule, Scheme, Scratch, Table};
use oribi_route::{Template, Values};
use std::net::{IpAddr, SocketAddr};

/// Compiles rules and chooses among them. `data` consists of lines: a letter, and a text. `R` begins a rule, `Q` a request, and
/// `W` has a template by which each request is rewritten; the other letters are the parts of both, as [`condition`] and [`part`] say. A table must choose as [`reference`] does, and
/// the path that it returns must be in its normal form. Returns the number of requests.
pub fn check(data: &[u8]) -> usize {
    let (mut rules, mut requests, mut templates) = (Vec::new(), Vec::new(), Vec::new());
    for line in data.split(|byte| *byte == b'\n') {
        match line {
            [b'R', ..] => rules.push(Rule::default()),
            [b'W', text @ ..] => templates.push(String::from_utf8_lossy(text).into_owned()),
            [b'Q', target @ ..] => requests.push(Request { target, ..Request::default() }),
            [letter, text @ ..] => match (requests.last_mut(), rules.last_mut(), std::str::from_utf8(text)) {
                (Some(request), _, _) => part(request, *letter, text),
                (None, Some(rule), Ok(text)) => condition(rule, *letter, text),
                _ => {}
            },
            [] => {}
        }
    }
    let table = match Table::compile(&rules) {
        Ok(table) => table,
        Err(errors) => {
            assert!(!errors.is_empty());
            for error in errors {
                assert!(error.rule < rules.len() && !error.to_string().contains('\n'), "{error}");
            }
            return 0;
        }
    };
    assert_eq!(table.len(), rules.len());
    let mut scratch = Scratch::default();
    for request in &requests {
        let view = RequestView {
            method: request.method,
            scheme: if request.https { Scheme::Https } else { Scheme::Http },
            host: request.host,
            target: request.target,
            source: request.source,
            destination: request.destination,
            fields: FieldLines::Pairs(&request.fields),
        };
        let choice = table.choose(&view, &mut scratch);
        let (rule, path) = reference::choose(&rules, &view);
        assert_eq!((choice.rule, choice.path), (rule, path.as_deref()), "{rules:?} {view:?}");
        let decided = table.decide(view.target, || view.host, &mut Scratch::default());
        assert!(decided.is_none() || table.needs_endpoints() || (decided == rule && choice.is_plain), "{rules:?} {view:?}");
        if choice.is_plain {
            let sent = request.target.split(|byte| *byte == b'?').next();
            assert_eq!(choice.path, sent, "a plain path is the one that was sent");
        }
        let without_source = RequestView { source: None, ..view };
        assert!(table.needs_source() || table.choose(&without_source, &mut Scratch::default()).rule == rule);
        let without_destination = RequestView { destination: None, ..view };
        assert!(table.needs_destination() || table.choose(&without_destination, &mut Scratch::default()).rule == rule);
        if let Some(Destination::Internet { port, .. }) = view.destination {
            let destination = Some(Destination::Internet { address: None, port });
            let without_address = RequestView { destination, ..view };
            assert!(table.needs_address() || table.choose(&without_address, &mut Scratch::default()).rule == rule);
        }
        if let Some(path) = choice.path {
            is_normal(path);
            let expressions = choice.rule.map_or_else(PathExpressions::default, |rule| PathExpressions::of(&rules[rule].path));
            let host = Some(&b"example.com"[..]);
            let values = Values { request: view, request_uri: view.target, path, host, expressions: &expressions };
            templates.iter().for_each(|template| rewrite(template, &values));
        }
    }
    requests.len()
}

/// A path in its normal form has no segment that leads elsewhere.
fn is_normal(path: &[u8]) {
    let mut segments = path.split(|byte| *byte == b'/');
    assert_eq!(segments.next(), Some(&b""[..]), "the path begins with a slash");
    let last = segments.next_back();
    assert!(last.is_some() && segments.chain(last).all(|segment| !matches!(segment, b"." | b"..")));
    assert!(!path.windows(2).any(|pair| pair == b"//"));
}

/// A rewritten target has its path in its normal form, and no byte that ends a request line.
fn rewrite(template: &str, values: &Values<'_>) {
    let template = Template::parse_lenient(template, &values.expressions.groups());
    let mut normal = Vec::new();
    let Ok(target) = template.rewrite(values, &mut normal) else { return };
    is_normal(&normal);
    assert!(target.starts_with(b"/") && target.iter().all(u8::is_ascii_graphic), "{}", target.escape_ascii());
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    let request = RequestView { target: path, ..values.request };
    let mut scratch = Scratch::default();
    let table = Table::compile(&[Rule::default()]).expect("a rule without conditions");
    assert_eq!(table.choose(&request, &mut scratch).path, Some(&*normal), "{}", target.escape_ascii());
}

#[derive(Default)]
struct Request<'a> {
    target: &'a [u8],
    method: &'a [u8],
    https: bool,
    host: Option<&'a [u8]>,
    source: Option<IpAddr>,
    destination: Option<Destination<'a>>,
    fields: Vec<(&'a [u8], &'a [u8])>,
}

fn condition(rule: &mut Rule, letter: u8, text: &str) {
    let named = || {
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        NamedPattern { name: name.to_owned(), value: value.map(str::to_owned) }
    };
    match letter {
        b'h' => rule.host.push(text.to_owned()),
        b'p' => rule.path.push(text.to_owned()),
        b'm' => rule.method.push(text.to_owned()),
        b'f' => rule.field.push(named()),
        b'q' => rule.query.push(named()),
        b's' => rule.source.push(text.to_owned()),
        b'd' => rule.destination.push(text.to_owned()),
        b't' => rule.scheme.push(text.to_owned()),
        _ => {}
    }
}

fn part<'a>(request: &mut Request<'a>, letter: u8, text: &'a [u8]) {
    match letter {
        b'h' => request.host = Some(text),
        b'm' => request.method = text,
        b'f' => {
            let name = text.split(|byte| *byte == b'=').next().unwrap_or_default();
            request.fields.push((name, text.get(name.len() + 1..).unwrap_or_default()));
        }
        b's' => request.source = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()),
        b'd' => request.destination = std::str::from_utf8(text).ok().and_then(destination),
        b't' => request.https = text == b"https",
        _ => {}
    }
}

/// Reads `unix` with the path of a socket, an address with its port, or a port without a known address.
fn destination(text: &str) -> Option<Destination<'_>> {
    if let Some(path) = text.strip_prefix("unix") {
        return Some(Destination::Unix(path.strip_prefix(':').unwrap_or(path).as_bytes()));
    }
    if let Ok(port) = text.parse() {
        return Some(Destination::Internet { address: None, port });
    }
    let address: SocketAddr = text.parse().ok()?;
    Some(Destination::Internet { address: Some(address.ip()), port: address.port() })
}
