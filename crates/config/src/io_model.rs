//! The choice of an I/O model.

use oribi_io::Model;
use std::iter;

/// The I/O model of the lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoModel {
    /// The best permitted model, according to measurements.
    #[default]
    Auto,
    /// This model.
    Chosen(Model),
}

impl IoModel {
    const AUTO: &str = "auto";

    /// The names of all choices, for messages and help: `auto, epoll, io_uring or libevent`.
    #[must_use]
    pub fn names() -> String {
        let names: Vec<&str> = iter::once(Self::AUTO).chain(Model::ALL.iter().map(|model| model.name())).collect();
        names.split_last().map_or_else(String::new, |(last, others)| format!("{} or {last}", others.join(", ")))
    }

    /// The model that lanes with connections use.
    #[must_use]
    pub fn model(self) -> Model {
        match self {
            // See docs/io-models.md: io_uring mostly costs as much as epoll at full load, and more than epoll at half load. The
            // load is not known in advance.
            Self::Auto => Model::Epoll,
            Self::Chosen(model) => model,
        }
    }

    /// Parses a choice.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let name = text.trim().to_ascii_lowercase();
        if name == Self::AUTO {
            return Ok(Self::Auto);
        }
        Model::named(&name).map(Self::Chosen).ok_or_else(|| format!("expected {}", Self::names()))
    }

    /// Formats the choice so that [`IoModel::parse`] can parse it.
    pub(crate) fn show(self) -> String {
        match self {
            Self::Auto => Self::AUTO,
            Self::Chosen(model) => model.name(),
        }
        .to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_is_parsed_as_it_is_shown_and_in_its_other_spellings() {
        for choice in Model::ALL.iter().map(|&model| IoModel::Chosen(model)).chain([IoModel::Auto]) {
            assert_eq!(IoModel::parse(&choice.show()), Ok(choice));
        }
        for text in [" IO_uring", "io-uring ", "URING"] {
            assert_eq!(IoModel::parse(text), Ok(IoModel::Chosen(Model::Uring)));
        }
        for text in ["", "kqueue", "epoll2"] {
            assert_eq!(IoModel::parse(text), Err("expected auto, epoll, io_uring or libevent".to_owned()));
        }
    }
}
