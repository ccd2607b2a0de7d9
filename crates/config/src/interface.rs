//! The interface between the server and an app, where a language has several.

/// The interface that an app has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interface {
    /// The one that the name of the app's file stands for: `.pagi` is PAGI.
    #[default]
    Auto,
    /// PSGI, for Perl.
    Psgi,
    /// PAGI, for Perl.
    Pagi,
}

impl Interface {
    const ALL: [Self; 3] = [Self::Auto, Self::Psgi, Self::Pagi];

    /// The name for `--interface`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Psgi => "psgi",
            Self::Pagi => "pagi",
        }
    }

    /// Parses a name.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let name = text.trim().to_ascii_lowercase();
        let found = Self::ALL.into_iter().find(|interface| interface.name() == name);
        found.ok_or_else(|| "expected auto, psgi or pagi".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_interface_is_parsed_as_it_is_shown() {
        for interface in Interface::ALL {
            assert_eq!(Interface::parse(interface.name()), Ok(interface));
        }
        assert_eq!(Interface::parse(" PAGI "), Ok(Interface::Pagi));
        assert!(Interface::parse("wsgi").is_err_and(|expected| expected.contains("pagi")));
    }
}
