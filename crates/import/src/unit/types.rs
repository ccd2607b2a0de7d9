//! The media types of Unit, as far as Oribi has others for the same files.

use super::Unit;
use crate::draft::Value;
use crate::note::Key;

/// Endings with the types that Unit gives them.
const TYPES: &[(&str, &str)] = &[
    (".js", "application/javascript"),
    (".mjs", "application/javascript"),
    (".xml", "application/xml"),
    (".rst", "text/x-rst"),
    (".woff", "font/woff"),
    (".otf", "font/otf"),
    (".mid", "audio/midi"),
    (".midi", "audio/midi"),
    (".dll", "application/octet-stream"),
    (".rpm", "application/octet-stream"),
];

impl Unit<'_> {
    /// Gives files the types of Unit, because the patterns of a `share` are about these.
    pub(super) fn types_of_unit(&mut self, key: &Key) {
        if std::mem::replace(&mut self.has_types, true) {
            return;
        }
        let set = self.draft.server.list.iter().find(|setting| setting.name == "media-type");
        let own: Vec<String> = match set.map(|setting| setting.value.clone()) {
            Some(Value::List(list)) => list,
            Some(Value::Text(text)) => vec![text],
            _ => Vec::new(),
        };
        for (ending, media_type) in TYPES {
            // Those that the configuration sets are there already.
            let is_set = own.iter().filter_map(|text| text.split_once('=')).any(|(name, _)| name.eq_ignore_ascii_case(ending));
            if !is_set {
                self.draft.server.set("media-type", format!("{ending}={media_type}"), key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_types_that_differ_are_set() {
        let types = oribi_config::Settings::default().files.options.media_types;
        for (ending, media_type) in TYPES {
            let own = types.of(format!("a{ending}").as_bytes());
            assert_ne!(own.split(';').next(), Some(*media_type), "{ending}");
        }
    }
}
