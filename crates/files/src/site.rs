//! A directory of files, as one lane serves it.

use crate::coding::{Choice, STORED_CODINGS, choose, suffix};
use crate::listing::{self, Form};
use crate::representation::{FileState, Representation};
use crate::response::{Response, respond};
use crate::root::{Found, NotFound, Root};
use crate::selection::Selection;
use crate::{Options, cache::Cache, media_type, pages, target};
use oribi_host::{Reply, Request};
use oribi_message::{Coding, FieldPair, ResponseHead};
use rustix::time::{ClockId, clock_gettime};
use std::borrow::Cow;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

/// The time for which the cache trusts its metadata of a file. A change of the file may remain unnoticed for so long.
const FRESH: Duration = Duration::from_secs(1);

/// A directory and those of its files that were requested lately.
#[derive(Debug)]
pub struct Site {
    root: Root,
    options: Options,
    cache: Cache<Resource>,
    /// The last listings, so that many requests for a large directory read it once in [`FRESH`].
    listings: Vec<Listing>,
}

/// The listing of a directory.
#[derive(Debug)]
struct Listing {
    path: Vec<u8>,
    form: Form,
    made: Duration,
    content: Vec<u8>,
}

/// A file with its variants.
#[derive(Debug)]
struct Resource {
    plain: Representation,
    variants: Vec<Representation>,
    /// The time of the last check of the file system, by the monotonic clock.
    checked: Duration,
}

/// The result of looking up a path.
enum Lookup {
    /// A file in the cache.
    Cached(usize),
    /// A file for which the cache had no room.
    Apart(Box<Resource>),
    /// A directory that has an index; the requested path lacks the slash at its end.
    Directory,
}

/// A reply that was not used, and the reason.
pub type Unanswered<'r> = (Reply<'r>, NotFound);

impl Site {
    /// Opens a directory.
    ///
    /// # Errors
    /// An error of the system, with the directory in its message.
    pub fn open(directory: &Path, options: &Options) -> io::Result<Self> {
        Ok(Self {
            root: Root::open_named(directory)?,
            options: options.clone(),
            cache: Cache::new(options.open_files),
            listings: Vec::new(),
        })
    }

    /// Answers a GET or a HEAD with the file at `path`, which has the form of a path in a target, without the prefix `mount`
    /// (empty, or with a slash in front and none at the end). `redirects`: whether the path of a directory without its slash at the
    /// end is redirected to the one with it; otherwise its index is sent.
    ///
    /// # Errors
    /// The file does not exist or cannot be served: returns the reply.
    pub fn answer<'r>(
        &mut self,
        request: &Request<'_>,
        path: &[u8],
        mount: &[u8],
        redirects: bool,
        reply: Reply<'r>,
    ) -> Result<(), Unanswered<'r>> {
        let below =
            path.strip_prefix(mount).and_then(|path| if path.is_empty() { Some(path.into()) } else { target::decode(path) });
        let Some(below) = below else { return Err((reply, NotFound::Missing)) };
        let place = match self.find(&below, path.ends_with(b"/")) {
            Ok(Lookup::Directory) if !redirects => self.find(&[&below, &b"/"[..]].concat(), true),
            found => found,
        };
        let place = match place {
            Ok(place) => place,
            Err(NotFound::Missing) if redirects && self.options.listing && path.ends_with(b"/") => {
                return self.answer_by_listing(request, &below, reply);
            }
            Err(why) => return Err((reply, why)),
        };
        let resource = match &place {
            Lookup::Cached(place) => self.cache.get(*place),
            Lookup::Apart(resource) => resource,
            Lookup::Directory => {
                redirect(request, path, reply);
                return Ok(());
            }
        };
        let fields = request.head.fields().filter_map(|(known, _, value)| Some((known?, value)));
        let selection = Selection::of(fields);
        let representation = match resource.choose(&selection) {
            Choice::Identity => Some(&resource.plain),
            Choice::Coded(coding) => resource.variants.iter().find(|variant| variant.coding == Some(coding)),
            Choice::None => None,
        };
        let Some(representation) = representation else {
            send_page(406, &[VARY], reply);
            return Ok(());
        };
        let method = request.head.method();
        let (outlet, exchange) = reply.detach();
        // It fails only if the client has gone, because the fields are valid.
        let _ = match &representation.prepared {
            Some(fields) if method == b"GET" && !selection.is_particular() => {
                outlet.respond_prepared(exchange, fields, representation.whole())
            }
            _ => {
                let fields = self.options.fields(resource.varies());
                respond(
                    outlet,
                    exchange,
                    &Response { representation, method, selection: &selection, status: 200, fields: &fields },
                )
            }
        };
        Ok(())
    }

    /// Answers with the listing of the directory at a decoded path.
    fn answer_by_listing<'r>(&mut self, request: &Request<'_>, below: &[u8], reply: Reply<'r>) -> Result<(), Unanswered<'r>> {
        if !target::is_plain(below, self.options.dotfiles) && below != b"/" {
            return Err((reply, NotFound::Missing));
        }
        let (form, now) = (Form::of(request), monotonic());
        self.listings.retain(|listing| now.saturating_sub(listing.made) < FRESH);
        let known = self.listings.iter().position(|listing| listing.form == form && listing.path == below);
        let place = match known {
            Some(place) => place,
            None => match listing::list(&self.root, below, self.options.dotfiles, form) {
                Ok(content) => {
                    self.listings.truncate(LISTINGS - 1);
                    self.listings.insert(0, Listing { path: below.to_vec(), form, made: now, content });
                    0
                }
                Err(why) => return Err((reply, why)),
            },
        };
        let content = self.listings[place].content.as_slice();
        let length = content.len().to_string();
        let mut fields: Vec<FieldPair<'_>> = LISTING_FIELDS.to_vec();
        fields.push((b"Content-Type", form.media_type()));
        let is_head = request.head.method() == b"HEAD";
        if is_head {
            fields.push((b"Content-Length", length.as_bytes()));
        }
        let whole = [content];
        let parts: &[&[u8]] = if is_head { &[] } else { &whole };
        let _ = reply.send(ResponseHead { status: 200, fields: &fields }, parts);
        Ok(())
    }

    /// Looks up a decoded path.
    fn find(&mut self, below: &[u8], slash: bool) -> Result<Lookup, NotFound> {
        let now = monotonic();
        // The root without its slash is not a file, but has the path of its index.
        let known = if below.is_empty() && !slash { None } else { self.cache.find(below) };
        if let Some(place) = known
            && now.saturating_sub(self.cache.get(place).checked) < FRESH
        {
            return Ok(Lookup::Cached(place));
        }
        match (self.look(below, slash, now), known) {
            (Ok(Some(resource)), Some(place)) => {
                self.cache.get_mut(place).renew(resource, &self.options);
                Ok(Lookup::Cached(place))
            }
            (Ok(Some(resource)), None) => {
                let added = self.cache.add(below, resource.read(&self.options));
                Ok(added.map_or_else(|apart| Lookup::Apart(Box::new(apart)), Lookup::Cached))
            }
            (Ok(None), known) => {
                known.inspect(|_| self.cache.remove(below));
                Ok(Lookup::Directory)
            }
            // Without free descriptors or memory, the old state is better than nothing.
            (Err(NotFound::Failed(error)), Some(place)) => {
                log::error!("cannot look for {}: {error}", below.escape_ascii());
                Ok(Lookup::Cached(place))
            }
            (Err(why), known) => {
                known.inspect(|_| self.cache.remove(below));
                Err(why)
            }
        }
    }

    /// Looks up a path in the file system. `None` for a directory whose path lacks the slash.
    fn look(&self, below: &[u8], slash: bool, now: Duration) -> Result<Option<Looked>, NotFound> {
        if !target::is_plain(below, self.options.dotfiles) {
            return Err(NotFound::Missing);
        }
        if slash {
            return self.look_for_index(below, now).map(Some);
        }
        match self.root.find(below)? {
            Found::File(file, status) => Ok(Some(self.with_variants(below, (file, FileState::of(&status), status), now)?)),
            Found::Directory => {
                let mut inside = below.to_vec();
                inside.push(b'/');
                match self.look_for_index(&inside, now) {
                    Err(NotFound::Missing) if self.options.listing => Ok(None),
                    found => found.map(|_| None),
                }
            }
        }
    }

    fn look_for_index(&self, directory: &[u8], now: Duration) -> Result<Looked, NotFound> {
        let directory = if directory == b"/" { b"" } else { directory };
        for name in &self.options.index {
            let path = [directory, name.as_bytes()].concat();
            match self.root.find(&path) {
                Ok(Found::File(file, status)) => return self.with_variants(&path, (file, FileState::of(&status), status), now),
                Ok(Found::Directory) | Err(NotFound::Missing) => {}
                Err(other) => return Err(other),
            }
        }
        Err(NotFound::Missing)
    }

    fn with_variants(&self, path: &[u8], plain: Opened, now: Duration) -> Result<Looked, NotFound> {
        let media_type = self.options.media_types.of(path);
        if !self.options.types.admit(&media_type) {
            return Err(NotFound::Missing);
        }
        let mut variants = Vec::new();
        if self.options.precompressed && media_type::compresses(&media_type) {
            for coding in STORED_CODINGS {
                match self.root.find(&[path, suffix(coding).as_bytes()].concat()) {
                    Ok(Found::File(file, status)) => {
                        let state = FileState::of(&status);
                        // An older variant was made from an earlier version of the file. Whole seconds are compared, because
                        // tools that copy a file's time keep only these.
                        if state.second() >= plain.1.second() {
                            variants.push((coding, (file, state, status)));
                        }
                    }
                    Ok(Found::Directory) | Err(NotFound::Missing | NotFound::Forbidden) => {}
                    Err(failed) => return Err(failed),
                }
            }
        }
        Ok(Looked { media_type, plain, variants, checked: now })
    }
}

type Opened = (OwnedFd, FileState, rustix::fs::Stat);

/// The result of a look-up in the file system.
struct Looked {
    media_type: Cow<'static, str>,
    plain: Opened,
    variants: Vec<(Coding, Opened)>,
    checked: Duration,
}

impl Looked {
    fn read(self, options: &Options) -> Resource {
        let media_type = self.media_type;
        let fields = options.fields(!self.variants.is_empty());
        let read = |coding, (file, _, status): Opened| {
            let mut representation = Representation::new(file, &status, media_type.clone(), coding);
            let (selection, method) = (&Selection::default(), &b"GET"[..]);
            let response = Response { representation: &representation, method, selection, status: 200, fields: &fields };
            representation.prepared = response.prepare();
            representation
        };
        let variants = self.variants.into_iter().map(|(coding, opened)| read(Some(coding), opened)).collect();
        Resource { plain: read(None, self.plain), variants, checked: self.checked }
    }
}

impl Resource {
    /// Replaces the representations that have changed.
    fn renew(&mut self, looked: Looked, options: &Options) {
        let same = self.plain.state == looked.plain.1
            && self.variants.len() == looked.variants.len()
            && self
                .variants
                .iter()
                .zip(&looked.variants)
                .all(|(variant, (coding, (_, state, _)))| variant.coding == Some(*coding) && variant.state == *state);
        if same {
            self.checked = looked.checked;
        } else {
            *self = looked.read(options);
        }
    }

    /// Whether different clients get different codings.
    fn varies(&self) -> bool {
        !self.variants.is_empty()
    }

    #[inline]
    fn choose(&self, selection: &Selection<'_>) -> Choice {
        if self.variants.is_empty() && !selection.weighs_codings() {
            return Choice::Identity;
        }
        choose(selection, |coding| self.variants.iter().any(|variant| variant.coding == Some(coding)))
    }
}

const VARY: FieldPair<'static> = (b"Vary", b"Accept-Encoding");

/// The most listings that are kept.
const LISTINGS: usize = 4;

/// The fields of listings. They have no scripts, and they change with each file.
const LISTING_FIELDS: [FieldPair<'static>; 4] = [
    (b"Vary", b"Accept"),
    (b"Cache-Control", b"no-cache"),
    (b"Content-Security-Policy", b"default-src 'none'"),
    (b"X-Content-Type-Options", b"nosniff"),
];

impl Options {
    /// The fields of a response that do not depend on the file.
    fn fields(&self, varies: bool) -> Vec<FieldPair<'_>> {
        let cache_control = self.cache_control.iter().map(|value| (&b"Cache-Control"[..], value.as_bytes()));
        varies.then_some(VARY).into_iter().chain(cache_control).collect()
    }
}

/// The monotonic clock at its last tick: exact enough, and read without a system call.
fn monotonic() -> Duration {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Redirects a client to the path of a directory with its slash; keeps the query.
fn redirect(request: &Request<'_>, path: &[u8], reply: Reply<'_>) {
    // A path must not become the name of another host. It has no backslash, because no such file is looked for.
    let slashes = path.iter().take_while(|byte| **byte == b'/').count();
    let mut location = path[slashes.saturating_sub(1)..].to_vec();
    location.push(b'/');
    let query = request.head.query();
    if !query.is_empty() {
        location.push(b'?');
        location.extend_from_slice(query);
    }
    let fields: [FieldPair<'_>; 2] = [(b"Location", &location), (b"Content-Type", pages::MEDIA_TYPE)];
    let _ = reply.send(ResponseHead { status: 301, fields: &fields }, &[pages::moved(&location).as_bytes()]);
}

/// Sends a short page that explains the absence of the file.
pub(crate) fn send_page(status: u16, fields: &[FieldPair<'_>], reply: Reply<'_>) {
    let mut fields = fields.to_vec();
    fields.push((b"Content-Type", pages::MEDIA_TYPE));
    let _ = reply.send(ResponseHead { status, fields: &fields }, &[pages::of_status(status).as_bytes()]);
}
