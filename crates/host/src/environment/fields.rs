//! The fields of a request as variables, `HTTP_…`.
//!
//! The rules here limit the effects of field names, which clients choose:
//! * fields with the same name are joined in order by `, ` (RFC 9110, section 5.3), cookies by `; ` (RFC 6265, section 5.4);
//! * in the absolute form, the target's authority replaces Host (RFC 9112, section 3.2.2);
//! * `Proxy` is dropped, because many programs take HTTP_PROXY for a setting of their own ("httpoxy");
//! * `Transfer-Encoding` is dropped: the content that the host gets is decoded, and its size is CONTENT_LENGTH;
//! * a name with an underscore becomes the same variable as a name with hyphens: `X_Forwarded_For` could pass for the
//!   `X-Forwarded-For` that a proxy has set or removed. Fields with underscores are dropped unless the request allows them
//!   ([`Request::underscores`]). Even an allowed one is dropped if its name with hyphens is well known, or is that of another
//!   field of this request.
//!
//! While names are few, they are compared in pairs; many names are sorted.

use super::{CONTENT_TYPE, Entry, Environment, Key, Text, VariableIndex};
use crate::Request;
use oribi_message::{KnownField, RequestHead, Span, equal_names};
use std::sync::Once;

/// Up to this number, names are compared in pairs, which is cheaper than sorting. Most requests have fewer unknown names.
const FEW: usize = 16;

/// The state of laying out the fields of a request.
#[derive(Debug)]
pub(super) struct Fields {
    /// The indices of variables whose names are not interned.
    others: Vec<VariableIndex>,
    /// The numbers of fields whose names have an underscore.
    underscored: Vec<u32>,
    /// Further fields of a variable that an earlier field has begun.
    repeated: Vec<(VariableIndex, u32)>,
    /// The index of the variable of each known field. An entry may be left over from an earlier request: it counts only if
    /// the variable at that index has the field's key, so that nothing need be cleared.
    places: [VariableIndex; KnownField::ALL.len()],
    /// Indices into `others`, in the order of their names.
    sorted: Vec<u32>,
    /// The number of comparisons of two names.
    #[cfg(test)]
    pub(super) comparisons: std::cell::Cell<usize>,
}

impl Fields {
    pub(super) const fn new() -> Self {
        Self {
            others: Vec::new(),
            underscored: Vec::new(),
            repeated: Vec::new(),
            places: [VariableIndex(0); KnownField::ALL.len()],
            sorted: Vec::new(),
            #[cfg(test)]
            comparisons: std::cell::Cell::new(0),
        }
    }
}

impl Environment {
    pub(super) fn lay_out_fields(&mut self, request: &Request<'_>) {
        let head = &request.head;
        self.fields.others.clear();
        let mut authority = request.absolute_authority();
        for (number, field) in head.layout().fields.iter().enumerate() {
            let number = number as u32;
            let Some(known) = field.known else {
                let name = field.name.of(head.bytes());
                if memchr::memchr(b'_', name).is_some() {
                    self.fields.underscored.push(number);
                } else {
                    self.push_other(name, number);
                }
                continue;
            };
            let key = match known {
                KnownField::ContentLength | KnownField::TransferEncoding | KnownField::Proxy => continue,
                KnownField::Host if authority.is_some() => {
                    let value = self.render_host(authority.take().unwrap_or_default(), request);
                    self.fields.places[known as usize] = self.push(Key::of(known), value);
                    continue;
                }
                KnownField::Host if request.missing_port().is_some() => {
                    let value = self.render_host(field.value.of(head.bytes()), request);
                    self.fields.places[known as usize] = self.push(Key::of(known), value);
                    continue;
                }
                KnownField::ContentType => Key(CONTENT_TYPE),
                _ => Key::of(known),
            };
            let place = self.fields.places[known as usize];
            if self.entries.get(place.index()).is_some_and(|entry| entry.key == key) {
                self.fields.repeated.push((place, number));
            } else {
                self.fields.places[known as usize] = self.push(key, Text::Field(number));
            }
        }
        if let Some(authority) = authority {
            let value = self.render_host(authority, request);
            self.push(Key::of(KnownField::Host), value);
        }
        let with_hyphens = self.fields.others.len();
        if !self.fields.underscored.is_empty() {
            self.lay_out_underscored(request);
        }
        if self.fields.others.len() > 1 {
            self.unite_others(with_hyphens);
        }
        if !self.fields.repeated.is_empty() {
            self.join_repeated(head);
        }
    }

    /// Renders Host with the port that a trusted proxy reports: apps make URLs of HTTP_HOST.
    #[inline(never)]
    fn render_host(&mut self, host: &[u8], request: &Request<'_>) -> Text {
        let start = self.rendered.len();
        let port = request.missing_port();
        // A port may be empty (RFC 3986, section 3.2.3).
        self.rendered.extend_from_slice(if port.is_some() { host.strip_suffix(b":").unwrap_or(host) } else { host });
        if let Some(port) = port {
            self.rendered.push(b':');
            self.rendered.extend_from_slice(port);
        }
        Text::Rendered(Span::new(start, self.rendered.len()))
    }

    /// Adds the variable of a field whose name is not interned.
    fn push_other(&mut self, name: &[u8], number: u32) {
        let start = self.rendered.len();
        self.rendered.extend_from_slice(b"HTTP_");
        self.rendered.extend(name.iter().map(|&byte| if byte == b'-' { b'_' } else { byte.to_ascii_uppercase() }));
        let name = Span::new(start, self.rendered.len());
        let place = self.next_place();
        self.entries.push(Entry { key: Key::OTHER, name, value: Text::Field(number) });
        self.fields.others.push(place);
    }

    /// Adds the fields with underscores, after all others, or drops them.
    #[cold]
    fn lay_out_underscored(&mut self, request: &Request<'_>) {
        let mut numbers = std::mem::take(&mut self.fields.underscored);
        for number in numbers.drain(..) {
            let name = request.head.field_name(number as usize);
            if request.underscores && !is_well_known(name) {
                self.push_other(name, number);
            } else {
                tell_of_dropped(name, request.underscores);
            }
        }
        self.fields.underscored = numbers;
    }

    /// Finds variables in `others` that have the same name, and unites them. `with_hyphens` is the index of the first variable
    /// whose field has underscores in its name.
    fn unite_others(&mut self, with_hyphens: usize) {
        let mut others = std::mem::take(&mut self.fields.others);
        if others.len() <= FEW {
            for (number, &place) in others.iter().enumerate().skip(1) {
                let name = self.name_at(place);
                let first = others[..number].iter().position(|&other| self.name_at(other) == name);
                if let Some(first) = first {
                    self.unite(others[first], place, first < with_hyphens && number >= with_hyphens);
                }
            }
        } else {
            let mut sorted = std::mem::take(&mut self.fields.sorted);
            sorted.clear();
            sorted.extend(0..others.len() as u32);
            let mut united = Vec::new();
            for equal in equal_names(&mut sorted, |number| self.name_at(others[number as usize])) {
                let (first, rest) = (equal[0] as usize, &equal[1..]);
                united.extend(rest.iter().map(|&number| (first, number as usize)));
            }
            for (first, number) in united {
                self.unite(others[first], others[number], first < with_hyphens && number >= with_hyphens);
            }
            self.fields.sorted = sorted;
        }
        others.clear();
        self.fields.others = others;
    }

    fn name_at(&self, place: VariableIndex) -> &[u8] {
        #[cfg(test)]
        self.fields.comparisons.set(self.fields.comparisons.get() + 1);
        self.entries[place.index()].name.of(&self.rendered)
    }

    /// Joins the field of the variable at `place` to the variable at `first`, which has the same name. With `shadows`, drops
    /// the field instead, because it could be mistaken for that of `first`.
    #[cold]
    fn unite(&mut self, first: VariableIndex, place: VariableIndex, shadows: bool) {
        let entry = &mut self.entries[place.index()];
        if let Text::Field(number) = std::mem::replace(&mut entry.value, Text::Nothing) {
            if shadows {
                tell_of_dropped(entry.name.of(&self.rendered), true);
            } else {
                self.fields.repeated.push((first, number));
            }
        }
    }

    /// Renders each variable that has several fields once.
    #[cold]
    fn join_repeated(&mut self, head: &RequestHead<'_>) {
        let mut repeated = std::mem::take(&mut self.fields.repeated);
        repeated.sort_unstable();
        for fields in repeated.chunk_by(|one, other| one.0 == other.0) {
            let entry = &mut self.entries[fields[0].0.index()];
            let Text::Field(first) = entry.value else { continue };
            let separator: &[u8] = if entry.key == Key::of(KnownField::Cookie) { b"; " } else { b", " };
            let start = self.rendered.len();
            self.rendered.extend_from_slice(head.field_value(first as usize));
            for &(_, number) in fields {
                self.rendered.extend_from_slice(separator);
                self.rendered.extend_from_slice(head.field_value(number as usize));
            }
            entry.value = Text::Rendered(Span::new(start, self.rendered.len()));
        }
        repeated.clear();
        self.fields.repeated = repeated;
    }
}

/// Whether the name is well known when hyphens replace its underscores: well-known names matter to servers and proxies.
fn is_well_known(name: &[u8]) -> bool {
    let hyphens: Vec<u8> = name.iter().map(|&byte| if byte == b'_' { b'-' } else { byte }).collect();
    KnownField::lookup(&hyphens).is_some()
}

/// Logs the first dropped field of the process: if all were logged, a client could fill the log.
fn tell_of_dropped(name: &[u8], allowed: bool) {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| {
        let name = name[..name.len().min(64)].escape_ascii();
        if allowed {
            log::warn!("dropped the field {name}: a field with hyphens has the same variable (logged once)");
        } else {
            log::warn!(
                "dropped the field {name}: with its underscore it could be mistaken for one that only a proxy may set; \
                 --underscore-headers passes such fields on to the app (logged once)"
            );
        }
    });
}

#[cfg(test)]
mod tests;
