//! The filters of a route, and their text in `oribi.toml`.

use crate::toml::{array, key, one_or_array, string, table};
use oribi_filter::FieldChanges;

/// Changes of fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    set: Vec<(String, String)>,
    add: Vec<(String, String)>,
    remove: Vec<String>,
}

impl Changes {
    /// Replaces fields with this name.
    ///
    /// # Errors
    /// The reason why a route cannot set the field.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), &'static str> {
        FieldChanges::default().set(name, value)?;
        self.set.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.set.push((name.to_owned(), value.to_owned()));
        Ok(())
    }

    /// Adds a field beside others with its name.
    ///
    /// # Errors
    /// As [`Changes::set`]; or a field with this name is added already.
    pub fn add(&mut self, name: &str, value: &str) -> Result<(), &'static str> {
        FieldChanges::default().add(name, value)?;
        if self.add.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
            return Err("a route adds one field of each name");
        }
        self.add.push((name.to_owned(), value.to_owned()));
        Ok(())
    }

    /// Removes fields with this name.
    ///
    /// # Errors
    /// As [`Changes::set`].
    pub fn remove(&mut self, name: &str) -> Result<(), &'static str> {
        FieldChanges::default().remove(name)?;
        if !self.remove.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            self.remove.push(name.to_owned());
        }
        Ok(())
    }

    fn parts(&self) -> Vec<String> {
        let fields = |list: &[(String, String)]| {
            let fields = list.iter().map(|(name, value)| format!("{} = {}", key(name), string(value)));
            table(&fields.collect::<Vec<_>>())
        };
        let mut parts = Vec::new();
        for (name, list) in [("set", &self.set), ("add", &self.add)] {
            if !list.is_empty() {
                parts.push(format!("{name} = {}", fields(list)));
            }
        }
        if !self.remove.is_empty() {
            parts.push(format!("remove = {}", one_or_array(&self.remove)));
        }
        parts
    }
}

/// Compression of responses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Compress {
    pub codings: Vec<String>,
    /// Media types; empty for those of Oribi.
    pub types: Vec<String>,
    pub min_size: Option<String>,
}

impl Compress {
    fn text(&self) -> String {
        let mut parts = vec![format!("codings = {}", array(&self.codings))];
        if !self.types.is_empty() {
            parts.push(format!("types = {}", array(&self.types)));
        }
        parts.extend(self.min_size.as_ref().map(|size| format!("min-size = {}", string(size))));
        table(&parts)
    }
}

/// The requests that a limit counts together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Client,
    All,
    Field(String),
}

/// The number that a limit sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Most {
    Rate { requests: u32, per: &'static str, burst: u32 },
    Open(u32),
}

/// A limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    pub most: Most,
    pub by: By,
    pub dry_run: bool,
}

impl Limit {
    fn text(&self) -> String {
        let mut parts = match &self.most {
            Most::Rate { requests, per, burst } => {
                vec![format!("requests = {requests}"), format!("per = {}", string(per)), format!("burst = {burst}")]
            }
            Most::Open(open) => vec![format!("open = {open}")],
        };
        match &self.by {
            By::Client => {}
            By::All => parts.push("by = \"all\"".to_owned()),
            By::Field(name) => parts.push(format!("field = {}", string(name))),
        }
        if self.dry_run {
            parts.push("dry-run = true".to_owned());
        }
        table(&parts)
    }
}

/// The proof that clients need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Auth {
    /// A user with a password.
    Passwords {
        /// The file of users.
        htpasswd: String,
        realm: String,
        /// Whether the app gets the password, too.
        keep: bool,
        /// A field with the name of the user.
        field: Option<String>,
    },
    /// The consent of an app.
    Ask {
        app: String,
        /// The path of the question.
        path: String,
        /// Fields of the answer that the action gets.
        fields: Vec<String>,
    },
}

impl Auth {
    fn text(&self) -> String {
        match self {
            Self::Passwords { htpasswd, realm, keep, field } => {
                let mut parts = vec![format!("htpasswd = {}", string(htpasswd)), format!("realm = {}", string(realm))];
                if *keep {
                    parts.push("keep = true".to_owned());
                }
                parts.extend(field.as_ref().map(|field| format!("field = {}", string(field))));
                table(&parts)
            }
            Self::Ask { app, path, fields } => {
                let mut parts = vec![format!("app = {}", string(app)), format!("path = {}", string(path))];
                if !fields.is_empty() {
                    parts.push(format!("fields = {}", one_or_array(fields)));
                }
                table(&parts)
            }
        }
    }
}

/// The filters of a route, or of all routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filters {
    pub request_fields: Changes,
    pub response_fields: Changes,
    /// Further changes of responses that are no errors.
    pub unless_error: Changes,
    pub compress: Option<Compress>,
    /// Files with the content of errors, by status.
    pub error_pages: Vec<(u16, String)>,
    pub auth: Option<Auth>,
    pub limits: Vec<Limit>,
}

/// The names of filters.
pub(crate) const NAMES: &[&str] = &["request-fields", "response-fields", "compress", "error-pages", "auth", "limit"];

impl Filters {
    /// The value of a filter in `oribi.toml`, if there is one.
    pub fn text(&self, name: &str) -> Option<String> {
        let some = |parts: Vec<String>| (!parts.is_empty()).then(|| table(&parts));
        match name {
            "request-fields" => some(self.request_fields.parts()),
            "response-fields" => {
                let further = some(self.unless_error.parts()).map(|text| format!("unless-error = {text}"));
                some(self.response_fields.parts().into_iter().chain(further).collect())
            }
            "compress" => self.compress.as_ref().map(Compress::text),
            "auth" => self.auth.as_ref().map(Auth::text),
            "error-pages" => {
                let pages = self.error_pages.iter().map(|(status, file)| format!("{status} = {}", string(file)));
                (!self.error_pages.is_empty()).then(|| table(&pages.collect::<Vec<_>>()))
            }
            _ => {
                let limits: Vec<String> = self.limits.iter().map(Limit::text).collect();
                match limits.as_slice() {
                    [] => None,
                    [one] => Some(one.clone()),
                    several => Some(format!("[{}]", several.join(", "))),
                }
            }
        }
    }

    /// Moves a filter out.
    pub fn take(&mut self, name: &str) -> Self {
        let mut taken = Self::default();
        match name {
            "request-fields" => taken.request_fields = std::mem::take(&mut self.request_fields),
            "response-fields" => {
                taken.response_fields = std::mem::take(&mut self.response_fields);
                taken.unless_error = std::mem::take(&mut self.unless_error);
            }
            "compress" => taken.compress = self.compress.take(),
            "auth" => taken.auth = self.auth.take(),
            "error-pages" => taken.error_pages = std::mem::take(&mut self.error_pages),
            _ => taken.limits = std::mem::take(&mut self.limits),
        }
        taken
    }

    /// Puts a filter that was moved out of others.
    pub fn put(&mut self, name: &str, mut from: Self) {
        match name {
            "request-fields" => self.request_fields = std::mem::take(&mut from.request_fields),
            "response-fields" => {
                self.response_fields = std::mem::take(&mut from.response_fields);
                self.unless_error = std::mem::take(&mut from.unless_error);
            }
            "compress" => self.compress = from.compress.take(),
            "auth" => self.auth = from.auth.take(),
            "error-pages" => self.error_pages = std::mem::take(&mut from.error_pages),
            _ => self.limits = std::mem::take(&mut from.limits),
        }
    }
}
