//! A stored response.

use crate::control::{RequestControl, elements};
use crate::date;
use crate::fields::Fields;
use crate::rules::{Judgement, Refusal, Rules, Times};
use oribi_message::FieldPair;
use std::rc::Rc;
use std::time::Duration;

/// Fields that concern one connection or one message, and those that the server makes for each response.
const OWN: &[&[u8]] = &[
    b"age",
    b"connection",
    b"content-length",
    b"keep-alive",
    b"proxy-authenticate",
    b"proxy-authentication-info",
    b"proxy-authorization",
    b"proxy-connection",
    b"server-timing",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
];

/// Fields that a 304 does not change, because the stored content has them.
const OF_CONTENT: &[&[u8]] =
    &[b"content-encoding", b"content-length", b"content-range", b"content-type", b"content-digest", b"repr-digest"];

/// Fields that describe the content, and are not in a 304.
const NOT_IN_304: &[&[u8]] = &[b"content-encoding", b"content-language", b"content-range", b"content-type", b"content-md5"];

/// The way in which a stored response answers a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It answers. The number is the time in seconds for which it stays fresh; negative if it is stale.
    Serve(i64),
    /// It answers, although it is stale by so many seconds, and the app is asked meanwhile.
    ServeAndAsk(i64),
    /// The app is asked first.
    Ask,
}

/// A stored response.
#[derive(Clone, Debug)]
pub struct Response {
    status: u16,
    fields: Fields,
    content: Rc<[u8]>,
    received: Duration,
    judgement: Judgement,
}

impl Response {
    /// Makes a response from its parts. Fields for which `is_fresh` holds are not stored: the server makes them for each
    /// response.
    pub fn new(
        judgement: Judgement,
        (status, fields): (u16, &[FieldPair<'_>]),
        content: Rc<[u8]>,
        times: &Times,
        is_fresh: impl Fn(&[u8]) -> bool,
    ) -> Self {
        let is_named = |name: &[u8]| {
            let connections = fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"connection"));
            let mut options = connections.flat_map(|(_, value)| elements(value));
            options.any(|option| option.eq_ignore_ascii_case(name))
        };
        let is_kept = |name: &[u8]| !is_one_of(name, OWN) && !is_fresh(name) && !is_named(name);
        let date = date::format(times.date);
        let has_date = fields.iter().any(|(name, _)| name.eq_ignore_ascii_case(b"date"));
        let own: Option<FieldPair<'_>> = (!has_date).then_some((b"Date", date.as_bytes()));
        let fields = Fields::copy(fields.iter().copied().filter(|(name, _)| is_kept(name)).chain(own));
        Self { status, fields, content, received: times.now, judgement }
    }

    /// Returns the response after a 304 with these fields has confirmed it (RFC 9111, section 4.3.4).
    ///
    /// # Errors
    /// The fields of the 304 forbid storing it.
    pub fn updated(
        &self,
        rules: &Rules,
        authorized: bool,
        fields: &[FieldPair<'_>],
        times: &Times,
        is_fresh: impl Fn(&[u8]) -> bool,
    ) -> Result<Self, Refusal> {
        let all = self.merged(fields);
        let judgement = rules.judge(authorized, self.status, &all, times)?;
        Ok(Self::new(judgement, (self.status, &all), self.content.clone(), times, is_fresh))
    }

    /// Returns the response with the fields of a 304 that confirms it and forbids storing it, for the request of that 304 only.
    #[must_use]
    pub fn confirmed_once(&self, fields: &[FieldPair<'_>], times: &Times, is_fresh: impl Fn(&[u8]) -> bool) -> Self {
        let all = self.merged(fields);
        let judgement = Judgement { age: 0, ..self.judgement.clone() };
        Self::new(judgement, (self.status, &all), self.content.clone(), times, is_fresh)
    }

    /// The fields, with those of a 304 in place of the former ones.
    fn merged<'f>(&'f self, fields: &[FieldPair<'f>]) -> Vec<FieldPair<'f>> {
        let is_new = |name: &[u8]| fields.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        let stays = |name: &[u8]| is_one_of(name, OF_CONTENT) || !(is_new(name) || name.eq_ignore_ascii_case(b"date"));
        let changed = fields.iter().copied().filter(|(name, _)| !is_one_of(name, OF_CONTENT));
        self.fields.iter().filter(|(name, _)| stays(name)).chain(changed).collect()
    }

    /// The status.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The fields; without Age and Content-Length.
    pub fn fields(&self) -> impl Iterator<Item = FieldPair<'_>> + Clone {
        self.fields.iter()
    }

    /// The fields of a 304.
    pub fn fields_of_304(&self) -> impl Iterator<Item = FieldPair<'_>> + Clone {
        self.fields.iter().filter(|(name, _)| !is_one_of(name, NOT_IN_304))
    }

    /// The content.
    #[must_use]
    pub fn content(&self) -> &[u8] {
        &self.content
    }

    /// The decision to store it.
    #[must_use]
    pub fn judgement(&self) -> &Judgement {
        &self.judgement
    }

    /// Its age in seconds.
    #[must_use]
    pub fn age(&self, now: Duration) -> u32 {
        let resident = u32::try_from(now.saturating_sub(self.received).as_secs()).unwrap_or(u32::MAX);
        self.judgement.age.saturating_add(resident)
    }

    fn time_left(&self, now: Duration) -> i64 {
        i64::from(self.judgement.lifetime) - i64::from(self.age(now))
    }

    /// Decides how it answers a request. `control`: the directives of the request, if they are heeded.
    #[must_use]
    pub fn answer(&self, now: Duration, control: Option<&RequestControl>) -> Answer {
        let left = self.time_left(now);
        if let Some(control) = control {
            let is_too_old = control.max_age.is_some_and(|most| self.age(now) > most || most == 0);
            let is_too_stale = control.min_fresh.is_some_and(|least| left < i64::from(least));
            if control.no_cache || is_too_old || is_too_stale {
                return Answer::Ask;
            }
            if left <= 0 && !self.judgement.strict && control.max_stale.is_some_and(|most| -left <= i64::from(most)) {
                return Answer::Serve(left);
            }
        }
        if left > 0 {
            Answer::Serve(left)
        } else if -left < i64::from(self.judgement.stale_while_revalidate) {
            Answer::ServeAndAsk(left)
        } else {
            Answer::Ask
        }
    }

    /// The time in seconds for which it stays fresh, if it may answer in place of an error; negative if it is stale.
    #[must_use]
    pub fn answer_to_error(&self, now: Duration) -> Option<i64> {
        let left = self.time_left(now);
        (left > 0 || -left < i64::from(self.judgement.stale_if_error)).then_some(left)
    }

    /// The fields with which the app is asked whether it is still valid: If-None-Match and If-Modified-Since.
    pub fn validators(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let pairs: [(&'static str, &[u8]); 2] = [("If-None-Match", b"etag"), ("If-Modified-Since", b"last-modified")];
        pairs.into_iter().filter_map(|(condition, name)| Some((condition, std::str::from_utf8(self.fields.value(name)?).ok()?)))
    }

    /// The memory in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.fields.memory() + self.content.len() + self.judgement.vary.memory()
    }
}

fn is_one_of(name: &[u8], names: &[&[u8]]) -> bool {
    names.iter().any(|other| other.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: Times = Times { asked: Duration::from_secs(10), now: Duration::from_secs(10), date: 784_111_777 };

    fn response(control: &str, more: &[FieldPair<'_>]) -> Response {
        let control: FieldPair<'_> = (b"Cache-Control", control.as_bytes());
        let fields: Vec<FieldPair<'_>> = [control].iter().chain(more).copied().collect();
        let judgement = Rules::default().judge(false, 200, &fields, &TIMES).expect("stored");
        Response::new(judgement, (200, &fields), b"content"[..].into(), &TIMES, |name| name == b"X-Request-Id")
    }

    fn names<'f>(fields: impl Iterator<Item = FieldPair<'f>>) -> Vec<String> {
        fields.map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect()
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(10 + seconds)
    }

    #[test]
    fn fields_of_one_message_are_not_stored() {
        let more: &[FieldPair<'_>] = &[
            (b"Connection", b"close, X-Hop"),
            (b"X-Hop", b"1"),
            (b"Keep-Alive", b"1"),
            (b"Content-Length", b"7"),
            (b"Age", b"0"),
            (b"X-Request-Id", b"1"),
            (b"Server-Timing", b"a"),
            (b"X-Own", b"1"),
        ];
        assert_eq!(names(response("max-age=10", more).fields()), ["Cache-Control", "X-Own", "Date"]);
        let dated = response("max-age=10", &[(b"Date", b"Sun, 06 Nov 1994 08:49:37 GMT"), (b"Content-Type", b"text/css")]);
        assert_eq!(names(dated.fields()), ["Cache-Control", "Date", "Content-Type"]);
        assert_eq!(names(dated.fields_of_304()), ["Cache-Control", "Date"]);
    }

    #[test]
    fn a_response_is_fresh_until_its_lifetime_is_over() {
        let fresh = response("max-age=5, stale-while-revalidate=2, stale-if-error=4", &[]);
        assert_eq!((fresh.age(at(0)), fresh.answer(at(0), None)), (0, Answer::Serve(5)));
        assert_eq!(fresh.answer(at(4), None), Answer::Serve(1));
        assert_eq!((fresh.answer(at(5), None), fresh.answer_to_error(at(5))), (Answer::ServeAndAsk(0), Some(0)));
        assert_eq!(fresh.answer(at(6), None), Answer::ServeAndAsk(-1));
        assert_eq!((fresh.answer(at(7), None), fresh.answer_to_error(at(7))), (Answer::Ask, Some(-2)));
        assert_eq!((fresh.answer_to_error(at(8)), fresh.answer_to_error(at(9))), (Some(-3), None));
    }

    #[test]
    fn directives_of_requests_count_if_they_are_heeded() {
        let (fresh, strict) = (response("max-age=5", &[]), response("max-age=5, must-revalidate", &[]));
        let answer = |response: &Response, seconds, control| response.answer(at(seconds), Some(&control));
        let none = RequestControl::default();
        assert_eq!(answer(&fresh, 1, none), Answer::Serve(4));
        assert_eq!(answer(&fresh, 1, RequestControl { no_cache: true, ..none }), Answer::Ask);
        assert_eq!(answer(&fresh, 0, RequestControl { max_age: Some(0), ..none }), Answer::Ask);
        assert_eq!(answer(&fresh, 2, RequestControl { max_age: Some(1), ..none }), Answer::Ask);
        assert_eq!(answer(&fresh, 1, RequestControl { max_age: Some(1), ..none }), Answer::Serve(4));
        assert_eq!(answer(&fresh, 1, RequestControl { min_fresh: Some(5), ..none }), Answer::Ask);
        assert_eq!(answer(&fresh, 1, RequestControl { min_fresh: Some(4), ..none }), Answer::Serve(4));
        assert_eq!(answer(&fresh, 7, RequestControl { max_stale: Some(2), ..none }), Answer::Serve(-2));
        assert_eq!(answer(&fresh, 8, RequestControl { max_stale: Some(2), ..none }), Answer::Ask);
        assert_eq!(answer(&strict, 7, RequestControl { max_stale: Some(2), ..none }), Answer::Ask);
        let shared = response("s-maxage=5", &[]);
        assert_eq!(answer(&shared, 4, RequestControl { max_stale: Some(2), ..none }), Answer::Serve(1));
        assert_eq!(answer(&shared, 7, RequestControl { max_stale: Some(2), ..none }), Answer::Ask);
    }

    #[test]
    fn a_304_renews_the_response_and_keeps_its_content() {
        let own: &[FieldPair<'_>] = &[(b"ETag", b"\"a\""), (b"Content-Type", b"text/css"), (b"X-A", b"1"), (b"X-B", b"1")];
        let old = response("max-age=5", own);
        assert_eq!(old.validators().collect::<Vec<_>>(), [("If-None-Match", "\"a\"")]);
        let times = Times { asked: at(100), now: at(100), date: TIMES.date + 100 };
        let fields: &[FieldPair<'_>] = &[(b"X-A", b"2"), (b"Content-Type", b"text/html"), (b"Content-Length", b"0")];
        let new = old.updated(&Rules::default(), false, fields, &times, |_| false).expect("stored");
        assert_eq!((new.age(at(100)), new.answer(at(104), None), new.content()), (0, Answer::Serve(1), &b"content"[..]));
        let value = |name: &[u8]| new.fields.value(name).map(|value| String::from_utf8_lossy(value).into_owned());
        let values = [&b"Content-Type"[..], b"X-A", b"X-B", b"Date"].map(value);
        assert_eq!(values.map(Option::unwrap_or_default), ["text/css", "2", "1", "Sun, 06 Nov 1994 08:51:17 GMT"]);
        let refused = old.updated(&Rules::default(), false, &[(b"Cache-Control", b"no-store")], &times, |_| false);
        assert_eq!(refused.map(|_| ()), Err(Refusal::Forbidden));
        let once = old.confirmed_once(&[(b"Cache-Control", b"no-store")], &times, |_| false);
        assert_eq!((once.fields.value(b"Cache-Control"), once.age(at(100))), (Some(&b"no-store"[..]), 0));
    }
}
