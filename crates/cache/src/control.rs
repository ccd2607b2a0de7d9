//! Cache-Control of requests and responses (RFC 9111, section 5.2), and CDN-Cache-Control (RFC 9213).

/// The largest number of seconds (RFC 9111, section 1.2.2).
const MOST_SECONDS: u32 = 1 << 31;

/// The directives of a response that a shared cache heeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponseControl {
    /// `no-store`.
    pub no_store: bool,
    /// `private`, with or without names of fields.
    pub private: bool,
    /// `no-cache`, with or without names of fields.
    pub no_cache: bool,
    /// `public`.
    pub public: bool,
    /// `must-revalidate`.
    pub must_revalidate: bool,
    /// `proxy-revalidate`.
    pub proxy_revalidate: bool,
    /// `s-maxage` in seconds; 0 if it is invalid.
    pub s_maxage: Option<u32>,
    /// `max-age` in seconds; 0 if it is invalid.
    pub max_age: Option<u32>,
    /// `stale-while-revalidate` in seconds; 0 if it is invalid.
    pub stale_while_revalidate: Option<u32>,
    /// `stale-if-error` in seconds; 0 if it is invalid.
    pub stale_if_error: Option<u32>,
}

impl ResponseControl {
    /// Adds the directives in the value of a field line.
    pub fn read(&mut self, value: &[u8]) {
        directives(value, |name, argument| match name {
            b"no-store" => self.no_store = true,
            b"private" => self.private = true,
            b"no-cache" => self.no_cache = true,
            b"public" => self.public = true,
            b"must-revalidate" => self.must_revalidate = true,
            b"proxy-revalidate" => self.proxy_revalidate = true,
            b"s-maxage" => shorten(&mut self.s_maxage, argument),
            b"max-age" => shorten(&mut self.max_age, argument),
            b"stale-while-revalidate" => shorten(&mut self.stale_while_revalidate, argument),
            b"stale-if-error" => shorten(&mut self.stale_if_error, argument),
            _ => {}
        });
    }
}

/// Whether the value of a targeted field has the form of a dictionary, with names in small letters (RFC 9213, section 2.1, and
/// RFC 9651). A field with another form is ignored, as if it were not there.
pub(crate) fn is_dictionary(value: &[u8]) -> bool {
    let is_name = |name: &[u8]| {
        let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(byte);
        name.first().is_some_and(|first| first.is_ascii_lowercase() || *first == b'*') && name.iter().all(plain)
    };
    let is_member = |element: &[u8]| {
        let (name, argument) = match element.iter().position(|byte| *byte == b'=') {
            Some(equals) => (&element[..equals], Some(&element[equals + 1..])),
            None => (element, None),
        };
        // Times are numbers, and never strings.
        let is_time = matches!(name, b"max-age" | b"s-maxage" | b"stale-while-revalidate" | b"stale-if-error");
        is_name(name) && (!is_time || argument.and_then(seconds).is_some())
    };
    elements(value).next().is_some() && elements(value).all(is_member)
}

/// The directives of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestControl {
    /// `no-cache`.
    pub no_cache: bool,
    /// `no-store`.
    pub no_store: bool,
    /// `only-if-cached`.
    pub only_if_cached: bool,
    /// `max-age` in seconds; 0 if it is invalid.
    pub max_age: Option<u32>,
    /// `max-stale` in seconds; without a number, any staleness.
    pub max_stale: Option<u32>,
    /// `min-fresh` in seconds.
    pub min_fresh: Option<u32>,
}

impl RequestControl {
    /// Adds the directives in the value of a field line.
    pub fn read(&mut self, value: &[u8]) {
        directives(value, |name, argument| match name {
            b"no-cache" => self.no_cache = true,
            b"no-store" => self.no_store = true,
            b"only-if-cached" => self.only_if_cached = true,
            b"max-age" => shorten(&mut self.max_age, argument),
            b"max-stale" if argument.is_none() => self.max_stale = Some(MOST_SECONDS),
            b"max-stale" => shorten(&mut self.max_stale, argument),
            b"min-fresh" => self.min_fresh = self.min_fresh.max(argument.and_then(seconds)),
            _ => {}
        });
    }
}

/// Sets a time, or makes it shorter: with several values, or an invalid one, a response is rather stale (section 4.2.1).
fn shorten(time: &mut Option<u32>, argument: Option<&[u8]>) {
    let new = argument.and_then(seconds).unwrap_or(0);
    *time = Some(time.map_or(new, |time| time.min(new)));
}

/// Returns a number of seconds; one that is too large counts as 2^31.
pub(crate) fn seconds(text: &[u8]) -> Option<u32> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = text.iter().fold(0_u64, |number, digit| (number * 10 + u64::from(digit - b'0')).min(MOST_SECONDS.into()));
    u32::try_from(number).ok()
}

/// The longest name of a directive that has a meaning here, rounded up.
const NAME_BYTES: usize = 32;

/// Passes each directive to `each`: its name in small letters, and its argument without quotation marks.
fn directives(value: &[u8], mut each: impl FnMut(&[u8], Option<&[u8]>)) {
    for element in elements(value) {
        let (name, argument) = match element.iter().position(|byte| *byte == b'=') {
            Some(equals) => (&element[..equals], Some(&element[equals + 1..])),
            None => (element, None),
        };
        let mut folded = [0; NAME_BYTES];
        let Some(folded) = folded.get_mut(..name.len()) else { continue };
        folded.copy_from_slice(name);
        folded.make_ascii_lowercase();
        let unquoted = argument.map(|argument| match argument {
            [b'"', inside @ .., b'"'] => inside,
            other => other,
        });
        each(folded, unquoted);
    }
}

/// Returns the elements of a list that are not empty, without white space around them. Commas in quoted strings separate
/// nothing.
pub(crate) fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = value;
    std::iter::from_fn(move || {
        loop {
            if rest.is_empty() {
                return None;
            }
            let end = end_of_element(rest);
            let element = rest[..end].trim_ascii();
            rest = rest.get(end + 1..).unwrap_or_default();
            if !element.is_empty() {
                return Some(element);
            }
        }
    })
}

fn end_of_element(text: &[u8]) -> usize {
    let (mut quoted, mut escaped) = (false, false);
    for (position, byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' if !quoted => return position,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(value: &str) -> ResponseControl {
        let mut control = ResponseControl::default();
        control.read(value.as_bytes());
        control
    }

    #[test]
    fn directives_of_responses_are_read_in_any_case_and_form() {
        let none = ResponseControl::default();
        let table: &[(&str, ResponseControl)] = &[
            ("", none),
            (",, ,", none),
            ("max-age=10", ResponseControl { max_age: Some(10), ..none }),
            ("MAX-AGE=10", ResponseControl { max_age: Some(10), ..none }),
            ("max-age=\"10\"", ResponseControl { max_age: Some(10), ..none }),
            ("max-age=010", ResponseControl { max_age: Some(10), ..none }),
            // Invalid values are stale.
            ("max-age", ResponseControl { max_age: Some(0), ..none }),
            ("max-age=", ResponseControl { max_age: Some(0), ..none }),
            ("max-age=-1", ResponseControl { max_age: Some(0), ..none }),
            ("max-age=1.5", ResponseControl { max_age: Some(0), ..none }),
            ("max-age=1s", ResponseControl { max_age: Some(0), ..none }),
            ("max-age='10'", ResponseControl { max_age: Some(0), ..none }),
            ("max-age= 10", ResponseControl { max_age: Some(0), ..none }),
            ("max-age =10", none),
            ("max-age=10, max-age=20", ResponseControl { max_age: Some(10), ..none }),
            ("max-age=20, max-age=x", ResponseControl { max_age: Some(0), ..none }),
            ("max-age=99999999999999999999", ResponseControl { max_age: Some(1 << 31), ..none }),
            ("s-maxage=5,max-age=6", ResponseControl { s_maxage: Some(5), max_age: Some(6), ..none }),
            ("No-Store", ResponseControl { no_store: true, ..none }),
            ("private=\"Set-Cookie, X\", public", ResponseControl { private: true, public: true, ..none }),
            ("no-cache=\"a\", must-revalidate", ResponseControl { no_cache: true, must_revalidate: true, ..none }),
            ("proxy-revalidate", ResponseControl { proxy_revalidate: true, ..none }),
            // A directive in a quoted string is none.
            ("x=\"max-age=5, no-store\"", none),
            ("x=\"\\\", no-store\", public", ResponseControl { public: true, ..none }),
            ("x=\", no-store", none),
            (
                "stale-while-revalidate=3, stale-if-error=4",
                ResponseControl { stale_while_revalidate: Some(3), stale_if_error: Some(4), ..none },
            ),
        ];
        for (value, expected) in table {
            assert_eq!(response(value), *expected, "{value}");
        }
    }

    #[test]
    fn directives_of_requests_are_read() {
        let mut control = RequestControl::default();
        control.read(b"no-cache, max-age=0, max-stale, min-fresh=7");
        control.read(b"only-if-cached, no-store");
        let expected = RequestControl {
            no_cache: true,
            no_store: true,
            only_if_cached: true,
            max_age: Some(0),
            max_stale: Some(MOST_SECONDS),
            min_fresh: Some(7),
        };
        assert_eq!(control, expected);
    }

    #[test]
    fn no_bytes_make_the_parser_fail() {
        // All texts of up to five of these bytes.
        const BYTES: &[u8] = b"\"\\,= a";
        for number in 0..BYTES.len().pow(5) {
            let text: Vec<u8> = (0..5).map(|place| BYTES[number / BYTES.len().pow(place) % BYTES.len()]).collect();
            for end in 0..=text.len() {
                response(&String::from_utf8_lossy(&text[..end]));
                assert!(elements(&text[..end]).all(|element| !element.is_empty()));
            }
        }
    }
}
