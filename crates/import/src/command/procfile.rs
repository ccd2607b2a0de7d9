//! Procfile: a command for each type of process.

use crate::draft::Draft;
use crate::note::Key;
use crate::unreadable::Unreadable;

/// Reads a Procfile.
///
/// # Errors
/// It has no process `web`, or that starts no known server.
pub(crate) fn procfile(text: &str, draft: &mut Draft) -> Result<(), Unreadable> {
    let mut web = false;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        let Some((name, command)) = process(trimmed) else {
            draft.lost(&Key::at(number, "line"), "no process: expected NAME: COMMAND");
            continue;
        };
        if name == "web" && !web {
            web = true;
            super::line(command, Some(number), draft).map_err(|error| Unreadable {
                line: Some(number),
                column: None,
                ..error
            })?;
        } else {
            let text = "a process beside the server: a unit of systemd, or the tool that reads the Procfile, starts it";
            draft.lost(&Key::at(number, name), text);
        }
    }
    draft.title = "Made by oribi import from a Procfile.".to_owned();
    if web { Ok(()) } else { Err(Unreadable::new("the Procfile has no process `web`")) }
}

fn process(line: &str) -> Option<(&str, &str)> {
    let (name, command) = line.split_once(':')?;
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    (!name.is_empty() && name.bytes().all(fits) && command.starts_with([' ', '\t'])).then(|| (name, command.trim()))
}

/// Whether a text is a Procfile: each line has a name and a command.
pub(crate) fn is_procfile(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).peekable();
    lines.peek().is_some() && lines.clone().all(|line| process(line).is_some()) && lines.any(|line| line.starts_with("web:"))
}
