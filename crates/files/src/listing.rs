//! The listing of a directory, as a page or as JSON.

use crate::root::{NotFound, Root};
use crate::{date, pages, target};
use oribi_host::Request;
use oribi_message::list::{members, trim};
use oribi_message::{KnownField, weight};
use rustix::fs::{AtFlags, Dir, FileType, Stat, statat};
use std::fmt::Write as _;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// The most entries of a listing.
const MOST_ENTRIES: usize = 10_000;

/// The most bytes of a listing. Names with many escapes may need more for fewer entries.
const MOST_BYTES: usize = 4 << 20;

/// The time for reading a directory: other connections of the event loop wait meanwhile. Entries that have not been read until
/// then are left out.
const TIME: Duration = Duration::from_millis(50);

/// The number of entries between two looks at the clock.
const ENTRIES_BETWEEN_LOOKS: usize = 64;

/// The form of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Html,
    Json,
}

impl Form {
    /// The form that a client likes best: a page, unless it likes JSON better.
    pub(crate) fn of(request: &Request<'_>) -> Self {
        let lines = || {
            let of_accept = |(known, _, value)| (known == Some(KnownField::Accept)).then_some(value);
            request.head.fields().filter_map(of_accept)
        };
        let (json, html) = (weight_of(lines(), b"application/json"), weight_of(lines(), b"text/html"));
        if json > html { Self::Json } else { Self::Html }
    }

    pub(crate) const fn media_type(self) -> &'static [u8] {
        match self {
            Self::Html => pages::MEDIA_TYPE,
            Self::Json => b"application/json",
        }
    }
}

/// The greatest weight that Accept gives a media type by its own name; 0 without one.
fn weight_of<'a>(lines: impl Iterator<Item = &'a [u8]>, media_type: &[u8]) -> u16 {
    let elements = lines.flat_map(members);
    let weight_of = |element: &[u8]| {
        let mut parameters = element.split(|byte| *byte == b';').map(trim);
        let is_named = parameters.next().is_some_and(|name| name.eq_ignore_ascii_case(media_type));
        is_named.then(|| {
            let mut weights = parameters.filter(|parameter| parameter.starts_with(b"q=") || parameter.starts_with(b"Q="));
            weights.next().map_or(Some(1000), weight).unwrap_or(0)
        })
    };
    elements.filter_map(weight_of).max().unwrap_or(0)
}

/// An entry of a directory.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    name: Vec<u8>,
    is_directory: bool,
    /// The size of a file in bytes.
    size: u64,
    /// The last change, in seconds since the Unix epoch.
    modified: u64,
}

/// Lists the directory at a decoded path below a root.
///
/// # Errors
/// The directory cannot be opened or read.
pub(crate) fn list(root: &Root, directory: &[u8], dotfiles: bool, form: Form) -> Result<Vec<u8>, NotFound> {
    let (mut entries, complete) = read(root, directory, dotfiles)?;
    entries.sort_by(|one, other| other.is_directory.cmp(&one.is_directory).then_with(|| one.name.cmp(&other.name)));
    let is_root = directory.is_empty() || directory == b"/";
    let text = match form {
        Form::Html => html(directory, &entries, is_root, complete),
        Form::Json => json(&entries),
    };
    Ok(text.into_bytes())
}

/// Reads the entries that the server would send, and whether these are all.
fn read(root: &Root, path: &[u8], dotfiles: bool) -> Result<(Vec<Entry>, bool), NotFound> {
    let start = Instant::now();
    let mut directory = Dir::new(root.open_directory(path)?)?;
    let mut entries = Vec::new();
    let mut seen = 0_usize;
    while let Some(read) = directory.read() {
        let read = read?;
        let name = read.file_name().to_bytes();
        seen += 1;
        if entries.len() == MOST_ENTRIES || seen.is_multiple_of(ENTRIES_BETWEEN_LOOKS) && start.elapsed() > TIME {
            return Ok((entries, false));
        }
        if !target::is_plain(name, dotfiles) {
            continue;
        }
        let known = directory.fd().ok().and_then(|directory| status(root, (directory, path), name));
        entries.extend(known.and_then(|status| Entry::of(name, &status)));
    }
    Ok((entries, true))
}

/// The metadata of an entry. Those of a symbolic link are those of its target, if the link stays below the root.
fn status(root: &Root, (directory, path): (BorrowedFd<'_>, &[u8]), name: &[u8]) -> Option<Stat> {
    let status = statat(directory.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    if FileType::from_raw_mode(status.st_mode) != FileType::Symlink {
        return Some(status);
    }
    let path = path.strip_suffix(b"/").unwrap_or(path);
    let separator: &[u8] = if path.is_empty() { b"" } else { b"/" };
    root.status(&[path, separator, name].concat()).ok()
}

impl Entry {
    /// `None` for an entry that is neither a file nor a directory.
    fn of(name: &[u8], status: &Stat) -> Option<Self> {
        let kind = FileType::from_raw_mode(status.st_mode);
        let is_directory = kind == FileType::Directory;
        (is_directory || kind == FileType::RegularFile).then(|| Self {
            name: name.to_vec(),
            is_directory,
            size: u64::try_from(status.st_size).unwrap_or(0),
            modified: u64::try_from(status.st_mtime).unwrap_or(0),
        })
    }

    /// The name as a relative reference, which no name can turn into another scheme, host or query.
    fn reference(&self) -> String {
        let mut reference = String::from("./");
        for byte in &self.name {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
                reference.push(char::from(*byte));
            } else {
                // Writing to a string does not fail.
                let _ = write!(reference, "%{byte:02X}");
            }
        }
        if self.is_directory {
            reference.push('/');
        }
        reference
    }
}

fn html(directory: &[u8], entries: &[Entry], is_root: bool, complete: bool) -> String {
    let title = pages::escape(&String::from_utf8_lossy(directory.strip_suffix(b"/").unwrap_or(directory)));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>/{title}</title>\n<h1>/{title}</h1>\n<table>\n\
         <tr><th>Name</th><th>Size</th><th>Last change</th></tr>\n"
    );
    if !is_root {
        page.push_str("<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n");
    }
    let mut all = complete;
    for entry in entries {
        if page.len() > MOST_BYTES {
            all = false;
            break;
        }
        let (slash, size) = if entry.is_directory { ("/", String::new()) } else { ("", entry.size.to_string()) };
        let name = pages::escape(&String::from_utf8_lossy(&entry.name));
        let (reference, time) = (entry.reference(), date::iso(entry.modified));
        let _ = writeln!(page, "<tr><td><a href=\"{reference}\">{name}{slash}</a></td><td>{size}</td><td>{time}</td></tr>");
    }
    page.push_str("</table>\n");
    if !all {
        page.push_str("<p>There are more entries than this listing can show.</p>\n");
    }
    page.push_str("</html>\n");
    page
}

fn json(entries: &[Entry]) -> String {
    let mut text = String::from("[");
    for entry in entries {
        if text.len() > MOST_BYTES {
            break;
        }
        text.push_str(if text.len() == 1 { "\n" } else { ",\n" });
        text.push_str("{\"name\":");
        push_string(&String::from_utf8_lossy(&entry.name), &mut text);
        let kind = if entry.is_directory { "directory" } else { "file" };
        let _ = write!(text, ",\"href\":\"{}\",\"type\":\"{kind}\"", entry.reference());
        if !entry.is_directory {
            let _ = write!(text, ",\"size\":{}", entry.size);
        }
        let _ = write!(text, ",\"modified\":\"{}\"}}", date::iso(entry.modified));
    }
    text.push_str("\n]\n");
    text
}

/// Appends a string of JSON. `<` is escaped, too, for clients that take JSON for a page.
fn push_string(value: &str, to: &mut String) {
    to.push('"');
    for letter in value.chars() {
        match letter {
            '"' | '\\' | '<' | '\u{0}'..='\u{1f}' | '\u{7f}' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(to, "\\u{:04x}", u32::from(letter));
            }
            letter => to.push(letter),
        }
    }
    to.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    fn text(root: &Root, directory: &str, dotfiles: bool, form: Form) -> String {
        String::from_utf8(list(root, directory.as_bytes(), dotfiles, form).expect("it is there")).expect("it is UTF-8")
    }

    #[test]
    fn a_listing_has_the_files_that_the_server_sends() {
        let place = tempfile::tempdir().expect("a directory is to be had");
        let site = place.path().join("site");
        fs::create_dir_all(site.join("inner/b")).expect("it is writable");
        for name in ["inner/a.txt", "inner/.secret", "top.txt"] {
            fs::write(site.join(name), "12345").expect("it is writable");
        }
        fs::write(place.path().join("outside"), "x").expect("it is writable");
        let _socket = UnixListener::bind(site.join("inner/socket")).expect("it is writable");
        symlink("../top.txt", site.join("inner/link")).expect("it is writable");
        symlink("../../outside", site.join("inner/escape")).expect("it is writable");
        symlink("nowhere", site.join("inner/broken")).expect("it is writable");
        for (confined, names) in [(true, ["b/", "a.txt", "link"].as_slice()), (false, &["b/", "a.txt"])] {
            let root = Root::open(&site).expect("it is there");
            let root = if confined { root } else { root.without_help_of_the_kernel() };
            let page = text(&root, "inner/", false, Form::Html);
            let shown: Vec<&str> = page.lines().filter(|line| line.contains("./")).collect();
            assert!(shown[0].contains("href=\"../\">../<"), "{page}");
            let shown: Vec<&str> = shown[1..].iter().filter_map(|line| line.split(['>', '<']).nth(6)).collect();
            assert_eq!(shown, names, "{page}");
        }
        let root = Root::open(&site).expect("it is there");
        assert!(text(&root, "inner/", true, Form::Html).contains(".secret"));
        assert!(!text(&root, "", false, Form::Html).contains("../"));
        let json = text(&root, "inner/", false, Form::Json);
        assert!(
            json.contains("{\"name\":\"a.txt\",\"href\":\"./a.txt\",\"type\":\"file\",\"size\":5,\"modified\":\"2"),
            "{json}"
        );
        assert!(json.contains("{\"name\":\"b\",\"href\":\"./b/\",\"type\":\"directory\",\"modified\":\"2"), "{json}");
        assert!(matches!(list(&root, b"none/", false, Form::Html), Err(NotFound::Missing)));
        assert!(matches!(list(&root, b"top.txt/", false, Form::Html), Err(NotFound::Missing)));
        assert!(matches!(list(&root, b"inner/escape/", false, Form::Html), Err(NotFound::Missing)));
    }

    #[test]
    fn no_name_becomes_a_part_of_the_page() {
        let place = tempfile::tempdir().expect("a directory is to be had");
        let directory = "<b>\"x\"&'";
        fs::create_dir(place.path().join(directory)).expect("it is writable");
        let names: [&[u8]; 5] = [
            b"<script>alert(1)</script>".as_slice().split_at(8).0,
            b"javascript:alert(1)",
            b"\" onclick=\"a",
            b"a?b#c%41",
            b"\xff\xe9",
        ];
        for name in names {
            fs::write(place.path().join(directory).join(std::ffi::OsStr::from_bytes(name)), "").expect("it is writable");
        }
        let root = Root::open(place.path()).expect("it is there");
        let page = text(&root, &format!("{directory}/"), false, Form::Html);
        assert!(!page.contains("<script") && !page.contains("<b>") && !page.contains("\" onclick"), "{page}");
        for reference in
            ["./%3Cscript%3E", "./javascript%3Aalert%281%29", "./%22%20onclick%3D%22a", "./a%3Fb%23c%2541", "./%FF%E9"]
        {
            assert!(page.contains(&format!("<a href=\"{reference}\">")), "{reference}: {page}");
        }
        let json = text(&root, &format!("{directory}/"), false, Form::Json);
        assert!(json.contains("\"\\u003cscript>\"") && json.contains("\"\\u0022 onclick=\\u0022a\""), "{json}");
    }

    #[test]
    fn a_large_directory_is_cut() {
        let entry = |number: usize| Entry { name: vec![b'<'; 250], is_directory: false, size: 0, modified: number as u64 };
        let entries: Vec<Entry> = (0..MOST_ENTRIES).map(entry).collect();
        let page = html(b"a/", &entries, false, true);
        assert!(page.len() < MOST_BYTES + 4096 && page.contains("more entries"), "{}", page.len());
        let json = json(&entries);
        assert!(json.len() < MOST_BYTES + 4096 && json.ends_with("}\n]\n"), "{}", json.len());
        assert_eq!(super::json(&[]), "[\n]\n");
    }

    #[test]
    fn a_client_gets_json_if_it_likes_that_better() {
        let weight = |accept: &'static str, name: &str| weight_of([accept.as_bytes()].into_iter(), name.as_bytes());
        for (accept, json, html) in [
            ("*/*", 0, 0),
            ("application/json", 1000, 0),
            ("text/html, application/json;q=0.9", 900, 1000),
            ("Application/JSON ; charset=x; q=0.5, application/json;q=0.7, text/html;q=x", 700, 0),
            ("application/json;q=0, text/*", 0, 0),
        ] {
            assert_eq!((weight(accept, "application/json"), weight(accept, "text/html")), (json, html), "{accept}");
        }
    }
}
