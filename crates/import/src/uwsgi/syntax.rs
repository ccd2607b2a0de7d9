//! The formats of files: INI, XML, YAML and JSON. Each becomes names and values in the order of the file.

use super::entry::Entry;
use crate::draft::Draft;
use crate::json;
use crate::note::Key;
use crate::tree::Node;
use crate::unreadable::Unreadable;

/// Reads a file by its first letters.
pub(super) fn read(name: &str, text: &str, draft: &mut Draft) -> Result<Vec<Entry>, Unreadable> {
    let start = text.trim_start_matches('\u{FEFF}').trim_start();
    if start.starts_with('<') {
        xml(text, draft)
    } else if start.starts_with('{') {
        of_json(text, draft)
    } else if name.ends_with(".yaml") || name.ends_with(".yml") || start.lines().any(|line| line.trim_end() == "uwsgi:") {
        yaml(text, draft)
    } else {
        ini(text, draft)
    }
}

fn ini(text: &str, draft: &mut Draft) -> Result<Vec<Entry>, Unreadable> {
    let mut entries = Vec::new();
    let mut section: Option<String> = None;
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let number = index + 1;
        let mut line = line.trim_start_matches('\u{FEFF}').trim().to_owned();
        if line.is_empty() || line.starts_with([';', '#']) {
            continue;
        }
        while line.ends_with('\\') {
            line.pop();
            let Some((_, next)) = lines.next() else { break };
            line.push_str(next.trim());
        }
        if let Some(name) = line.strip_prefix('[') {
            let Some((name, _)) = name.split_once(']') else {
                return Err(Unreadable::at(number, 1, "a section without `]`"));
            };
            if name != "uwsgi" {
                draft.lost(&Key::at(number, format!("[{name}]")), "only the section [uwsgi] is read");
            }
            section = Some(name.to_owned());
            continue;
        }
        match section.as_deref() {
            None => return Err(Unreadable::at(number, 1, "an option before the first section: expected [uwsgi]")),
            Some("uwsgi") => {}
            Some(_) => continue,
        }
        let (name, value) = line.split_once('=').unwrap_or((&*line, "true"));
        entries.push(Entry { name: name.trim().to_owned(), value: value.trim().to_owned(), line: Some(number) });
    }
    Ok(entries)
}

fn yaml(text: &str, draft: &mut Draft) -> Result<Vec<Entry>, Unreadable> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let indent = line.len() - line.trim_start().len();
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') || ["---", "..."].contains(&trimmed) || trimmed.starts_with('%') {
            continue;
        }
        if indent == 0 && !trimmed.starts_with('-') {
            inside = trimmed == "uwsgi:";
            if !inside {
                let name = trimmed.split(':').next().unwrap_or_default();
                draft.lost(&Key::at(number, name), "only the section uwsgi is read");
            }
            continue;
        }
        if !inside {
            continue;
        }
        if let Some(item) = trimmed.strip_prefix('-') {
            let Some(list) = entries.last().cloned() else {
                return Err(Unreadable::at(number, indent + 1, "an item without a name before it"));
            };
            if list.value.is_empty() {
                entries.pop();
            }
            entries.push(Entry { value: plain(item), line: Some(number), ..list });
            continue;
        }
        let Some((name, value)) = trimmed.split_once(':') else {
            return Err(Unreadable::at(number, indent + 1, "expected NAME: VALUE"));
        };
        let value = plain(value);
        if let Some(list) = value.strip_prefix('[').and_then(|list| list.strip_suffix(']')) {
            for item in list.split(',') {
                entries.push(Entry { name: plain(name), value: plain(item), line: Some(number) });
            }
        } else {
            entries.push(Entry { name: plain(name), value, line: Some(number) });
        }
    }
    Ok(entries)
}

/// A scalar of YAML without its quotes and its comment.
fn plain(text: &str) -> String {
    let text = text.trim();
    for quote in ['"', '\''] {
        if let Some((inside, _)) = text.strip_prefix(quote).and_then(|rest| rest.split_once(quote)) {
            return inside.to_owned();
        }
    }
    text.split(" #").next().unwrap_or_default().trim().to_owned()
}

fn of_json(text: &str, draft: &mut Draft) -> Result<Vec<Entry>, Unreadable> {
    let root = json::read(text)?;
    let mut entries = Vec::new();
    if let Some(section) = root.get("uwsgi") {
        for (name, node) in section.entries() {
            for value in node.values().iter().filter_map(Node::scalar) {
                entries.push(Entry { name: name.clone(), value, line: None });
            }
        }
    }
    root.unread(&Key::default(), &mut |key| {
        draft.lost(&key, "only the object uwsgi is read, with texts, numbers and lists of them");
    });
    Ok(entries)
}

fn xml(text: &str, draft: &mut Draft) -> Result<Vec<Entry>, Unreadable> {
    let mut entries = Vec::new();
    let mut rest = text;
    let mut open: Vec<(String, usize)> = Vec::new();
    let place = |rest: &str| text[..text.len() - rest.len()].matches('\n').count() + 1;
    let mut content = String::new();
    while let Some((before, after)) = rest.split_once('<') {
        let number = place(after);
        content.push_str(before);
        let end = |mark: &str| after.find(mark).map(|at| &after[at + mark.len()..]);
        if after.starts_with("!--") {
            rest = end("-->").ok_or_else(|| Unreadable::line(number, "a comment without an end"))?;
            continue;
        }
        let behind = end(">").ok_or_else(|| Unreadable::line(number, "a tag without an end"))?;
        let tag = &after[..after.len() - behind.len() - 1];
        rest = behind;
        if tag.starts_with(['?', '!']) {
            continue;
        }
        if let Some(name) = tag.strip_prefix('/') {
            let Some((opened, line)) = open.pop().filter(|(opened, _)| opened == name.trim()) else {
                return Err(Unreadable::line(number, format!("the tag {} was not opened", name.trim())));
            };
            if opened != "uwsgi" && open.last().is_some_and(|(above, _)| above == "uwsgi") {
                let value = entities(content.trim());
                let value = if value.is_empty() { "true".to_owned() } else { value };
                entries.push(Entry { name: opened, value, line: Some(line) });
            } else if opened != "uwsgi" {
                draft.lost(&Key::at(line, &opened), "only tags directly in <uwsgi> are read");
            }
            content.clear();
            continue;
        }
        let (tag, closed) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let name = tag.split_whitespace().next().unwrap_or_default();
        if tag.contains('=') && name != "uwsgi" {
            draft.lost(&Key::at(number, name), "attributes of a tag");
        }
        content.clear();
        if closed && open.last().is_none_or(|(above, _)| above != "uwsgi") {
            draft.lost(&Key::at(number, name), "only tags directly in <uwsgi> are read");
        } else if closed {
            entries.push(Entry { name: name.to_owned(), value: "true".to_owned(), line: Some(number) });
        } else {
            open.push((name.to_owned(), number));
        }
    }
    match open.pop() {
        None => Ok(entries),
        Some((name, line)) => Err(Unreadable::line(line, format!("the tag {name} is not closed"))),
    }
}

fn entities(text: &str) -> String {
    [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")]
        .iter()
        .fold(text.to_owned(), |text, (entity, letter)| text.replace(entity, letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_formats_have_the_same_entries() {
        let ini = "[uwsgi]\n; a comment\nmaster = true\nenv = A=b\nenv = C=d \\\n  e\n[other]\nx = y\n";
        let xml = "<?xml version=\"1.0\"?>\n<uwsgi>\n<!-- a -->\n<master/>\n<env>A=b</env>\n<env>C=d e</env></uwsgi>";
        let yaml = "uwsgi:\n  master: true # a comment\n  env:\n    - A=b\n    - \"C=d e\"\nother:\n  x: y\n";
        let json = "{\"uwsgi\": {\"master\": true, \"env\": [\"A=b\", \"C=d e\"]}, \"other\": {}}";
        for text in [ini, xml, yaml, json] {
            let entries = read("a", text, &mut Draft::default()).expect("it can be read");
            let shown: Vec<String> = entries.iter().map(|entry| format!("{}:{}", entry.name, entry.value)).collect();
            assert_eq!(shown, ["master:true", "env:A=b", "env:C=d e"], "{text}");
        }
    }

    #[test]
    fn mistakes_have_a_line() {
        for (text, expected) in [
            ("x = y", "1:1: an option before the first section: expected [uwsgi]"),
            ("[uwsgi]\n[a", "2:1: a section without `]`"),
            ("<uwsgi>\n<a>", "2: the tag a is not closed"),
            ("<uwsgi>\n</a>", "2: the tag a was not opened"),
            ("uwsgi:\n  x", "2:3: expected NAME: VALUE"),
        ] {
            assert_eq!(read("a", text, &mut Draft::default()).expect_err(text).to_string(), expected);
        }
    }
}
