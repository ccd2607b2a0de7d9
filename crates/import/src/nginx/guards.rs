//! Clients that are refused, by their addresses, passwords and methods.

use super::context::Context;
use super::location::{Location, Routes};
use super::syntax::Directive;
use super::{Nginx, access, key};
use crate::conditions::Match;
use crate::draft::Action;
use crate::note::Key;

impl Nginx<'_> {
    /// Writes the routes for clients that are refused. Returns whether they answer all requests.
    pub(super) fn guards(&mut self, conditions: &Match, context: &Context, routes: &mut Routes) -> bool {
        if let Some(login) = context.login.as_ref().filter(|_| context.passwords().is_none()) {
            let key = Key::at(login.line, &login.name);
            let text = match login.name.as_str() {
                "auth_request" => {
                    "auth = { app, path, fields } of a route asks an app: until you write it, these requests get a 403"
                }
                _ => "auth of a route takes a file of users: until you write it, these requests get a 403",
            };
            self.draft.lost(&key, text);
            self.push(routes, conditions.clone(), Action::status(403), key, context, true);
            return true;
        }
        let Some(first) = context.access.first() else { return false };
        let key = key(first);
        match access::refused(&context.access.iter().collect::<Vec<_>>()) {
            Ok(None) => {}
            Ok(Some(source)) => {
                let all = source.is_empty();
                let conditions = Match { source, ..conditions.clone() };
                self.push(routes, conditions, Action::status(403), key, context, true);
                return all;
            }
            Err(()) => {
                self.draft.lost(
                    &key,
                    "source of a route takes patterns and their exceptions, not a longer list of allow and \
                     deny: until you write it, these requests get a 403",
                );
                self.push(routes, conditions.clone(), Action::status(403), key, context, true);
                return true;
            }
        }
        false
    }

    /// `limit_except`: the rules for the methods that it does not name.
    pub(super) fn excepted(&mut self, except: &Directive, location: &Location<'_>, conditions: &Match, routes: &mut Routes) {
        let mut method: Vec<String> = except.words.iter().map(|name| format!("!{}", name.to_ascii_uppercase())).collect();
        if method.iter().any(|name| name == "!GET") && method.iter().all(|name| name != "!HEAD") {
            method.push("!HEAD".to_owned());
        }
        let conditions = Match { method, ..conditions.clone() };
        let context = location.context.inner(except.inside());
        for directive in except.inside().iter().filter(|directive| !Context::default().set(directive)) {
            self.draft.lost(&key(directive), "left out: routes for these methods have allow, deny and auth_basic");
        }
        if !self.guards(&conditions, &context, routes) {
            let route = self.acting(location, &conditions, &context, key(except));
            routes.push(route);
        }
    }
}
