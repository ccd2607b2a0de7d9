//! Directories of files in front of an app: an existing file is sent without calling the app; everything else goes to the app.

use crate::Options;
use crate::root::NotFound;
use crate::site::Site;
use oribi_host::{Reply, Request};
use oribi_message::Role;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// A directory, and the path prefix that maps to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// As in paths, with a slash in front and none at the end; empty: all paths.
    pub prefix: String,
    /// The directory with its files.
    pub directory: PathBuf,
}

impl Mount {
    /// Parses `/prefix=DIR`.
    ///
    /// # Errors
    /// Says which form is expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        const EXPECTED: &str = "expected /PREFIX=DIR, as in /assets=public/assets, or /=public";
        let (prefix, directory) = text.split_once('=').ok_or(EXPECTED)?;
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        // The prefix is compared with paths as they are sent, in which all other bytes are escaped.
        let usual = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;:@".contains(&byte);
        let named = prefix.strip_prefix('/').is_some_and(|names| names.split('/').all(|name| !matches!(name, "" | "." | "..")));
        if !(prefix.is_empty() || named) || !text.starts_with('/') || !prefix.bytes().all(usual) {
            return Err(EXPECTED.to_owned());
        }
        if directory.is_empty() || directory.contains('\0') {
            return Err(EXPECTED.to_owned());
        }
        Ok(Self { prefix: prefix.to_owned(), directory: directory.into() })
    }

    /// The part of a path after the prefix.
    #[must_use]
    pub fn strip<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        let behind = path.strip_prefix(self.prefix.as_bytes())?;
        (behind.is_empty() || behind.starts_with(b"/")).then_some(behind)
    }
}

impl fmt::Display for Mount {
    /// In the form that [`Mount::parse`] accepts.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.prefix.is_empty() { "/" } else { "" };
        write!(formatter, "{slash}{}={}", self.prefix, self.directory.display())
    }
}

/// The directories in front of an app, as one lane serves them.
#[derive(Debug)]
pub struct Mounts {
    /// Longest prefix first, because it is the most specific.
    sites: Vec<(Mount, Site)>,
}

impl Mounts {
    /// Opens the directories.
    ///
    /// # Errors
    /// Says which directory cannot be opened, and why.
    pub fn open(mounts: &[Mount], options: &Options) -> io::Result<Self> {
        let mut sites = Vec::with_capacity(mounts.len());
        for mount in mounts {
            sites.push((mount.clone(), Site::open(&mount.directory, options)?));
        }
        sites.sort_by_key(|(mount, _)| std::cmp::Reverse(mount.prefix.len()));
        Ok(Self { sites })
    }

    /// Answers a request if a file exists for it.
    ///
    /// # Errors
    /// There is none: returns the reply, for the app.
    pub fn answer<'r>(&mut self, request: &Request<'_>, reply: Reply<'r>) -> Result<(), Reply<'r>> {
        self.answer_at(request.head.path(), true, request, reply)
    }

    /// Answers a request with the file at another path than its own, if that file exists. `redirects`: see [`Site::answer`].
    ///
    /// # Errors
    /// There is none: returns the reply.
    pub fn answer_at<'r>(
        &mut self,
        path: &[u8],
        redirects: bool,
        request: &Request<'_>,
        mut reply: Reply<'r>,
    ) -> Result<(), Reply<'r>> {
        let wanted = matches!(request.head.method(), b"GET" | b"HEAD");
        if !wanted || request.gateway.is_some_and(|gateway| gateway.role != Role::Responder) {
            return Err(reply);
        }
        for (mount, site) in &mut self.sites {
            if mount.strip(path).is_none() {
                continue;
            }
            match site.answer(request, path, mount.prefix.as_bytes(), redirects, reply) {
                Ok(()) => return Ok(()),
                Err((back, why)) => {
                    if let NotFound::Failed(error) = why {
                        log::error!("cannot look for a file in {}: {error}", mount.directory.display());
                    }
                    reply = back;
                }
            }
        }
        Err(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read_and_shown() {
        for (text, prefix, directory) in [
            ("/assets=public/assets", "/assets", "public/assets"),
            ("/a/b/=/srv/x=y", "/a/b", "/srv/x=y"),
            ("/=public", "", "public"),
            ("/~me=/home/me/public", "/~me", "/home/me/public"),
        ] {
            let mount = Mount::parse(text).expect(text);
            assert_eq!((mount.prefix.as_str(), mount.directory.to_str()), (prefix, Some(directory)), "{text}");
            assert_eq!(Mount::parse(&mount.to_string()), Ok(mount), "{text}");
        }
        for text in
            ["", "=", "assets=x", "/assets", "/assets=", "//=x", "/a//b=x", "/a/../b=x", "/a b=x", "/a%20=x", "/a?=x", "=x"]
        {
            assert!(Mount::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_prefix_ends_where_a_name_ends() {
        let mount = Mount::parse("/assets=x").expect("it fits");
        for (path, behind) in [("/assets/a", Some("/a")), ("/assets", Some("")), ("/assetsx", None), ("/a", None), ("/", None)]
        {
            assert_eq!(mount.strip(path.as_bytes()), behind.map(str::as_bytes), "{path}");
        }
        assert_eq!(Mount::parse("/=x").expect("it fits").strip(b"/a/b"), Some(&b"/a/b"[..]));
    }
}
