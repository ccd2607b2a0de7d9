//! The setting whether edges run in a sandbox.

use super::sandbox_choice::SandboxChoice;
use super::value::boolean;
use oribi_io::process::sandbox::Offer;

/// Parses `off`, `try` or `on`.
///
/// # Errors
/// The text is not one of these.
pub fn sandbox_choice(text: &str) -> Result<SandboxChoice, String> {
    if text.trim().eq_ignore_ascii_case("try") {
        return Ok(SandboxChoice::Try);
    }
    match boolean(text) {
        Ok(true) => Ok(SandboxChoice::On),
        Ok(false) => Ok(SandboxChoice::Off),
        Err(_) => Err("expected off, try or on".to_owned()),
    }
}

/// Formats the value so that [`sandbox_choice`] can parse it.
pub(super) fn show_sandbox(choice: SandboxChoice) -> String {
    match choice {
        SandboxChoice::Off => "off",
        SandboxChoice::Try => "try",
        SandboxChoice::On => "on",
    }
    .to_owned()
}

/// The text of `oribi check` about a choice, for a server with edges; `None` without a sandbox.
pub(super) fn describe(choice: SandboxChoice, offer: &Offer) -> Option<String> {
    let why = show_sandbox(choice);
    match (choice, offer.missing()) {
        (SandboxChoice::Off, _) => None,
        (_, None) => Some(format!("{offer} (--edge-sandbox {why})")),
        (SandboxChoice::Try, Some(missing)) => Some(format!("{offer} (--edge-sandbox {why}: {missing})")),
        (SandboxChoice::On, Some(missing)) => {
            Some(format!("impossible: {missing} (--edge-sandbox {why}: nothing would be served)"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_read_as_they_are_shown() {
        for choice in [SandboxChoice::Off, SandboxChoice::Try, SandboxChoice::On] {
            assert_eq!(sandbox_choice(&show_sandbox(choice)), Ok(choice));
        }
        assert_eq!(sandbox_choice(" Yes "), Ok(SandboxChoice::On));
        assert_eq!(sandbox_choice("perhaps"), Err("expected off, try or on".to_owned()));
    }
}
