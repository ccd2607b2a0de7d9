//! The content of an app's configuration file. The file is written in the app's language, whose host reads it for this command.

use oribi_server::config::{Config, Origin, SettingError};
use std::path::PathBuf;

/// A configuration file that was read.
#[derive(Debug)]
pub struct Configuration {
    pub file: PathBuf,
    pub said: Vec<Said>,
}

/// One statement of a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// A setting, at a place such as `config/puma.rb:3`.
    Setting { name: String, value: String, place: String },
    /// A word that has no effect, with its place.
    Note(String),
}

impl Configuration {
    /// Adds the settings of the file to those of the command line and the environment. Returns notes for the user about words
    /// without effect and unknown settings.
    ///
    /// # Errors
    /// A value is invalid; the message contains the line of the value in the file.
    pub fn apply(&self, config: &mut Config) -> Result<Vec<String>, String> {
        let mut notes = Vec::new();
        for said in &self.said {
            match said {
                Said::Note(note) => notes.push(note.clone()),
                Said::Setting { name, value, place } => match config.set(name, value, Origin::File(place.clone())) {
                    Ok(()) => {}
                    Err(unknown @ SettingError::Unknown { .. }) => notes.push(format!("{place}: {unknown}")),
                    Err(bad) => return Err(format!("{place}: {bad}")),
                },
            }
        }
        Ok(notes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(name: &str, value: &str) -> Said {
        Said::Setting { name: name.to_owned(), value: value.to_owned(), place: format!("puma.rb:{}", name.len()) }
    }

    fn apply(said: Vec<Said>, config: &mut Config) -> Result<Vec<String>, String> {
        Configuration { file: PathBuf::from("puma.rb"), said }.apply(config)
    }

    #[test]
    fn a_flag_and_the_environment_win_over_the_file() {
        let mut config = Config::with(|name| (name == "WEB_CONCURRENCY").then(|| "3".to_owned()), 1);
        config.set("threads", "5", Origin::CommandLine).expect("fits");
        let said = vec![setting("workers", "9"), setting("threads", "9"), setting("max_requests", "9")];
        assert_eq!(apply(said, &mut config), Ok(vec![]));
        let settings = config.finish().expect("fits");
        assert_eq!((settings.workers, settings.max_requests), (3.into(), Some(9)));
        let resolved = config.resolve().expect("fits");
        let origin =
            |name: &str| resolved.explain().find(|(_, line)| line.name == name).map(|(_, line)| line.origin.to_string());
        assert_eq!(origin("threads").as_deref(), Some("command line"));
        assert_eq!(origin("max-requests").as_deref(), Some("puma.rb:12"));
    }

    #[test]
    fn what_is_unknown_is_a_note_and_what_does_not_fit_an_error() {
        let mut config = Config::with(|_| None, 1);
        let notes = apply(vec![Said::Note("puma.rb:1: no".to_owned()), setting("worker", "2")], &mut config);
        let unknown = "puma.rb:6: unknown setting `worker`; did you mean `workers`?";
        assert_eq!(notes, Ok(vec!["puma.rb:1: no".to_owned(), unknown.to_owned()]));
        let error = apply(vec![setting("backlog", "many")], &mut config).expect_err("does not fit");
        assert!(error.starts_with("puma.rb:7: bad value `many` for backlog"), "{error}");
    }
}
