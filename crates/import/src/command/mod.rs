//! Command lines of servers: environment assignments, programs in front, the server, its flags and its app.

mod flags;
mod front;
mod passengerfile;
mod procfile;
mod serve;
mod servers;

pub(crate) use passengerfile::passengerfile;
pub(crate) use procfile::{is_procfile, procfile};

use crate::draft::Draft;
use crate::note::Key;
use crate::shell::{Piece, split};
use crate::unreadable::Unreadable;
use front::Front;

/// Reads a command line as a shell has it.
///
/// # Errors
/// It is no command line of a known server.
pub(crate) fn line(text: &str, line: Option<usize>, draft: &mut Draft) -> Result<(), Unreadable> {
    let pieces = split(text)?;
    let key = Key { line, name: "command".to_owned() };
    let mut commands: Vec<(String, Vec<String>)> = vec![(String::new(), Vec::new())];
    for piece in pieces {
        match piece {
            Piece::Word(word) => commands.last_mut().into_iter().for_each(|(_, words)| words.push(word.clone())),
            Piece::Operator(operator) => commands.push((operator, Vec::new())),
        }
    }
    let mut front = Front::default();
    let mut found = false;
    let mut first_error = None;
    for (operator, words) in commands {
        if words.is_empty() {
            continue;
        }
        if operator == ">&" {
            draft.same(&key, "messages are in the error log");
            continue;
        }
        if operator.starts_with(['|', '<', '>']) && operator != "||" {
            let text = format!("`{operator} {}`: access-log and error-log in [server] name files", words[0]);
            draft.lost(&key, text);
            continue;
        }
        match words.as_slice() {
            [export, rest @ ..] if export == "export" => {
                for word in front.export(rest) {
                    draft.same(&key, format!("export {word}: apps get the variables of the server"));
                }
            }
            words if front::are_assignments(words) => drop(front.export(words)),
            [set, ..] if set == "set" => draft.same(&key, "a setting of the shell"),
            [cd, directory] if cd == "cd" => front.directory = Some(directory.clone()),
            _ if found => draft.lost(&key, format!("only one command is read, and not `{}`", words[0])),
            _ => match words_of(words.clone(), front.clone(), line, draft) {
                Ok(()) => found = true,
                Err(error) => {
                    draft.lost(&key, format!("not read: `{}`", words[0]));
                    first_error = first_error.or(Some(error));
                }
            },
        }
    }
    match first_error {
        _ if found => Ok(()),
        Some(error) => Err(error),
        None => Err(Unreadable::new("the command line is empty")),
    }
}

/// Reads the words of one command.
///
/// # Errors
/// It is no command of a known server.
pub(crate) fn words(words: &[String], draft: &mut Draft) -> Result<(), Unreadable> {
    words_of(words.to_vec(), Front::default(), None, draft)
}

fn words_of(mut words: Vec<String>, mut front: Front, line: Option<usize>, draft: &mut Draft) -> Result<(), Unreadable> {
    front.read(&mut words, line, draft);
    let Some(program) = words.first().cloned() else {
        return Err(Unreadable::new("there is no command behind the environment"));
    };
    let name = program.rsplit('/').next().unwrap_or_default().trim_end_matches(".pl").to_ascii_lowercase();
    if name.starts_with("uwsgi") {
        let arguments: Vec<String> = words.into_iter().skip(1).collect();
        return crate::uwsgi::command(&arguments, &front.environment, front.directory.as_deref(), draft);
    }
    match front.server(&name, words) {
        Some((server, rest)) => {
            serve::serve(server, &rest, &front, line, draft);
            Ok(())
        }
        None => Err(Unreadable::new(format!(
            "`{program}` is no known server: known are starman, plackup, starlet, hypnotoad, twiggy, puma, unicorn, rackup, \
                 thin, rails, passenger and uwsgi"
        ))),
    }
}
