//! Directives that are filters of routes: fields, compression, error pages.

use super::context::{CODINGS, Context, PASSED, RESPONSES, is_filter};
use super::syntax::Directive;
use super::{Nginx, key};
use crate::filters::{Auth, Changes, Compress, Filters};
use oribi_filter::MediaRange;

/// Fields that the proxy of Oribi writes or passes on itself.
const OWN: &[&str] = &[
    "host",
    "x-real-ip",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "x-forwarded-port",
    "forwarded",
    "via",
    "upgrade",
    "connection",
];

impl Nginx<'_> {
    /// The filters of a route. `passed` is the context of the requests that are passed on, and `limited` false for routes that
    /// nginx takes before it looks at limits.
    pub(super) fn filters(&mut self, context: &Context, passed: Option<&Context>, limited: bool) -> Filters {
        let mut filters = Filters { compress: self.compression(context), ..Filters::default() };
        if limited {
            filters.limits = self.limits(context);
            filters.auth = self.login(context).ok().flatten();
        }
        for directive in context.filters.iter().filter(|directive| RESPONSES.contains(&&*directive.name)) {
            self.used(directive);
            match directive.name.as_str() {
                "add_header" => self.add_header(directive, &mut filters),
                "expires" => self.expires(directive, &mut filters.unless_error),
                "error_page" => self.error_page(directive, context, &mut filters),
                name => self.headers(directive, name == "more_set_headers", &mut filters.response_fields),
            }
        }
        let mut used = Vec::new();
        let is_passed = passed.is_some();
        let passed = passed.map_or(&[][..], |context| &context.filters);
        let sets = |directive: &&Directive, name: &str| {
            directive.name == "proxy_set_header" && directive.word(0).eq_ignore_ascii_case(name)
        };
        // The fields that the server itself writes, about the user.
        let mut own: Vec<String> = Vec::new();
        match &mut filters.auth {
            Some(Auth::Passwords { keep, field, .. }) => {
                // nginx passes the password on, unless the field has another value.
                *keep = is_passed && !passed.iter().any(|directive| sets(&directive, "Authorization"));
                let user = passed.iter().find(|directive| directive.name == "proxy_set_header" && is_user(directive.word(1)));
                user.iter().for_each(|directive| used.push((*directive).clone()));
                *field = user.map(|directive| directive.word(0).to_owned()).filter(|name| is_free(name));
                own.extend(field.clone());
            }
            Some(Auth::Ask { fields, .. }) => {
                for directive in passed.iter().filter(|directive| directive.name == "proxy_set_header") {
                    let name = directive.word(0);
                    if is_free(name) && answered(name, directive.word(1), passed) {
                        used.push(directive.clone());
                        fields.push(name.to_owned());
                        own.push(name.to_owned());
                    }
                }
            }
            None => {}
        }
        used.iter().for_each(|directive| self.used(directive));
        let passed_on = passed;
        let passed = passed.iter().filter(|directive| !own.iter().any(|field| sets(directive, field)));
        for directive in passed.filter(|directive| PASSED.contains(&&*directive.name)) {
            match directive.name.as_str() {
                "more_set_input_headers" | "more_clear_input_headers" => {
                    self.headers(directive, directive.name == "more_set_input_headers", &mut filters.request_fields);
                }
                "proxy_hide_header" | "fastcgi_hide_header" | "uwsgi_hide_header" => {
                    let removed = filters.response_fields.remove(directive.word(0));
                    self.check(directive, directive.word(0), removed);
                }
                "proxy_read_timeout" => continue,
                "auth_request_set" => self.captured(directive, passed_on, &own),
                _ => self.request_field(directive, &mut filters.request_fields),
            }
            self.used(directive);
        }
        filters
    }

    /// `auth_request_set`: a field of the answer of an app that was asked.
    fn captured(&mut self, directive: &Directive, passed: &[Directive], own: &[String]) {
        let is_own = |other: &Directive| {
            other.name == "proxy_set_header"
                && is_variable(other.word(1), directive.word(0))
                && own.iter().any(|field| field.eq_ignore_ascii_case(other.word(0)))
        };
        if !passed.iter().any(is_own) {
            let text = "fields of auth carry fields of the answer to the app under their own names";
            self.draft.lost(&key(directive), text);
        }
    }

    /// Notes that a directive was read.
    pub(super) fn used(&mut self, directive: &Directive) {
        self.used.insert((directive.line, directive.name.clone(), directive.words.clone()));
    }

    /// Notes the filters that no route has.
    pub(super) fn unused_filters(&mut self, directives: &[Directive]) {
        for directive in directives {
            let id = (directive.line, directive.name.clone(), directive.words.clone());
            if is_filter(&directive.name) && !self.used.contains(&id) {
                let key = key(directive);
                if directive.word(0) == "off" {
                    self.draft.same(&key, "it is off");
                } else if PASSED.contains(&&*directive.name) {
                    self.draft.lost(&key, "no app gets requests here");
                } else {
                    self.draft.lost(&key, "no route has it: write it as a filter of a route");
                }
            }
            self.unused_filters(directive.inside());
        }
    }

    fn check(&mut self, directive: &Directive, name: &str, changed: Result<(), &'static str>) {
        if let Err(reason) = changed {
            self.draft.lost(&key(directive), format!("the field {name}: {reason}"));
        }
    }

    fn add_header(&mut self, directive: &Directive, filters: &mut Filters) {
        let key = key(directive);
        let (name, value) = (directive.word(0), directive.word(1));
        if value.is_empty() {
            return self.draft.same(&key, "a field without a value is not sent");
        }
        if name.eq_ignore_ascii_case("Strict-Transport-Security") {
            return self.draft.server.set("hsts", value, &key);
        }
        if value.contains('$') {
            return self.draft.lost(&key, format!("response-fields have no variables: the app sends {name}"));
        }
        let always = directive.word(2) == "always";
        let changes = if always { &mut filters.response_fields } else { &mut filters.unless_error };
        let added = changes.add(name, value);
        self.check(directive, name, added);
    }

    fn expires(&mut self, directive: &Directive, changes: &mut Changes) {
        let key = key(directive);
        let word = directive.word(0);
        let value = match word {
            "off" => return,
            "max" => Some("max-age=315360000".to_owned()),
            "epoch" => Some("no-cache".to_owned()),
            word if word.starts_with('-') => Some("no-cache".to_owned()),
            word => seconds(word).map(|seconds| format!("max-age={seconds}")),
        };
        let Some(value) = value.filter(|_| directive.words.len() == 1) else {
            let text = "Cache-Control in response-fields has a fixed time, such as max-age=3600";
            return self.draft.lost(&key, text);
        };
        let set = changes.set("Cache-Control", &value);
        self.check(directive, "Cache-Control", set);
        self.draft.same(&key, "Cache-Control says it; Expires is for HTTP/1.0");
    }

    fn error_page(&mut self, directive: &Directive, context: &Context, filters: &mut Filters) {
        let key = key(directive);
        let Some((target, statuses)) = directive.words.split_last() else { return };
        let root = context.page(target).and_then(|page| page.root.as_ref());
        let Some(root) = root.filter(|root| target.starts_with('/') && !target.contains(['?', '$']) && !root.contains('$'))
        else {
            let text = "error-pages name a file, whose path is not known here: other URLs, apps and locations are none";
            return self.draft.lost(&key, text);
        };
        for word in statuses {
            match word.parse() {
                Ok(status) if (400..=599).contains(&status) => {
                    if filters.error_pages.iter().all(|(known, _)| *known != status) {
                        filters.error_pages.push((status, format!("{}{target}", root.trim_end_matches('/'))));
                    }
                }
                _ => {
                    self.draft.lost(&key, format!("error-pages are for statuses from 400 to 599, without another one: {word}"));
                }
            }
        }
    }

    /// `more_set_headers` and its relatives: `'Name: value' ...`.
    fn headers(&mut self, directive: &Directive, sets: bool, changes: &mut Changes) {
        for word in &directive.words {
            if word.starts_with('-') || word.contains(['$', '*']) {
                let text = "response-fields and request-fields have names, without variables, patterns and conditions";
                return self.draft.lost(&key(directive), text);
            }
        }
        for word in &directive.words {
            let (name, value) = word.split_once(':').unwrap_or((word, ""));
            let (name, value) = (name.trim(), value.trim());
            let changed = if sets && !value.is_empty() { changes.set(name, value) } else { changes.remove(name) };
            self.check(directive, name, changed);
        }
    }

    /// `proxy_set_header`, and `fastcgi_param` with a field.
    fn request_field(&mut self, directive: &Directive, changes: &mut Changes) {
        let key = key(directive);
        let value = directive.word(1);
        let name = if directive.name == "proxy_set_header" {
            directive.word(0).to_owned()
        } else {
            match directive.word(0).strip_prefix("HTTP_") {
                Some(name) => name.replace('_', "-"),
                None => return self.draft.same(&key, "an app in Oribi has the variables of its language without them"),
            }
        };
        let own = OWN.contains(&&*name.to_ascii_lowercase());
        if own && (value.contains('$') || name.eq_ignore_ascii_case("connection")) {
            return self.draft.same(&key, "the proxy passes this field on, or writes it");
        }
        let as_sent = value.trim_start_matches('$').trim_matches(['{', '}']).strip_prefix("http_");
        if value.starts_with('$') && as_sent.is_some_and(|field| field == name.to_ascii_lowercase().replace('-', "_")) {
            return self.draft.same(&key, "the field is passed on as the client has sent it");
        }
        if value.contains('$') {
            // A client could send the field in place of nginx.
            let removed = if name.contains('_') { Ok(()) } else { changes.remove(&name) };
            self.check(directive, &name, removed);
            return self.draft.lost(&key, format!("request-fields have no variables: the app has to do without {name}"));
        }
        if name.contains('_') && !value.is_empty() {
            return self.draft.lost(&key, format!("the field {name}: write `-` for `_`"));
        }
        let changed = if value.is_empty() { changes.remove(&name) } else { changes.set(&name, value) };
        self.check(directive, &name, changed);
    }

    fn compression(&mut self, context: &Context) -> Option<Compress> {
        let find = |name: &str| context.filters.iter().find(|directive| directive.name == name);
        let mut compress = Compress::default();
        let mut on = None;
        for (switch, coding) in CODINGS {
            let all = [(*switch).to_owned(), format!("{switch}_types"), format!("{switch}_min_length")].map(|name| find(&name));
            all.iter().flatten().for_each(|directive| self.used(directive));
            let [directive, types, min_size] = all;
            let Some(directive) = directive.filter(|directive| directive.word(0) == "on") else { continue };
            on.get_or_insert(directive);
            compress.codings.push((*coding).to_owned());
            for (types, word) in types.iter().flat_map(|types| types.words.iter().map(move |word| (types, word))) {
                if word != "*" && MediaRange::parse(word).is_err() {
                    self.draft.lost(&key(types), format!("left out: {word} is no media type without parameters"));
                } else if !compress.types.contains(word) {
                    compress.types.push(word.clone());
                }
            }
            compress.min_size = compress.min_size.or(min_size.map(|directive| directive.word(0).to_owned()));
        }
        let on = on?;
        if compress.types.iter().any(|word| word == "*") {
            compress.types.clear();
            self.draft.lost(&key(on), "types of compress: without them, those that Oribi compresses by default, not all");
        } else if !compress.types.iter().any(|word| word == "text/html") {
            compress.types.insert(0, "text/html".to_owned());
        }
        let text = "responses to requests with Cookie or Authorization, and those with Set-Cookie, are compressed with \
             private = true only";
        self.draft.lost(&key(on), text);
        Some(compress)
    }
}

/// Whether a value is the user whose password was right.
fn is_user(value: &str) -> bool {
    matches!(value, "$remote_user" | "${remote_user}")
}

/// Whether a value is a variable.
fn is_variable(value: &str, variable: &str) -> bool {
    let name = |text: &str| text.trim_start_matches('$').trim_matches(['{', '}']).to_owned();
    value.starts_with('$') && name(value) == name(variable)
}

/// Whether the value of a field is that of the same field in the answer of an app that was asked.
fn answered(name: &str, value: &str, directives: &[Directive]) -> bool {
    let same = |variable: &str| {
        let field = variable.trim_start_matches('$').trim_matches(['{', '}']).strip_prefix("upstream_http_");
        field.is_some_and(|field| field.eq_ignore_ascii_case(&name.replace('-', "_")))
    };
    let captures = |directive: &&Directive| directive.name == "auth_request_set" && is_variable(value, directive.word(0));
    directives.iter().filter(captures).any(|directive| same(directive.word(1)))
}

/// Whether the field of the user may have a name.
fn is_free(name: &str) -> bool {
    !name.contains('_')
        && !name.eq_ignore_ascii_case("Authorization")
        && oribi_filter::FieldChanges::default().remove(name).is_ok()
}

/// The seconds of a time such as `30d` or `1h30m`.
fn seconds(text: &str) -> Option<u64> {
    let mut total = 0_u64;
    let mut digits = String::new();
    for letter in text.chars() {
        let unit = match letter {
            '0'..='9' => {
                digits.push(letter);
                continue;
            }
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            'w' => 7 * 86_400,
            'M' => 30 * 86_400,
            'y' => 365 * 86_400,
            _ => return None,
        };
        total = total.checked_add(digits.parse::<u64>().ok()?.checked_mul(unit)?)?;
        digits.clear();
    }
    if digits.is_empty() { (!text.is_empty()).then_some(total) } else { total.checked_add(digits.parse().ok()?) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_no_media_type_leaves_the_others() {
        let mut draft = crate::draft::Draft::default();
        let text = "server { gzip on; gzip_types text/css text/a/b application/json; root /a; }";
        super::super::read("nginx.conf", text, &mut draft).expect("it can be read");
        let compress = draft.routes[0].filters.compress.as_ref().expect("responses are compressed");
        assert_eq!(compress.types, ["text/html", "text/css", "application/json"]);
        let noted = draft.notes.iter().any(|note| note.key == "gzip_types" && note.text.contains("text/a/b"));
        assert!(noted, "{:?}", draft.notes);
    }

    #[test]
    fn times_have_units() {
        for (text, expected) in
            [("30d", Some(2_592_000)), ("1h30m", Some(5400)), ("20", Some(20)), ("", None), ("d", None), ("@15h", None)]
        {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }
}
