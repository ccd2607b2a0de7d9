//! `default_type`: the media type of files whose names say none, and of texts that `return` sends.

use super::context::Context;
use super::syntax::Directive;
use super::{Nginx, key};
use crate::conditions::Match;

/// The type of such files without an option.
const UNKNOWN: &str = "application/octet-stream";

impl Nginx<'_> {
    /// The type of a text that `return` sends: that of the ending of the path, or `default_type`. `None`: plain text.
    pub(super) fn type_of_text(&mut self, conditions: &Match, context: &Context) -> Option<String> {
        let default = context.default_type.as_ref().filter(|directive| !directive.word(0).is_empty());
        if let Some(directive) = default {
            self.use_type(directive);
        }
        if let [path] = conditions.path.as_slice()
            && path.starts_with('/')
            && !path.contains('*')
            && let Some(ending) = ending(path)
        {
            return Some(ending).filter(|media_type| !media_type.starts_with("text/plain"));
        }
        default.map(|directive| directive.word(0).to_owned())
    }

    /// Sets the type of files whose names say none, if all routes with files have the same.
    pub(super) fn type_of_files(&mut self) {
        let all = std::mem::take(&mut self.types_of_files);
        let word = |directive: &Option<Directive>| directive.as_ref().map(|directive| directive.word(0).to_owned());
        let alike = all.iter().all(|directive| word(directive) == word(&all[0]));
        let mut same = None;
        for directive in all.iter().flatten() {
            self.use_type(directive);
            let (key, wanted) = (key(directive), directive.word(0));
            if wanted == UNKNOWN {
                self.draft.same(&key, "the default of Oribi");
            } else if alike && !wanted.is_empty() {
                same = Some((format!("*={wanted}"), key));
            } else {
                let wanted = if wanted.is_empty() { "TYPE" } else { wanted };
                let text = format!(
                    "files whose names say no type are {UNKNOWN} on all routes: in [server], media-type = \"*={wanted}\" sets \
                     another type for all of them, \".ENDING={wanted}\" for an ending"
                );
                self.draft.lost(&key, text);
            }
        }
        if let Some((value, key)) = same {
            self.draft.server.set("media-type", value, &key);
        }
    }

    fn use_type(&mut self, directive: &Directive) {
        self.used.insert((directive.line, directive.name.clone(), directive.words.clone()));
    }

    /// Notes each `default_type` that no file and no text needs.
    pub(super) fn unused_types(&mut self, directives: &[Directive]) {
        for directive in directives {
            let id = (directive.line, directive.name.clone(), directive.words.clone());
            if directive.name == "default_type" && !self.used.contains(&id) {
                self.draft.same(&key(directive), "no route with files or a text needs it");
            }
            self.unused_types(directive.inside());
        }
    }
}

/// The media type that the ending of a path says.
fn ending(path: &str) -> Option<String> {
    let known = oribi_config::Settings::default().files.options.media_types.of(path.as_bytes()).into_owned();
    (known != UNKNOWN).then_some(known)
}
