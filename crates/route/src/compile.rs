//! Reads rules and collects all errors.

use crate::checks::{Checks, FieldCheck, QueryCheck};
use crate::destination::DestinationPattern;
use crate::host::HostPattern;
use crate::list::{List, NamedLists};
use crate::network::Network;
use crate::normal::digit;
use crate::pattern::Pattern;
use crate::request::Scheme;
use crate::rule::{MOST_EXPRESSIONS, MOST_PATTERN_BYTES, MOST_PATTERNS, MOST_RULES, NamedPattern, Rule, RuleError};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use oribi_message::KnownField;

/// The conditions of a rule, read.
#[derive(Debug)]
pub(crate) struct ReadRule {
    pub(crate) hosts: List<HostPattern>,
    pub(crate) paths: List<Pattern>,
    /// The conditions that hosts and paths do not decide; without the path patterns.
    pub(crate) checks: Checks,
}

/// Reads all rules.
///
/// # Errors
/// All errors, in the order of the rules. A bound for all rules together ends the list.
pub(crate) fn read(rules: &[Rule]) -> Result<Vec<ReadRule>, Vec<RuleError>> {
    let mut reader = Reader { rule: 0, patterns: 0, expressions: 0, full: false, errors: Vec::new() };
    if rules.len() > MOST_RULES {
        reader.rule = MOST_RULES;
        reader.report("", 0, format!("too many routes; at most {MOST_RULES} are possible"));
        return Err(reader.errors);
    }
    let mut read = Vec::with_capacity(rules.len());
    for (index, rule) in rules.iter().enumerate() {
        reader.rule = index;
        read.push(reader.rule(rule));
        if reader.full {
            break;
        }
    }
    if reader.errors.is_empty() { Ok(read) } else { Err(reader.errors) }
}

struct Reader {
    /// The index of the rule that is read.
    rule: usize,
    patterns: usize,
    expressions: usize,
    /// Whether a bound for all rules together was exceeded.
    full: bool,
    errors: Vec<RuleError>,
}

impl Reader {
    fn report(&mut self, list: &'static str, pattern: usize, message: String) {
        self.errors.push(RuleError { rule: self.rule, list, pattern, message });
    }

    fn rule(&mut self, rule: &Rule) -> ReadRule {
        ReadRule {
            hosts: self.texts("host", &rule.host, HostPattern::parse),
            paths: self.texts("path", &rule.path, path),
            checks: Checks {
                methods: self.texts("method", &rule.method, Pattern::parse),
                fields: NamedLists::of(self.named("field", &rule.field, field), |one, other| {
                    one.name.eq_ignore_ascii_case(&other.name)
                }),
                query: NamedLists::of(
                    self.named("query", &rule.query, |name, value| Ok(QueryCheck { name: name.as_bytes().to_vec(), value })),
                    |one, other| one.name == other.name,
                ),
                sources: self.texts("source", &rule.source, Network::parse),
                destinations: self.texts("destination", &rule.destination, DestinationPattern::parse),
                schemes: self.texts("scheme", &rule.scheme, |text| match text {
                    "http" => Ok(Scheme::Http),
                    "https" => Ok(Scheme::Https),
                    _ => Err("bad scheme; expected http or https".to_owned()),
                }),
                paths: List::new(),
            },
        }
    }

    fn texts<P>(&mut self, list: &'static str, texts: &[String], parse: impl Fn(&str) -> Result<P, String>) -> List<P> {
        self.list(list, texts, Some, |_, text| parse(text.unwrap_or_default()))
    }

    fn named<P>(
        &mut self,
        list: &'static str,
        items: &[NamedPattern],
        make: impl Fn(&str, Option<Pattern>) -> Result<P, String>,
    ) -> List<P> {
        self.list(
            list,
            items,
            |item| item.value.as_ref(),
            |item, text| {
                if item.name.is_empty() {
                    return Err("empty name; write the name that the condition is about".to_owned());
                }
                if item.name.len() > MOST_PATTERN_BYTES {
                    return Err(format!("name too long; at most {MOST_PATTERN_BYTES} bytes are possible"));
                }
                make(&item.name, text.map(Pattern::parse).transpose()?)
            },
        )
    }

    /// Reads a list: takes away each `!`, checks the bounds, and parses the rest of each pattern.
    fn list<'i, T, P>(
        &mut self,
        list: &'static str,
        items: &'i [T],
        text: impl Fn(&'i T) -> Option<&'i String>,
        parse: impl Fn(&'i T, Option<&'i str>) -> Result<P, String>,
    ) -> List<P> {
        let mut read = List::new();
        for (index, item) in items.iter().enumerate() {
            if self.full {
                break;
            }
            let (negative, text) = match text(item).map(|text| (text.strip_prefix('!'), text.as_str())) {
                Some((Some(rest), _)) => (true, Some(rest)),
                Some((None, text)) => (false, Some(text)),
                None => (false, None),
            };
            let parsed = self.admit(text).and_then(|()| parse(item, text));
            match parsed {
                Ok(pattern) if negative => read.negative.push(pattern),
                Ok(pattern) => read.positive.push(pattern),
                Err(message) => self.report(list, index, message),
            }
        }
        read
    }

    /// Counts a pattern and checks the bounds that hold for each pattern.
    fn admit(&mut self, text: Option<&str>) -> Result<(), String> {
        self.patterns += 1;
        if self.patterns > MOST_PATTERNS {
            self.full = true;
            return Err(format!("too many patterns; at most {MOST_PATTERNS} are possible in all routes together"));
        }
        match text {
            Some("") => Err("empty pattern; write a pattern, or remove it".to_owned()),
            Some(text) if text.len() > MOST_PATTERN_BYTES => {
                Err(format!("pattern too long; at most {MOST_PATTERN_BYTES} bytes are possible"))
            }
            Some(text) if text.starts_with('!') => Err("a pattern may have only one `!` at its beginning".to_owned()),
            Some(text) if text.starts_with('~') => {
                self.expressions += 1;
                if self.expressions > MOST_EXPRESSIONS {
                    self.full = true;
                    return Err(format!(
                        "too many regular expressions; at most {MOST_EXPRESSIONS} are possible in all routes together"
                    ));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

fn field(name: &str, value: Option<Pattern>) -> Result<FieldCheck, String> {
    // A name that is no token is never sent; `KnownField` also knows only tokens.
    if !name.bytes().all(is_token) {
        return Err("bad field name; expected letters, digits and hyphens, such as X-Version".to_owned());
    }
    Ok(FieldCheck { known: KnownField::lookup(name.as_bytes()), name: name.as_bytes().to_vec(), value })
}

/// Whether a field name may have this byte (RFC 9110, section 5.6.2).
const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~')
}

/// Parses a path pattern. One that no normalized path can match is an error.
fn path(text: &str) -> Result<Pattern, String> {
    if text.starts_with('~') {
        return Pattern::parse(text);
    }
    if !text.starts_with(['/', '*']) {
        return Err("bad path; expected a pattern that begins with `/`, `*`, `~` or `!`".to_owned());
    }
    let escape = |rest: &[u8]| matches!(rest, [b'%', high, low] if digit(*high).is_some() && digit(*low).is_some());
    if text.as_bytes().windows(3).any(escape) {
        return Err("bad path; paths are compared without escapes, so write the decoded text".to_owned());
    }
    let mut segments = text.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        if segment == "." || segment == ".." || segment.is_empty() && segments.peek().is_some() {
            return Err("bad path; paths are compared in their normal form, without `//`, `/.` and `/..`".to_string());
        }
    }
    Pattern::parse(text)
}
