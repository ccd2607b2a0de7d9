//! Decides `--edge auto`, from the kind of content and the program that serves it.

use super::origin::Origin;
use super::resolve::Resolved;
use super::settings::{AcceptModel, EdgeChoice};

/// The content that a program serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// An app: it may be slow or stuck, and it is replaced while clients are connected.
    App,
    /// An app that replaces one of luafcgid: its users know the processes.
    InPlaceOfLuafcgid,
    /// Files or a fixed text: no response keeps a worker busy.
    Content,
}

impl Resolved {
    /// Decides whether to use edges, unless the user has decided. Without this call, each worker has its own connections.
    pub fn decide_about_edges(&mut self, served: Served) {
        if self.settings.edge != EdgeChoice::Auto {
            return;
        }
        let edges_were_asked_for = *self.origin("edges") != Origin::Default;
        let (choice, reason) = match served {
            Served::Content => (EdgeChoice::Off, "no answer takes long in a worker"),
            Served::InPlaceOfLuafcgid => (EdgeChoice::Off, "as with luafcgid"),
            Served::App if self.settings.accept == AcceptModel::Own && !edges_were_asked_for => {
                (EdgeChoice::Off, "--accept own is for workers with connections")
            }
            Served::App => (EdgeChoice::On, "a slow or stuck request delays no other"),
        };
        self.settings.edge = choice;
        self.why_edges = Some(reason);
    }
}

impl Resolved {
    /// Returns the reason why the numbers of workers are impossible with the decision about edges, if they are.
    ///
    /// # Errors
    /// The number is to follow the load, and there is no edge: only an edge has a queue that can be measured.
    pub fn check_workers(&self) -> Result<(), String> {
        let settings = &self.settings;
        if settings.workers.follows_load() && settings.edges_wanted() == 0 {
            return Err(format!(
                "workers = {} needs an edge, because the waiting time of requests is seen in its queue: leave --edge off (and \
                 --accept own) out, or set one number of workers",
                settings.workers
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    fn decided(served: Served, given: &[(&str, &str)]) -> Resolved {
        let mut config = Config::with(|_| None, 2);
        for (name, value) in given {
            config.set(name, value, Origin::CommandLine).expect("fits");
        }
        let mut resolved = config.resolve().expect("fits");
        resolved.decide_about_edges(served);
        resolved
    }

    #[test]
    fn apps_have_an_edge_and_content_has_none() {
        for (served, given, edges) in [
            (Served::App, &[][..], 1),
            (Served::App, &[("edge", "auto"), ("edges", "3")], 3),
            (Served::App, &[("edge", "off"), ("edges", "3")], 0),
            (Served::App, &[("protocol", "fastcgi"), ("threads", "4"), ("io", "libevent")], 1),
            (Served::App, &[("accept", "own")], 0),
            (Served::App, &[("accept", "own"), ("edges", "2")], 2),
            (Served::App, &[("accept", "own"), ("edge", "on")], 1),
            (Served::InPlaceOfLuafcgid, &[], 0),
            (Served::InPlaceOfLuafcgid, &[("edge", "on")], 1),
            (Served::Content, &[("edges", "2")], 0),
            (Served::Content, &[("edge", "on")], 1),
        ] {
            assert_eq!(decided(served, given).settings.edges_wanted(), edges, "{served:?} {given:?}");
        }
        assert_eq!(Config::with(|_| None, 2).finish().expect("fits").edges_wanted(), 0, "nobody has decided");
    }

    #[test]
    fn a_mold_is_told_what_was_decided() {
        let arguments = decided(Served::App, &[]).arguments();
        assert!(arguments.iter().any(|argument| argument == "edge=on"), "{arguments:?}");
    }

    #[test]
    fn numbers_that_follow_the_load_need_an_edge() {
        for (workers, edge, possible) in
            [("2:8", "auto", true), ("2:8", "off", false), ("8:8", "off", true), ("0:1", "off", false)]
        {
            let mut config = Config::with(|_| None, 2);
            for (name, value) in [("workers", workers), ("edge", edge)] {
                config.set(name, value, Origin::CommandLine).expect("fits");
            }
            let mut resolved = config.resolve().expect("fits");
            resolved.decide_about_edges(Served::App);
            assert_eq!(resolved.check_workers().is_ok(), possible, "{workers} {edge}");
        }
    }
}
