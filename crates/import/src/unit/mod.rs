//! The configuration of NGINX Unit: JSON, as its control API takes and returns it.

mod actions;
mod apps;
mod listeners;
mod locations;
mod log_format;
mod matching;
mod networks;
mod patterns;
mod proxies;
mod routes;
mod settings;
mod types;

use crate::draft::Draft;
use crate::note::Key;
use crate::tree::Node;

/// The parts of a configuration that others refer to.
struct Unit<'n> {
    config: &'n Node,
    /// The names of the applications, with those of their apps in the draft if they were carried over.
    apps: Vec<(String, Option<String>)>,
    /// Whether files have the types of Unit.
    has_types: bool,
    draft: &'n mut Draft,
}

/// Fills a draft.
pub(crate) fn read(root: &Node, draft: &mut Draft) {
    let config = root.get("config").filter(|config| config.is_map()).unwrap_or(root);
    let mut unit = Unit { config, apps: Vec::new(), has_types: false, draft };
    unit.settings();
    unit.access_log();
    unit.applications();
    unit.listeners();
    unit.unused();
    root.unread(&Key::default(), &mut |key| {
        let known = ["certificates", "js_modules", "status"].contains(&key.name.as_str());
        let text = if known {
            "the state of Unit, which is not a part of its configuration"
        } else {
            "not known, or not of the expected type"
        };
        draft.lost(&key, text);
    });
}

impl Unit<'_> {
    fn settings(&mut self) {
        let config = self.config;
        if let Some(settings) = config.get("settings") {
            settings::read(settings, self.draft);
        }
    }

    fn access_log(&mut self) {
        let config = self.config;
        if let Some(log) = config.get("access_log") {
            settings::access_log(log, self.draft);
        }
    }

    fn applications(&mut self) {
        let config = self.config;
        let Some(applications) = config.get("applications") else { return };
        for (name, node) in applications.entries() {
            let key = Key::new("applications").inside(name);
            let own = apps::read(name, node, &key, self.draft);
            self.apps.push((name.clone(), own));
        }
    }

    /// Notes the sections to which no listener leads.
    fn unused(&mut self) {
        for name in ["upstreams", "routes"] {
            if let Some(node) = self.config.get(name) {
                node.unread(&Key::new(name), &mut |key| {
                    self.draft.lost(&key, "no listener passes requests to it, or not known");
                });
                node.skip();
            }
        }
    }

    /// The app of an application, or the reason why there is none.
    fn app(&self, name: &str) -> Result<String, String> {
        match self.apps.iter().find(|(known, _)| known == name) {
            Some((_, Some(app))) => Ok(app.clone()),
            Some((_, None)) => Err(format!("application {name} was not carried over")),
            None => Err(format!("there is no application {name}")),
        }
    }
}

/// A text with its escapes decoded, as Unit does for `pass` and for patterns of paths.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        let digit = |index: usize| behind.get(index).and_then(|byte| char::from(*byte).to_digit(16));
        match (byte, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push(u8::try_from(high * 16 + low).unwrap_or(b'?'));
                rest = &behind[2..];
            }
            _ => {
                bytes.push(byte);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
