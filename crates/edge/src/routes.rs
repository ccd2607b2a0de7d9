//! Routes: the first one whose conditions a request meets decides which app answers it, or that the edge answers itself.

mod actions;
mod asking;
mod limits;
mod passwords;
mod preflight;
pub(super) mod router;
mod users;
mod verifier;

pub use asking::AskRule;
pub use limits::{Limit, LimitMemory, Room};
pub use passwords::PasswordRule;
pub use users::UserFile;

use limits::SharedLimits;
use oribi_cache::Rules as CacheRules;
use oribi_files::TypePatterns;
use oribi_filter::{FieldChanges, ResponsePlan};
use oribi_io::process::shared_words;
use oribi_route::{PathExpressions, Rule, RuleError, Table, Template};
use passwords::NumberedRule;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The memory for stored responses in all edges together, in bytes, if no other is set.
const DEFAULT_CACHE_BYTES: usize = 32 << 20;

/// A route.
#[derive(Clone, Debug)]
pub struct Route {
    /// The conditions.
    pub rule: Rule,
    /// The answer to a request that meets them.
    pub action: Action,
    /// The changes on the way.
    pub filters: Filters,
}

/// The changes that a route makes to requests and responses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filters {
    /// The changes of request fields, for apps.
    pub request: FieldChanges,
    /// The changes of responses.
    pub response: ResponsePlan,
    /// The rule by which requests need a user and a password; `None` if they need none.
    pub passwords: Option<PasswordRule>,
    /// The rule by which an app is asked first; `None` if none is asked.
    pub ask: Option<AskRule>,
    /// The rules by which responses of apps are stored; `None`: none is.
    pub cache: Option<CacheRules>,
}

/// The answer of a route. Apps are named by their index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// An app answers.
    App {
        /// The app.
        app: usize,
        /// The path below which the app answers, without a slash at its end; empty: it answers at the root.
        mount: String,
    },
    /// Files answer.
    Files {
        /// The directory.
        root: PathBuf,
        /// The files for a directory; `None`: those of the settings.
        index: Option<Vec<String>>,
        /// Whether a directory without these is listed; `None`: as the settings say.
        listing: Option<bool>,
        /// The media types of files that are sent; empty: all.
        types: TypePatterns,
        /// The files that are looked for, one after the other; empty: the one at the path of the request.
        candidates: Vec<Candidate>,
        /// The action if there is no such file; `None`: the client gets a 404.
        fallback: Option<Box<Self>>,
    },
    /// The client gets a redirect.
    Redirect {
        /// The URL or the path.
        to: Template,
        /// The status.
        status: u16,
    },
    /// The path of the request changes before another action.
    Rewrite {
        /// The new path, perhaps with a query.
        to: Template,
        /// The action for the changed request; `None`: that of the first route that it fits.
        then: Option<Box<Self>>,
    },
    /// The client gets a fixed response.
    Respond {
        /// The status.
        status: u16,
        /// The content.
        content: Vec<u8>,
        /// The media type; `None`: plain text.
        content_type: Option<String>,
    },
}

impl Action {
    /// The app that may answer; `None` if none does.
    fn app(&self) -> Option<usize> {
        self.all().find_map(|action| if let Self::App { app, .. } = action { Some(*app) } else { None })
    }

    /// Whether the action depends on the normal form of the path.
    fn needs_path(&self) -> bool {
        match self {
            Self::Files { candidates, fallback, .. } => {
                !candidates.is_empty() || fallback.as_ref().is_some_and(|fallback| fallback.needs_path())
            }
            Self::Redirect { .. } | Self::Rewrite { .. } => true,
            Self::App { .. } | Self::Respond { .. } => false,
        }
    }

    /// The action that may follow.
    fn next(&self) -> Option<&Self> {
        match self {
            Self::Rewrite { then: next, .. } | Self::Files { fallback: next, .. } => next.as_deref(),
            Self::App { .. } | Self::Redirect { .. } | Self::Respond { .. } => None,
        }
    }

    /// The action with all that may follow.
    fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |action| action.next())
    }
}

/// The path of a file that a route looks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The part before the path of the request.
    pub before: String,
    /// Whether the path of the request belongs to it.
    pub path: bool,
    /// The part behind the path of the request.
    pub behind: String,
}

/// The routes of a server, compiled.
#[derive(Debug)]
pub struct Routes {
    table: Table,
    actions: Vec<Action>,
    /// The regular expressions of the path conditions of each route whose action has a template; otherwise none.
    expressions: Vec<PathExpressions>,
    /// The changes of request fields by each route.
    changes: Vec<FieldChanges>,
    /// The changes of responses by each route.
    plans: Arc<[ResponsePlan]>,
    /// The rules for passwords by each route; empty if no route has one.
    passwords: Vec<Option<NumberedRule>>,
    /// The rules by which routes ask apps.
    questions: Vec<Option<AskRule>>,
    /// The files of users of all routes.
    users: Vec<Arc<UserFile>>,
    /// The limits that are wanted, and those of each route by their indices.
    wanted: (Vec<Limit>, Vec<Vec<usize>>),
    /// The rules of the cache for each route.
    caches: Vec<Option<CacheRules>>,
    /// The memory for stored responses in all edges together, in bytes.
    cache_bytes: usize,
    /// The limits; `None` without any.
    limits: Option<SharedLimits>,
    /// For each route, the number of the name under which its requests are counted; 0 for none. Empty without names.
    labels: Vec<u8>,
}

impl Routes {
    /// Compiles routes, in the order in which they are tried. They have no limits.
    ///
    /// # Errors
    /// All conditions that are invalid.
    pub fn compile(routes: Vec<Route>) -> Result<Self, Vec<RuleError>> {
        let (mut rules, mut actions, mut changes, mut plans) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut expressions = Vec::new();
        let (mut passwords, mut users, mut questions) = (Vec::new(), Vec::new(), Vec::new());
        let mut caches = Vec::new();
        for Route { rule, action, filters } in routes {
            let has_template = action.all().any(|action| matches!(action, Action::Redirect { .. } | Action::Rewrite { .. }));
            expressions.push(if has_template { PathExpressions::of(&rule.path) } else { PathExpressions::default() });
            rules.push(rule);
            actions.push(action);
            changes.push(filters.request);
            plans.push(filters.response);
            questions.push(filters.ask);
            // A stored response would be one of another user.
            let is_guarded = filters.passwords.is_some() || questions.last().is_some_and(Option::is_some);
            caches.push(filters.cache.filter(|_| !is_guarded));
            passwords.push(filters.passwords.map(|rule| numbered(rule, &mut users)));
        }
        let (table, plans) = (Table::compile(&rules)?, plans.into());
        Ok(Self {
            table,
            actions,
            expressions,
            changes,
            plans,
            passwords,
            questions,
            users,
            caches,
            cache_bytes: DEFAULT_CACHE_BYTES,
            wanted: (Vec::new(), Vec::new()),
            limits: None,
            labels: Vec::new(),
        })
    }

    /// Sets limits, and those of each route by their indices. They count only after [`Self::bind`].
    #[must_use]
    pub fn limited_by(self, limits: Vec<Limit>, of_routes: Vec<Vec<usize>>) -> Self {
        Self { wanted: (limits, of_routes), ..self }
    }

    /// Gives the limits their counts: those of `memory`, or others. Returns the memory that knows them. `room` makes the words for
    /// the others, for all edges; at the start of a server [`Self::with_limits`] does.
    ///
    /// # Errors
    /// The system has no memory for the counts, or the server has had too many different limits.
    pub fn bind(mut self, memory: &LimitMemory, room: Room<'_>) -> io::Result<(Self, LimitMemory)> {
        let (limits, of_routes) = std::mem::take(&mut self.wanted);
        if limits.is_empty() {
            return Ok((self, memory.clone()));
        }
        let (limits, memory) = SharedLimits::new(limits, of_routes, memory, room)?;
        Ok((Self { limits: Some(limits), ..self }, memory))
    }

    /// Sets limits, and gives them their counts. This process must fork all edges, of which there are `edges`.
    ///
    /// # Errors
    /// The system has no memory for the counts.
    pub fn with_limits(self, limits: Vec<Limit>, of_routes: Vec<Vec<usize>>, edges: usize) -> io::Result<Self> {
        let bound = self.limited_by(limits, of_routes).bind(&LimitMemory::new(edges), &mut shared_words);
        bound.map(|(routes, _)| routes)
    }

    /// Sets the memory for stored responses in all edges together, in bytes.
    #[must_use]
    pub fn with_cache_bytes(self, cache_bytes: usize) -> Self {
        Self { cache_bytes, ..self }
    }

    /// Returns the memory for stored responses in each of so many edges, in bytes; `None` if no route stores any.
    pub(super) fn cache_bytes(&self, edges: usize) -> Option<usize> {
        self.caches.iter().any(Option::is_some).then(|| self.cache_bytes / edges.max(1))
    }

    /// Sets the numbers of the names under which the requests of each route are counted, among
    /// [`Settings::route_names`](oribi_config::Settings::route_names).
    #[must_use]
    pub fn with_labels(self, labels: Vec<u8>) -> Self {
        Self { labels, ..self }
    }

    /// Returns the changes of responses, one plan for each route; none if no route changes any.
    pub(super) fn plans(&self) -> Arc<[ResponsePlan]> {
        if self.plans.iter().all(ResponsePlan::is_empty) { Arc::new([]) } else { Arc::clone(&self.plans) }
    }

    /// Returns the paths of the files of users.
    pub fn user_files(&self) -> impl Iterator<Item = &Path> {
        self.users.iter().map(|file| file.path())
    }

    /// Reads the files of users again, for this process and for edges that it forks from now on. A file that cannot be used
    /// keeps the users it had. Returns a file in memory for edges that are running. `None` without files of users.
    ///
    /// # Errors
    /// The system has no memory.
    pub fn read_users_again(&self) -> io::Result<Option<OwnedFd>> {
        if self.users.is_empty() { Ok(None) } else { users::read_again(&self.users).map(Some) }
    }

    /// Reads the files of users for a plan that edges prepare. Returns the content, for `take_users`.
    ///
    /// # Errors
    /// A file cannot be used; the message says why.
    pub fn read_users(&self) -> Result<Vec<u8>, String> {
        users::read(&self.users)
    }

    /// Takes the users from the content of [`Self::read_users`]. Returns whether it was valid.
    pub(super) fn take_users(&self, content: &[u8]) -> bool {
        users::take(&self.users, content).is_some()
    }

    /// Takes the users from a file in memory of [`Self::read_users_again`]. Returns whether it was valid.
    fn take_users_from(&self, memory: OwnedFd) -> bool {
        users::take_from(&self.users, memory).is_some()
    }

    /// Whether a route may lead to an app.
    fn leads_to_app(&self, route: usize) -> bool {
        self.actions[route].app().is_some()
    }

    /// Returns the directories of files.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        self.actions.iter().flat_map(Action::all).filter_map(|action| match action {
            Action::Files { root, .. } => Some(root.as_path()),
            _ => None,
        })
    }
}

/// Returns a rule with the number of its file in `files`, to which the file is added unless it is there.
fn numbered(rule: PasswordRule, files: &mut Vec<Arc<UserFile>>) -> NumberedRule {
    let file = files.iter().position(|known| Arc::ptr_eq(known, &rule.file)).unwrap_or_else(|| {
        files.push(Arc::clone(&rule.file));
        files.len() - 1
    });
    NumberedRule { rule, file }
}
