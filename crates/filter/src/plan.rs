//! The changes that a route makes to its responses.

use crate::{Cors, FieldChanges, ResponseFields};
use oribi_encode::{Filter as Compression, Outcome, RequestFacts as Accepted, restore_tags};
use oribi_message::{FieldPair, KnownField, RequestHead};
use std::sync::Arc;

/// The changes that a route makes to its responses. The default changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponsePlan {
    /// The changes of fields.
    pub fields: ResponseFields,
    /// The rule for requests of other origins.
    pub cors: Option<Cors>,
    /// The rule for compression.
    pub compression: Option<Compression>,
    /// Contents of the server's own errors, by status.
    pub error_pages: Vec<ErrorPage>,
}

/// The content of the server's own errors with a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorPage {
    /// The status, from 400 to 599.
    pub status: u16,
    /// Its media type.
    pub media_type: &'static str,
    /// The content.
    pub content: Arc<[u8]>,
}

/// The facts about one request that the plan needs for its response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestFacts {
    is_head: bool,
    /// Whether the route itself has given the content.
    own_content: bool,
    /// The origin of the request, if it may read the response.
    origin: Option<Box<[u8]>>,
    /// The codings that the client accepts, if there is a rule for compression.
    accepted: Option<Accepted>,
}

impl RequestFacts {
    /// Sets whether the route itself gives the content, which no page replaces.
    pub fn set_own_content(&mut self, own: bool) {
        self.own_content = own;
    }

    /// Whether the response has no content, because the method is HEAD.
    #[must_use]
    pub fn is_head(&self) -> bool {
        self.is_head
    }
}

impl ResponsePlan {
    /// Whether responses stay as they are.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.cors.is_none() && self.compression.is_none() && self.error_pages.is_empty()
    }

    /// Notes the facts about a request, which may be gone when its response arrives.
    #[must_use]
    pub fn note(&self, head: &RequestHead<'_>) -> RequestFacts {
        let values = |wanted| head.fields().filter(move |(known, ..)| *known == Some(wanted)).map(|(_, _, value)| value);
        let accepted = self.compression.as_ref().map(|compression| {
            let has_credentials = head.field(KnownField::Cookie).or_else(|| head.field(KnownField::Authorization)).is_some();
            let (codings, tags) = (values(KnownField::AcceptEncoding), values(KnownField::IfNoneMatch));
            compression.read_request(head.method(), codings, tags, has_credentials)
        });
        RequestFacts {
            is_head: head.method() == b"HEAD",
            own_content: false,
            origin: self.cors.as_ref().and_then(|cors| cors.allowed(head)).map(Into::into),
            accepted,
        }
    }

    /// Returns the change of a request whose If-None-Match has tags of compressed responses: the app gets its own tags.
    #[must_use]
    pub fn restore_tags(&self, head: &RequestHead<'_>) -> Option<FieldChanges> {
        self.compression.as_ref()?;
        let mut changes = FieldChanges::default();
        for (_, _, value) in head.fields().filter(|(known, ..)| *known == Some(KnownField::IfNoneMatch)) {
            let restored = restore_tags(value).unwrap_or_else(|| value.to_vec());
            // A tag that is not UTF-8 stays as it is.
            let value = String::from_utf8(restored).ok()?;
            changes.remove("If-None-Match").ok()?;
            changes.add("If-None-Match", &value).ok()?;
        }
        (!changes.is_empty()).then_some(changes)
    }

    /// Returns the page that replaces the content of an error of the server.
    #[must_use]
    pub fn page(&self, facts: &RequestFacts, status: u16) -> Option<&ErrorPage> {
        self.error_pages.iter().find(|page| page.status == status && !facts.own_content)
    }

    /// Changes the fields of a response with this status, which are in `fields`.
    pub fn change<'a>(&'a self, facts: &'a RequestFacts, status: u16, fields: &mut Vec<FieldPair<'a>>) {
        if let Some(cors) = &self.cors {
            fields.retain(|(name, _)| !cors.drops(name));
        }
        for changes in self.fields.of(status) {
            fields.retain(|(name, _)| !changes.drops(name));
            fields.extend(changes.appended());
        }
        if let Some(cors) = &self.cors {
            cors.respond(facts.origin.as_deref(), fields);
        }
    }

    /// Decides whether a response is compressed, by its changed fields and the size of its content, if it is known.
    #[must_use]
    pub fn decide(&self, facts: &RequestFacts, status: u16, fields: &[FieldPair<'_>], size: Option<u64>) -> Outcome {
        let size = size.filter(|_| !facts.is_head);
        let rule = self.compression.as_ref().zip(facts.accepted);
        rule.map_or(Outcome::Skip, |(compression, accepted)| compression.decide(accepted, status, fields, size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_get_the_fields_of_all_responses_only() {
        let mut fields = ResponseFields::default();
        fields.always.set("X-Always", "1").expect("valid");
        fields.unless_error.set("X-Well", "2").expect("valid");
        fields.unless_error.remove("X-App").expect("valid");
        let plan = ResponsePlan { fields, ..ResponsePlan::default() };
        assert!(!plan.is_empty());
        for (status, expected) in
            [(200, "X-Always X-Well"), (304, "X-Always X-Well"), (400, "X-App X-Always"), (503, "X-App X-Always")]
        {
            let facts = RequestFacts::default();
            let mut fields: Vec<FieldPair<'_>> = vec![(b"X-App", b"0")];
            plan.change(&facts, status, &mut fields);
            let names: Vec<_> = fields.iter().map(|(name, _)| String::from_utf8_lossy(name)).collect();
            assert_eq!(names.join(" "), expected, "{status}");
        }
    }
}
