//! The filters of a route, and those of `[defaults]` for all routes.

pub(crate) mod auth;
mod cache;
mod changes;
mod compression;
mod cors;
mod error_pages;
mod limits;

use crate::content::{Auth, Filters, Text};
use crate::table::{Entry, Reader, Value};
use toml::de::DeValue;

/// The keys of filters.
pub(crate) const KEYS: &[&str] =
    &["request-fields", "response-fields", "cors", "compress", "error-pages", "auth", "limit", "cache"];

impl Filters {
    /// Reads a filter. Returns `None` if its key is that of none; otherwise whether it has no mistake.
    pub(crate) fn read(&mut self, reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<bool> {
        let read = match entry.key {
            "request-fields" => changes::of_requests(reader, entry).map(|changes| self.request_fields = Some(changes)),
            "response-fields" => changes::of_responses(reader, entry).map(|changes| self.response_fields = Some(changes)),
            "cors" if is_off(entry) => {
                self.cors = Some(None);
                Some(())
            }
            "cors" => cors::cors(reader, entry).map(|cors| self.cors = Some(Some(cors))),
            "compress" if is_off(entry) => {
                self.compression = Some(None);
                Some(())
            }
            "compress" => compression::compression(reader, entry).map(|rule| self.compression = Some(Some(rule))),
            "error-pages" => error_pages::error_pages(reader, entry).map(|pages| self.error_pages = Some(pages)),
            "auth" if is_off(entry) => {
                self.auth = Some(None);
                Some(())
            }
            "auth" => auth::auth(reader, entry).map(|auth| self.auth = Some(Some(auth))),
            "limit" if is_off(entry) => {
                self.limits = Some(Vec::new());
                Some(())
            }
            "limit" => limits::limits(reader, entry).map(|limits| self.limits = Some(limits)),
            "cache" if is_off(entry) => {
                self.cache = Some(None);
                Some(())
            }
            "cache" => cache::cache(reader, entry).map(|rules| self.cache = Some(Some(rules))),
            _ => return None,
        };
        Some(read.is_some())
    }

    /// The app that is asked whether requests may go on.
    pub(crate) fn asked(&self) -> Option<&Text> {
        match self.auth.as_ref()?.as_ref()? {
            Auth::Ask(ask) => Some(&ask.app),
            Auth::Passwords(_) => None,
        }
    }

    /// Takes the filters that are missing from `defaults`.
    pub(crate) fn complete(&mut self, defaults: &Self) {
        let Self { request_fields, response_fields, cors, compression, error_pages, auth, limits, cache } = defaults;
        self.request_fields = self.request_fields.take().or_else(|| request_fields.clone());
        self.response_fields = self.response_fields.take().or_else(|| response_fields.clone());
        self.cors = self.cors.take().or_else(|| cors.clone());
        self.compression = self.compression.take().or_else(|| compression.clone());
        self.error_pages = self.error_pages.take().or_else(|| error_pages.clone());
        self.auth = self.auth.take().or_else(|| auth.clone());
        self.limits = self.limits.take().or_else(|| limits.clone());
        self.cache = self.cache.or(*cache);
    }
}

/// Reads `[defaults]`.
pub(crate) fn defaults(reader: &mut Reader<'_>, entry: Entry<'_>) -> Filters {
    let mut filters = Filters::default();
    for entry in reader.table(entry).unwrap_or_default() {
        if filters.read(reader, entry).is_none() {
            reader.unknown(entry, "[defaults]", KEYS.iter().copied());
        }
    }
    filters
}

/// Whether a filter of `[defaults]` is switched off.
fn is_off(entry: Entry<'_>) -> bool {
    matches!(entry.value.data, DeValue::Boolean(false))
}

/// Reads a string or an array of strings.
pub(crate) fn texts<'a>(reader: &mut Reader<'_>, entry: Entry<'a>) -> Option<Vec<(Value<'a>, Text)>> {
    let values: Vec<Value<'_>> = match entry.value.data {
        DeValue::Array(array) => array.iter().map(Value::of).collect(),
        _ => vec![entry.value],
    };
    let mut complete = true;
    let mut texts = Vec::new();
    for value in values {
        let text = reader.text(entry, value);
        complete &= text.is_some();
        texts.extend(text.map(|text| (value, text)));
    }
    complete.then_some(texts)
}
