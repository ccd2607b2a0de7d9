//! The row of the table about the control socket.

use super::super::setting::{Section, Setting};
use super::super::settings::ControlChoice;
use super::super::value::path;

pub(super) const CONTROL: Setting = Setting::server(
    "control",
    Section::Logs,
    "PATH",
    "The socket at which `oribi ctl` reaches the server: a path, off, or auto, which is a socket named after the process in \
     $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/oribi, /run/oribi (for root) or /tmp/oribi-UID",
)
.environment("ORIBI_CONTROL")
.default_words("auto; under plackup and rackup off")
.apply(|draft, text| choice(text).map(|choice| draft.settings.control = choice))
.show(|settings| show(&settings.control));

fn choice(text: &str) -> Result<ControlChoice, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "off" | "none" | "no" => Ok(ControlChoice::Off),
        "auto" | "on" | "yes" => Ok(ControlChoice::Auto),
        _ => path(text).map(ControlChoice::At).map_err(|why| format!("{why}, auto or off")),
    }
}

fn show(choice: &ControlChoice) -> String {
    match choice {
        ControlChoice::Off => "off".to_owned(),
        ControlChoice::Auto => "auto".to_owned(),
        ControlChoice::At(path) => path.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_and_the_words_are_told_apart() {
        for (text, shown) in
            [("off", "off"), ("NO", "off"), ("auto", "auto"), ("on", "auto"), ("./off", "./off"), ("/run/a", "/run/a")]
        {
            assert_eq!(choice(text).as_ref().map(show).as_deref(), Ok(shown), "{text}");
        }
        assert!(choice("").is_err());
    }
}
