//! The plan that `oribi check` prints: the content, the settings, and the origin of each value.

use super::counted::counted;
use super::origin::Origin;
use super::resolve::Resolved;
use super::sandbox::describe;
use super::settings::{EdgeChoice, ListenAddress, Protocol, Settings, SocketAddress};
use oribi_io::process::sandbox::Offer;
use std::fmt;

/// The plan of a server. Its `Display` is a text of several lines for users.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// The app: its path or another name.
    pub app: String,
    /// The language, and the program that runs it.
    pub language: String,
    /// The part of a server that it is of.
    pub part: PlanPart,
    /// The settings with their origins.
    pub resolved: &'a Resolved,
}

/// The part of a server that a plan is of.
#[derive(Clone, Debug)]
pub enum PlanPart {
    /// All of it, with its only app.
    Whole,
    /// All of it but its apps, of which each has a line.
    Server(Vec<String>),
    /// One of its apps.
    App,
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = &self.resolved.settings;
        if let PlanPart::Server(apps) = &self.part {
            writeln!(formatter, "file       {}", self.app)?;
            for (index, app) in apps.iter().enumerate() {
                let label = if index == 0 { "apps" } else { "" };
                writeln!(formatter, "{label:<10} {app}")?;
            }
        } else {
            writeln!(formatter, "app        {}", self.app)?;
            writeln!(formatter, "language   {}", self.language)?;
        }
        for (index, address) in settings.listen.iter().enumerate() {
            let label = if index == 0 { "listeners" } else { "" };
            writeln!(formatter, "{label:<10} {}", spelled(address, settings))?;
        }
        let certificates = settings.look_at_certificates().unwrap_or_else(|why| vec![why]);
        for (index, line) in certificates.iter().enumerate() {
            let label = if index == 0 { "tls" } else { "" };
            writeln!(formatter, "{label:<10} {line}")?;
        }
        if !matches!(self.part, PlanPart::Server(_)) {
            writeln!(formatter, "processes  {}", settings.processes_in_words())?;
        }
        writeln!(formatter, "edges      {}", edges(self.resolved))?;
        if settings.edges_wanted() > 0
            && let Some(sandbox) = describe(settings.edge_sandbox, &Offer::of_kernel())
        {
            writeln!(formatter, "sandbox    {sandbox}")?;
        }
        self.write_table(formatter)
    }
}

impl<'a> Plan<'a> {
    /// The plan of a server with one app.
    #[must_use]
    pub const fn new(app: String, language: String, resolved: &'a Resolved) -> Self {
        Self { app, language, part: PlanPart::Whole, resolved }
    }
}

impl Plan<'_> {
    fn write_table(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines: Vec<(Option<&str>, &str, String, &Origin)> = Vec::new();
        let mut section = None;
        for (setting, explained) in self.resolved.explain() {
            let heading = (section != Some(setting.section)).then(|| setting.section.title());
            section = Some(setting.section);
            let nothing = setting.default_words.unwrap_or("none");
            let value = if explained.value.is_empty() { format!("({nothing})") } else { explained.value };
            lines.push((heading, setting.name, value, explained.origin));
        }
        let width_of_names = lines.iter().map(|line| line.1.len()).max().unwrap_or(0);
        // One long path must not push the origins of all other values off the screen.
        let width_of_values = lines.iter().map(|line| line.2.chars().count()).filter(|&width| width <= 32).max().unwrap_or(0);
        for (heading, name, value, origin) in lines {
            if let Some(heading) = heading {
                writeln!(formatter, "\n{heading}:")?;
            }
            writeln!(formatter, "  {name:<width_of_names$}  {value:<width_of_values$}  {origin}")?;
        }
        Ok(())
    }
}

impl Settings {
    /// The workers and their threads, in words.
    #[must_use]
    pub fn processes_in_words(&self) -> String {
        format!("{} x {}", self.workers.in_words(), counted(self.threads, "thread"))
    }
}

/// The processes that own the connections, and the reason for that.
fn edges(resolved: &Resolved) -> String {
    let why = match (resolved.why_edges, resolved.settings.edge) {
        (Some(reason), _) => format!("--edge auto: {reason}"),
        (None, EdgeChoice::On) => "--edge on".to_owned(),
        (None, EdgeChoice::Off) => "--edge off".to_owned(),
        (None, EdgeChoice::Auto) => "--edge auto".to_owned(),
    };
    match resolved.settings.edges_wanted() {
        0 => format!("none, each worker has its own connections ({why})"),
        number => format!("{number}, with all connections; workers take requests from their queue ({why})"),
    }
}

fn spelled(address: &ListenAddress, settings: &Settings) -> String {
    let protocol = address.protocol.unwrap_or(settings.protocol);
    if settings.offer_of(address).is_some()
        && let SocketAddress::Tcp { host, port } = &address.socket
    {
        // The certificates follow in other lines.
        return ListenAddress::tcp(host, *port).encrypted(Vec::new()).to_string();
    }
    match &address.socket {
        SocketAddress::Tcp { host, .. } => {
            let everywhere = if host.is_empty() { " (all interfaces)" } else { "" };
            format!("{}{everywhere}", address.clone().speaking(protocol))
        }
        SocketAddress::Unix { path, mode } => {
            let scheme = if protocol == Protocol::FastCgi { "fcgi+unix" } else { "unix" };
            let mode = mode.map_or_else(String::new, |mode| format!(" (mode {mode:03o})"));
            format!("{scheme}:{}{mode}", path.display())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Served, table};

    #[test]
    fn the_plan_says_everything_and_where_it_came_from() {
        let mut config = Config::with(|name| (name == "WEB_CONCURRENCY").then(|| "3".to_owned()), 1);
        for (name, value) in [("listen", ":80"), ("listen", "/run/app.sock?mode=660"), ("timeout", "20")] {
            config.set(name, value, Origin::CommandLine).expect("fits");
        }
        config.set("max_reqs_per_child", "1000", Origin::named("plackup")).expect("fits");
        let mut resolved = config.resolve().expect("fits");
        resolved.decide_about_edges(Served::App);
        let mut plan = Plan::new("/srv/app.psgi".to_owned(), "Perl".to_owned(), &resolved);
        let text = plan.to_string();
        for part in [
            "app        /srv/app.psgi\nlanguage   Perl\nlisteners  http://*:80 (all interfaces)\n           unix:/run/app.sock (mode 660)\n",
            "processes  3 workers x 1 thread\nedges      1, with all connections; workers take requests from their queue (--edge auto: a slow or stuck request delays no other)\n\n\
             Listening:\n  listen ",
            "\n\nLogs and files:\n  access-log ",
        ] {
            assert!(text.contains(part), "{part:?} is not in:\n{text}");
        }
        let words = |name: &str| -> Vec<&str> {
            let line = text.lines().find(|line| line.split_whitespace().next() == Some(name));
            line.unwrap_or_default().split_whitespace().skip(1).collect()
        };
        assert_eq!(words("workers"), ["3", "environment", "(WEB_CONCURRENCY)"]);
        assert_eq!(words("max-requests"), ["1000", "plackup"]);
        assert_eq!(words("body-timeout"), ["20s", "command", "line"]);
        assert_eq!(words("linger-timeout"), ["5s", "default"]);
        assert_eq!(words("pid-file"), ["(none)", "default"]);
        for setting in table().iter().filter(|setting| !setting.is_shorthand()) {
            assert!(words(setting.name).len() >= 2, "{} is missing in:\n{text}", setting.name);
        }
        assert!(text.lines().all(|line| line.trim_end() == line), "{text}");
        plan.part = PlanPart::Server(vec![
            "shop: Perl, 3 workers x 1 thread".to_owned(),
            "blog: Ruby, 1 worker x 5 threads".to_owned(),
        ]);
        let text = plan.to_string();
        let head = "file       /srv/app.psgi\napps       shop: Perl, 3 workers x 1 thread\n           blog: Ruby, 1 worker x 5 threads\nlisteners ";
        assert!(text.starts_with(head) && !text.contains("\nprocesses "), "{text}");
    }

    #[test]
    fn the_plan_says_which_shape_was_chosen_and_why() {
        let shape = |given: &[(&str, &str)]| {
            let mut config = Config::with(|_| None, 2);
            for (name, value) in given {
                config.set(name, value, Origin::CommandLine).expect("fits");
            }
            let mut resolved = config.resolve().expect("fits");
            resolved.decide_about_edges(Served::Content);
            let text = edges(&resolved);
            (resolved.settings.edges_wanted(), resolved.settings.sockets_of_address(), text)
        };
        let told = "none, each worker has its own connections (--edge auto: no answer takes long in a worker)".to_owned();
        assert_eq!(shape(&[]), (0, 1, told));
        let told = "none, each worker has its own connections (--edge off)".to_owned();
        assert_eq!(shape(&[("edge", "off"), ("edges", "3")]), (0, 1, told));
        let told = "3, with all connections; workers take requests from their queue (--edge on)".to_owned();
        assert_eq!(shape(&[("edge", "on"), ("edges", "3"), ("accept", "own")]), (3, 3, told));
        assert_eq!(shape(&[("edge", ""), ("http_processes", "2")]).0, 2);
        assert!(Config::with(|_| None, 2).set("edges", "0", Origin::CommandLine).is_err());
    }
}
