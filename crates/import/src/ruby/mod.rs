//! puma.rb and unicorn.rb: the calls that [`RECORDER`] has printed.

mod words;

use crate::address::{Address, V4, of_puma, of_server, of_v4_server};
use crate::draft::{App, Draft, Settings};
use crate::note::Key;
use crate::tree::Node;
use crate::unreadable::Unreadable;
use oribi_config::{Scope, setting_of};
use words::{To, find};

/// A script for Ruby that runs the file which its first argument names, and prints the calls in it as JSON, for
/// [`import`](crate::import). It exits with status 3, and a line of text with the number of the line of the file, if the file
/// raises an exception.
pub const RECORDER: &str = include_str!("recorder.rb");

/// The parts that are put together at the end.
struct Serving<'d> {
    unicorn: bool,
    app: App,
    hooks: Vec<String>,
    draft: &'d mut Draft,
}

/// Fills a draft.
///
/// # Errors
/// The text has no list of calls.
pub(crate) fn read(root: &Node, unicorn: bool, draft: &mut Draft) -> Result<(), Unreadable> {
    let Some(calls) = root.get("calls").filter(|calls| calls.is_list()) else {
        return Err(Unreadable::new("there are no calls: the file is read by Ruby first"));
    };
    let title = if unicorn { "Unicorn" } else { "Puma" };
    let app = App { file: "config.ru".to_owned(), key: Key::new("rackup"), ..App::default() };
    let mut serving = Serving { unicorn, app, hooks: Vec::new(), draft };
    for call in calls.values() {
        serving.call(call);
    }
    serving.finish(title);
    Ok(())
}

impl Serving<'_> {
    fn call(&mut self, call: &Node) {
        let name = call.get("name").and_then(Node::text).unwrap_or_default();
        let line = call.get("line").and_then(Node::number).and_then(|line| usize::try_from(line).ok());
        let key = Key { line, name: name.to_owned() };
        if let Some(block) = call.get("block") {
            block.skip();
        }
        let arguments = call.get("arguments").map_or(&[][..], Node::values);
        let to = find(name, self.unicorn);
        match to {
            Some(to) => self.word(to, arguments, &key),
            None => self.draft.lost(&key, "no word of the server, or not known"),
        }
        for (index, argument) in arguments.iter().enumerate() {
            if matches!(to, None | Some(To::Same(_) | To::Lost(_) | To::Hook | To::ServerIs(..))) {
                argument.skip();
            }
            argument.unread(&key.inside(&(index + 1).to_string()), &mut |key| {
                self.draft.lost(&key, "this part of the word has no counterpart, or is not known");
            });
        }
    }

    fn word(&mut self, to: To, arguments: &[Node], key: &Key) {
        let first = arguments.first();
        let text = first.and_then(Node::scalar).unwrap_or_default();
        let off = first.is_some_and(|first| first.boolean() == Some(false));
        match to {
            To::Server(_) | To::App(_) if text.is_empty() => self.draft.lost(key, "it has no value"),
            To::Server(option) => self.draft.server.set(option, text, key),
            To::App("workers") if text == "0" => self.app.options.set("workers", 1, key),
            To::App(option) => self.app.options.set(option, text, key),
            To::ServerIs(..) if off => self.draft.same(key, "it is off"),
            To::ServerIs(option, value) => self.draft.server.set(option, value, key),
            To::Same(reason) => self.draft.same(key, reason),
            To::Lost(_) if off => self.draft.same(key, "it is off"),
            To::Lost(reason) => self.draft.lost(key, reason),
            To::Hook => self.hooks.push(key.name.clone()),
            To::Listen => self.listen(&text, key),
            To::Port => {
                let host = arguments.get(1).and_then(Node::text).unwrap_or_default();
                self.listen(&format!("{host}:{text}"), key);
                if host.is_empty() {
                    self.draft.lost(key, of_puma(&text));
                }
            }
            To::UnicornListen => self.unicorn_listen(&text, arguments.get(1), key),
            To::SslBind => self.ssl_bind(&text, arguments, key),
            To::Threads => {
                let most = arguments.get(1).and_then(Node::scalar).unwrap_or_else(|| text.clone());
                let least = if text == "0" { "1".to_owned() } else { text };
                let threads = if least == most { most } else { format!("{least}:{most}") };
                self.app.options.set("threads", threads, key);
            }
            To::Environment => self.app.environment.push(("RACK_ENV".to_owned(), text)),
            To::Directory => self.app.directory = Some(text),
            To::Rackup => self.app.file = text,
            To::User => {
                self.app.options.set("user", text, key);
                if let Some(group) = arguments.get(1).and_then(Node::scalar) {
                    self.app.options.set("group", group, key);
                }
            }
            To::Timeout => self.app.options.set("request-timeout", text, key),
            To::Plugin if text == "tmp_restart" => self.app.options.set("restart-file", "tmp/restart.txt", key),
            To::Plugin => self.draft.lost(key, format!("the plugin {text} has no counterpart")),
            To::Redirect => {
                if let Some(path) = arguments.get(1).and_then(Node::text) {
                    self.draft.server.set("error-log", path, key);
                }
                if let Some(append) = arguments.get(2) {
                    append.skip();
                }
                self.draft.lost(key, "the app's standard output is that of the server");
            }
        }
    }

    fn listen(&mut self, text: &str, key: &Key) {
        match of_server(text) {
            Ok(address) => self.address(&address, key),
            Err(reason) => self.draft.lost(key, reason),
        }
    }

    fn address(&mut self, address: &Address, key: &Key) {
        for note in &address.notes {
            self.draft.lost(key, note.as_str());
        }
        self.draft.listen(address.text.clone(), key);
        for (option, value) in &address.options {
            self.option(&address.text, option, value, key);
        }
    }

    /// Sets an option that an address asks for.
    fn option(&mut self, address: &str, option: &'static str, value: &str, key: &Key) {
        let of_address = setting_of(option).is_some_and(|(setting, _)| setting.scope == Scope::Listener);
        let settings: &mut Settings =
            if of_address { &mut self.draft.listen(address, key).options } else { &mut self.draft.server };
        settings.set(option, value, key);
    }

    /// `listen ADDRESS, backlog: 64, tcp_nopush: true`.
    fn unicorn_listen(&mut self, text: &str, options: Option<&Node>, key: &Key) {
        let address = match of_v4_server(text) {
            Ok(address) => address,
            Err(reason) => return self.draft.lost(key, reason),
        };
        self.address(&address, key);
        for (name, value) in options.map_or(&[][..], Node::entries) {
            let inside = key.inside(name);
            let text = value.scalar().unwrap_or_default();
            match name.as_str() {
                "backlog" => self.draft.server.set("backlog", text, &inside),
                "reuseport" if text == "true" => self.draft.server.set("reuse-port", true, &inside),
                // Unicorn's is the umask of the socket.
                "umask" => match text.parse::<u32>() {
                    Ok(mask) => self.option(&address.text, "socket-mode", &format!("{:o}", 0o777 & !mask & 0o666), &inside),
                    Err(_) => self.draft.lost(&inside, "socket-mode of the address"),
                },
                "tcp_nodelay" | "tcp_nopush" | "tcp_defer_accept" | "tries" | "delay" | "rcvbuf" | "sndbuf"
                | "so_keepalive" | "reuseport" => {
                    self.draft.same(&inside, "Oribi does it, or has no need of it");
                }
                "ipv6only" => self.draft.lost(&inside, "an address such as [::]:80 has IPv4, too"),
                _ => self.draft.lost(&inside, "an option of the address without a counterpart"),
            }
        }
    }

    /// `ssl_bind HOST, PORT, { cert: FILE, key: FILE }`.
    fn ssl_bind(&mut self, host: &str, arguments: &[Node], key: &Key) {
        let port = arguments.get(1).and_then(Node::scalar).unwrap_or_default();
        let address = match of_server(&format!("{host}:{port}")) {
            Ok(address) => address.text,
            Err(reason) => return self.draft.lost(key, reason),
        };
        self.draft.listen(address.clone(), key);
        for (name, value) in arguments.get(2).map_or(&[][..], Node::entries) {
            let inside = key.inside(name);
            let text = value.scalar().unwrap_or_default();
            match name.as_str() {
                "cert" => self.option(&address, "ssl-cert", &text, &inside),
                "key" => self.option(&address, "ssl-key", &text, &inside),
                "ca" => self.option(&address, "ssl-ca", &text, &inside),
                "verify_mode" => {
                    let mode = match text.as_str() {
                        "none" | "0" => "none",
                        "peer" | "1" => "optional",
                        _ => "required",
                    };
                    self.option(&address, "ssl-verify-client", mode, &inside);
                }
                "no_tlsv1" | "no_tlsv1_1" => self.draft.same(&inside, "Oribi speaks TLS 1.2 and 1.3"),
                _ => self.draft.lost(&inside, "an option of TLS without a counterpart here: ssl-cert and ssl-key name files"),
            }
        }
        if !self.draft.listen(address.clone(), key).options.has("ssl-cert") {
            self.draft.lost(key, "connections here are encrypted: write ssl-cert and ssl-key");
            self.option(&address, "ssl-cert", "cert.pem", key);
        }
    }

    fn finish(mut self, title: &str) {
        if self.draft.listens.is_empty() {
            let key = Key::new(format!("default of {title}"));
            if self.unicorn {
                self.draft.listen(format!("{V4}:8080"), &key);
            } else {
                self.draft.listen(":9292", &key);
                self.draft.lost(&key, of_puma("9292"));
            }
        }
        self.app.options.otherwise("workers", 1, title);
        if self.unicorn {
            self.app.options.otherwise("request-timeout", 60, title);
        } else {
            self.app.options.otherwise("threads", "1:5", title);
        }
        if !self.hooks.is_empty() {
            let hooks = std::mem::take(&mut self.hooks).join(", ");
            let file = if self.unicorn { "config/unicorn.rb" } else { "config/puma.rb" };
            let text = format!(
                "Oribi reads {file} beside the app for its hooks, in which these stand: leave the file there, \
                 or write them into config/oribi.rb"
            );
            self.draft.lost(&Key::new(hooks), text);
        }
        if let Some(directory) = &self.app.directory
            && !self.app.file.starts_with('/')
        {
            self.app.file = format!("{}/{}", directory.trim_end_matches('/'), self.app.file);
        }
        if !self.app.file.ends_with(".ru") {
            self.app.language = Some("ruby");
        }
        self.app.name = self.draft.free_name("app");
        self.app.environment.reverse();
        let mut names: Vec<String> = Vec::new();
        self.app.environment.retain(|(name, _)| {
            let first = !names.contains(name);
            names.push(name.clone());
            first
        });
        self.draft.apps.push(self.app);
    }
}
