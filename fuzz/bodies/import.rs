//! Properties of all configurations of other servers: the reader of oribi.toml accepts the file that is made of one, and the
//! file has each note.

use oribi_config_file::parse;
use oribi_import::{Format, Found, Imported, detect, import, import_with};

/// Reads a source, of the format that its first byte chooses. Returns whether it can be read.
pub fn check(data: &[u8]) -> bool {
    let Some((&choice, text)) = data.split_first() else { return false };
    let Ok(text) = std::str::from_utf8(text) else { return false };
    let _ = detect("file", text);
    let (_, format) = Format::ALL[usize::from(choice.wrapping_sub(b'0')) % Format::ALL.len()];
    let made = import(format, "conf/file.ini", text);
    assert_eq!(made, import(format, "conf/file.ini", text), "the same source becomes the same file");
    let Ok(imported) = made else { return false };
    accepts(&imported);
    // Each further file has the same text.
    let found =
        |pattern: &String| Found { pattern: pattern.clone(), path: pattern.replace('*', "a"), text: Ok(text.to_owned()) };
    let found: Vec<Found> = imported.wanted.iter().take(4).map(found).collect();
    if !found.is_empty() {
        let whole = import_with(format, "conf/file.ini", text, &found).expect("the source can be read");
        accepts(&whole);
        let parts: Vec<(&str, &[u8])> = whole.parts.iter().map(|part| (&*part.name, part.toml.as_bytes())).collect();
        if !parts.is_empty() {
            parse(&parts, &|_| Some("1".to_owned())).unwrap_or_else(|findings| panic!("{findings}\n{:?}", whole.parts));
        }
    }
    true
}

/// The file is accepted, and has each note.
fn accepts(imported: &Imported) {
    let read = parse(&[("oribi.toml", imported.toml.as_bytes())], &|_| Some("1".to_owned()));
    read.unwrap_or_else(|findings| panic!("{findings}\n{}", imported.toml));
    for note in &imported.notes {
        assert!(imported.toml.contains(&format!("# - {note}")), "{note}\n{}", imported.toml);
        assert!(!note.to_string().contains(char::is_control), "{note:?}");
    }
}
