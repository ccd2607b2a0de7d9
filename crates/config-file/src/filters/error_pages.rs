//! `error-pages`: files that replace the server's own errors.

use crate::content::{ErrorPage, PathKind};
use crate::table::{Entry, Reader};
use oribi_config::quoted;

/// Reads a table of files by status.
pub(super) fn error_pages(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<Vec<ErrorPage>> {
    let mut complete = true;
    let mut pages = Vec::new();
    for inside in reader.table(entry)? {
        let status = inside.key.parse().ok().filter(|status| (400..=599).contains(status) && inside.key.len() == 3);
        if status.is_none() {
            let message = format!("bad key `{}` in {}: expected a status code from 400 to 599", quoted(inside.key), entry.key);
            reader.mistake(inside.at, message);
        }
        let file = reader.needed(inside, "error-pages", PathKind::Page).map(|file| file.path);
        complete &= status.is_some() && file.is_some();
        let place = reader.source.place(inside.at);
        pages.extend(status.zip(file).map(|(status, file)| ErrorPage { status, file, place }));
    }
    complete.then_some(pages)
}
