//! Properties of all fields that a cache reads, of requests and of responses.

use oribi_cache::{Answer, Response, ResponseControl, Rules, Scope, Selection, Store, Times, Vary, secondary_key};
use oribi_message::FieldPair;
use std::rc::Rc;
use std::time::Duration;

const RULES: Rules =
    Rules { default_age: Some(60), max_object: 1 << 10, stale_while_revalidate: 5, stale_if_error: 5, heeds_requests: true };

/// Judges and stores a response. The first two bytes of `data` are the status and whether the request has Authorization; a line
/// with `>` in front is a field of the request, and all other lines are fields of the response. Returns whether it was stored.
pub fn check(data: &[u8]) -> bool {
    // The target of an order may be any text.
    if let Ok(selection) = Selection::parse(&String::from_utf8_lossy(data)) {
        let _ = selection.includes(data);
    }
    let [first, second, rest @ ..] = data else { return false };
    let status = 200 + u16::from(*first) * 2;
    let (mut request, mut fields): (Vec<FieldPair<'_>>, Vec<FieldPair<'_>>) = (Vec::new(), Vec::new());
    for line in rest.split(|byte| *byte == b'\n') {
        let (own, line) = line.strip_prefix(b">").map_or((&mut fields, line), |line| (&mut request, line));
        if let Some(colon) = line.iter().position(|byte| *byte == b':') {
            own.push((&line[..colon], line[colon + 1..].trim_ascii()));
        }
    }
    let times = Times { asked: Duration::ZERO, now: Duration::from_secs(2), date: 784_111_777 };
    let authorized = *second & 1 == 1;
    let has = |wanted: &str| fields.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted.as_bytes()));
    let mut control = ResponseControl::default();
    let lines = fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"cache-control"));
    lines.for_each(|(_, value)| control.read(value));
    let Ok(judgement) = RULES.judge(authorized, status, &fields, &times) else { return false };
    assert!(!has("Set-Cookie") && judgement.lifetime <= 1 << 31 || has("Expires"));
    assert!(has("CDN-Cache-Control") || (!control.no_store && !control.private));
    assert!(!authorized || judgement.shared);
    assert!(!judgement.strict || judgement.stale_while_revalidate == 0 && judgement.stale_if_error == 0);

    // White space and the division into lines do not matter for Vary.
    let mut key = Vec::new();
    secondary_key(&judgement.vary, &request.iter().copied(), &mut key);
    let spaced: Vec<(&[u8], Vec<u8>)> = request.iter().map(|(name, value)| (*name, [b" ", *value, b"\t,"].concat())).collect();
    let unbalanced = request.iter().any(|(_, value)| value.contains(&b'"') || value.contains(&b'\\'));
    let mut other = Vec::new();
    secondary_key(&judgement.vary, &spaced.iter().map(|(name, value)| (*name, &value[..])), &mut other);
    assert!(unbalanced || key == other);
    assert_eq!(Vary::of(fields.iter().copied().chain(fields.iter().copied())).as_ref(), Some(&judgement.vary));

    let response = Response::new(judgement, (status, &fields), b"content"[..].into(), &times, |_| false);
    assert!(response.fields().all(|(name, _)| !name.eq_ignore_ascii_case(b"connection") && !name.eq_ignore_ascii_case(b"age")));
    assert!(response.fields().any(|(name, _)| name.eq_ignore_ascii_case(b"date")) || has("Connection"));
    for seconds in 2..10 {
        if let Answer::ServeAndAsk(left) = response.answer(Duration::from_secs(seconds), None) {
            assert!(left <= 0);
        }
    }
    let _ = response.updated(&RULES, authorized, &fields, &times, |_| false);
    let mut store = Store::new(1 << 16);
    let scope = Scope { route: 0, app: 0, generation: 0 };
    store.insert(b"key", scope, &request.iter().copied(), Rc::new(response));
    let found = store.find(b"key", scope, &request.iter().copied(), times.now).response;
    assert!(found.is_some() || data.len() > 1 << 10);
    store.invalidate(b"key");
    assert_eq!(store.bytes(), 0);
    true
}
