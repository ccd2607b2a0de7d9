//! Files that an app names in a field of its response, to be sent instead of its content: X-Sendfile and X-Accel-Redirect.

use crate::media_type::MediaTypes;
use crate::mounts::Mount;
use crate::representation::Representation;
use crate::root::{Found, NotFound, Root};
use crate::{Settings, target};
use oribi_message::FieldPair;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The directories whose files apps may name, opened by one lane.
#[derive(Debug)]
pub struct NamedFiles {
    /// For X-Sendfile: each directory with the paths under which an app may name it.
    roots: Vec<(Vec<PathBuf>, Root)>,
    /// For X-Accel-Redirect, the longest prefix first.
    mapped: Vec<(Mount, Root)>,
    media_types: MediaTypes,
}

/// A field that names a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name<'a> {
    /// X-Sendfile: an absolute path.
    Path(&'a [u8]),
    /// X-Accel-Redirect: the path of a URL that no client can request.
    Internal(&'a [u8]),
}

impl<'a> Name<'a> {
    /// The value of the field.
    #[must_use]
    pub const fn text(self) -> &'a [u8] {
        match self {
            Self::Path(text) | Self::Internal(text) => text,
        }
    }
}

impl NamedFiles {
    /// Opens the directories. `None` if apps may not name files.
    ///
    /// # Errors
    /// Says which directory cannot be opened, and why.
    pub fn open(settings: &Settings) -> io::Result<Option<Self>> {
        if settings.sendfile_roots.is_empty() && settings.accelerated.is_empty() {
            return Ok(None);
        }
        let mut named = Self { roots: Vec::new(), mapped: Vec::new(), media_types: settings.options.media_types.clone() };
        for directory in &settings.sendfile_roots {
            let mut names = vec![directory.clone()];
            // The app may name the directory by the path to which a symbolic link leads.
            names.extend(directory.canonicalize().ok().filter(|path| path != directory));
            named.roots.push((names, Root::open_named(directory)?));
        }
        for mount in &settings.accelerated {
            named.mapped.push((mount.clone(), Root::open_named(&mount.directory)?));
        }
        named.mapped.sort_by_key(|(mount, _)| std::cmp::Reverse(mount.prefix.len()));
        Ok(Some(named))
    }

    /// The file that a response names: the first field of this kind, if the settings allow the kind.
    #[must_use]
    pub fn name_in<'a>(&self, fields: &[FieldPair<'a>]) -> Option<Name<'a>> {
        fields.iter().find_map(|(name, value)| match name.len() {
            10 if !self.roots.is_empty() && name.eq_ignore_ascii_case(b"x-sendfile") => Some(Name::Path(value)),
            16 if !self.mapped.is_empty() && name.eq_ignore_ascii_case(b"x-accel-redirect") => Some(Name::Internal(value)),
            _ => None,
        })
    }

    /// Whether a field of a response is meant for this server only.
    #[must_use]
    pub fn is_for_server(&self, name: &[u8]) -> bool {
        let accelerates = name.get(..8).is_some_and(|start| start.eq_ignore_ascii_case(b"x-accel-"));
        accelerates || name.eq_ignore_ascii_case(b"x-sendfile")
    }

    /// Whether this field of a request selects the field by which an app names files. Rack::Sendfile trusts it, so only a web
    /// server may send it, not a client.
    #[must_use]
    pub fn steers_app(name: &[u8]) -> bool {
        name.len() == 15 && (name.eq_ignore_ascii_case(b"x-sendfile-type") || name.eq_ignore_ascii_case(b"x-accel-mapping"))
    }

    /// Opens the file.
    ///
    /// # Errors
    /// See [`NotFound`]. A file that is not below a permitted directory counts as missing.
    pub fn find(&self, name: Name<'_>) -> Result<Representation, NotFound> {
        match name {
            Name::Path(path) => {
                let inside = |(names, root): &'_ (Vec<PathBuf>, Root)| {
                    names.iter().find_map(|name| below(path, name)).map(|below| self.find_in(root, below))
                };
                first_of(self.roots.iter().filter_map(inside))
            }
            Name::Internal(text) => {
                let path = text.split(|byte| *byte == b'?').next().unwrap_or_default();
                let inside = |(mount, root): &'_ (Mount, Root)| {
                    let below = target::decode(mount.strip(path)?)?;
                    Some(self.find_in(root, &below))
                };
                first_of(self.mapped.iter().filter_map(inside))
            }
        }
    }
}

impl NamedFiles {
    fn find_in(&self, root: &Root, below: &[u8]) -> Result<Representation, NotFound> {
        // The app may name files that begin with a dot; clients may not.
        if !target::is_plain(below, true) || below.ends_with(b"/") {
            return Err(NotFound::Missing);
        }
        match root.find(below)? {
            Found::File(file, status) => Ok(Representation::of_path(file, &status, below, &self.media_types)),
            Found::Directory => Err(NotFound::Missing),
        }
    }
}

/// The part of a path below a directory.
fn below<'a>(path: &'a [u8], directory: &Path) -> Option<&'a [u8]> {
    let directory = directory.as_os_str().as_bytes();
    path.strip_prefix(directory.strip_suffix(b"/").unwrap_or(directory))?.strip_prefix(b"/")
}

/// The first file that exists, or the last error if none exists.
fn first_of(found: impl Iterator<Item = Result<Representation, NotFound>>) -> Result<Representation, NotFound> {
    let mut last = Err(NotFound::Missing);
    for result in found {
        last = result;
        if last.is_ok() {
            break;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn site() -> (tempfile::TempDir, NamedFiles) {
        let place = tempfile::tempdir().expect("a directory is to be had");
        let at = |name: &str| place.path().join(name);
        fs::create_dir_all(at("files/inner")).expect("it is writable");
        fs::create_dir(at("other")).expect("it is writable");
        for name in ["files/a", "files/inner/b c", "files/.dot", "other/a", "outside", "files2"] {
            fs::write(at(name), name).expect("it is writable");
        }
        symlink("../outside", at("files/out")).expect("it is writable");
        symlink("files", at("link")).expect("it is writable");
        let mount = |text: String| Mount::parse(&text).expect("it fits");
        let settings = Settings {
            sendfile_roots: vec![at("link"), at("other")],
            accelerated: vec![mount(format!("/x={}", at("files").display())), mount(format!("/x/y={}", at("other").display()))],
            ..Settings::default()
        };
        let named = NamedFiles::open(&settings).expect("they are there").expect("there are some");
        (place, named)
    }

    #[test]
    fn paths_lead_only_below_the_roots() {
        let (place, named) = site();
        let found = |path: &str| named.find(Name::Path(format!("{}{path}", place.path().display()).as_bytes())).is_ok();
        for path in ["/link/a", "/files/a", "/files/inner/b c", "/files/.dot", "/other/a"] {
            assert!(found(path), "{path}");
        }
        for path in [
            "/outside",
            "/files2",
            "/files/../outside",
            "/files/out",
            "/files/inner",
            "/files/a/",
            "/files//a",
            "/files",
            "/files/",
            "/files/./a",
            "/files/none",
            "/files/inner/b%20c",
        ] {
            assert!(!found(path), "{path}");
        }
        for path in ["", "a", "files/a", "/etc/passwd", "/"] {
            assert!(named.find(Name::Path(path.as_bytes())).is_err(), "{path}");
        }
    }

    #[test]
    fn internal_paths_are_decoded_once() {
        let (_place, named) = site();
        for path in ["/x/a", "/x/inner/b%20c", "/x/inner/b c", "/x/y/a", "/x/a?download=1", "/x/.dot", "/x/%61"] {
            assert!(named.find(Name::Internal(path.as_bytes())).is_ok(), "{path}");
        }
        for path in
            ["/a", "/xa", "/x/../outside", "/x/%2e%2e/outside", "/x/inner%2fb c", "/x", "/x/", "/x/out", "/x/%2561", "x/a", ""]
        {
            assert!(named.find(Name::Internal(path.as_bytes())).is_err(), "{path}");
        }
    }

    #[test]
    fn only_what_is_allowed_is_honoured() {
        let (_place, named) = site();
        let fields: [FieldPair<'_>; 3] = [(b"A", b"b"), (b"x-SendFile", b"/p"), (b"X-Accel-Redirect", b"/i")];
        assert_eq!(named.name_in(&fields), Some(Name::Path(b"/p")));
        assert_eq!(named.name_in(&fields[2..]), Some(Name::Internal(b"/i")));
        assert_eq!(named.name_in(&fields[..1]), None);
        let half = NamedFiles { roots: Vec::new(), ..named };
        assert_eq!(half.name_in(&fields), Some(Name::Internal(b"/i")));
        assert_eq!(half.name_in(&fields[..2]), None);
        assert!(NamedFiles::open(&Settings::default()).expect("nothing to open").is_none());
    }

    #[test]
    fn clients_do_not_steer_apps() {
        for name in ["X-Sendfile-Type", "x-accel-mapping"] {
            assert!(NamedFiles::steers_app(name.as_bytes()), "{name}");
        }
        for name in ["X-Sendfile", "X-Accel-Redirect", "X-Forwarded-For", ""] {
            assert!(!NamedFiles::steers_app(name.as_bytes()), "{name}");
        }
    }
}
