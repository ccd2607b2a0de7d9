//! The changes that a route makes to its responses.

use crate::{Cors, FieldChanges};
use oribi_message::{FieldPair, RequestHead};

/// The changes that a route makes to its responses. The default changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponsePlan {
    /// The changes of fields.
    pub fields: FieldChanges,
    /// The rule for requests of other origins.
    pub cors: Option<Cors>,
}

/// The facts about one request that the plan needs for its response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestFacts {
    /// The origin of the request, if it may read the response.
    origin: Option<Box<[u8]>>,
}

impl ResponsePlan {
    /// Whether responses stay as they are.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Notes the facts about a request, which may be gone when its response arrives.
    #[must_use]
    pub fn note(&self, head: &RequestHead<'_>) -> RequestFacts {
        RequestFacts { origin: self.cors.as_ref().and_then(|cors| cors.allowed(head)).map(Into::into) }
    }

    /// Replaces the fields of a response, which are in `fields`.
    pub fn change<'a>(&'a self, facts: &'a RequestFacts, fields: &mut Vec<FieldPair<'a>>) {
        let drops = |name: &[u8]| self.fields.drops(name) || self.cors.as_ref().is_some_and(|cors| cors.drops(name));
        fields.retain(|(name, _)| !drops(name));
        fields.extend(self.fields.appended());
        if let Some(cors) = &self.cors {
            cors.respond(facts.origin.as_deref(), fields);
        }
    }
}
