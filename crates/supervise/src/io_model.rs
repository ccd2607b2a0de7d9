//! Chooses the I/O model of the lanes.

use oribi_config::{IoModel, Settings};
use oribi_host::Runtime;
use oribi_io::Uring;

/// Checks, in the process that will fork the workers, whether the workers can use the I/O model of the settings. Returns a
/// line for the log.
///
/// # Errors
/// The workers cannot use it; the message says how to proceed. Never an error if the settings leave the choice to the server.
pub(super) fn explain(settings: &Settings, runtime: &dyn Runtime) -> Result<String, String> {
    // Behind edges no lane has connections.
    let shares_connections = runtime.global_lock().is_some() && settings.edges_wanted() == 0;
    match settings.io {
        IoModel::Epoll => Ok("I/O by epoll, as asked for".to_owned()),
        IoModel::Uring if shares_connections => Err(refuse_shared_connections("io_uring")),
        IoModel::Uring => match Uring::new() {
            Ok(_) => Ok("I/O by io_uring, as asked for".to_owned()),
            Err(refusal) => Err(format!("{refusal}; or leave --io io_uring out")),
        },
        IoModel::Libevent if shares_connections => Err(refuse_shared_connections("libevent")),
        IoModel::Libevent => libevent(),
        // docs/io-models.md: at full load io_uring mostly costs as much as epoll, at half load mostly more. The load is not
        // known in advance.
        IoModel::Auto if shares_connections => Ok("I/O by epoll: threads share their connections".to_owned()),
        IoModel::Auto => Ok(match Uring::new() {
            Ok(_) => {
                "I/O by epoll: io_uring is also available, and mostly takes more CPU below full load (--io io_uring takes it)"
                    .to_owned()
            }
            Err(refusal) => format!("I/O by epoll: {refusal}"),
        }),
    }
}

fn refuse_shared_connections(model: &str) -> String {
    format!("the threads of this language share their connections, which {model} does not allow: leave --io {model} out")
}

#[cfg(feature = "libevent")]
fn libevent() -> Result<String, String> {
    match oribi_io::Libevent::new() {
        Ok(backend) => {
            let triggered = if backend.is_edge_triggered() { "edge" } else { "level" };
            Ok(format!("I/O by libevent ({}, {triggered}-triggered), as asked for", backend.method()))
        }
        Err(error) => Err(format!("{error}; or leave --io libevent out")),
    }
}

#[cfg(not(feature = "libevent"))]
fn libevent() -> Result<String, String> {
    Err("this program was built without libevent: build it with `make build`, or with cargo's `--features libevent` \
         (Debian: apt-get install libevent-dev pkgconf), or leave --io libevent out"
        .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_host::{Crew, GlobalLock, Host, Native, Wait};

    struct Sharing;

    impl Runtime for Sharing {
        fn open(&self, _own: bool) -> Result<Box<dyn Host>, String> {
            Err("it opens nothing".to_owned())
        }

        fn global_lock(&self) -> Option<&dyn GlobalLock> {
            Some(self)
        }
    }

    impl GlobalLock for Sharing {
        fn begin(&self, _crew: &dyn Crew, _most: usize) {}

        fn end(&self) {}

        fn open(&self) -> Result<Box<dyn Host>, String> {
            Err("it opens nothing".to_owned())
        }

        fn without_lock(&self, _wait: &dyn Wait) -> bool {
            false
        }

        fn start_thread(&self) -> bool {
            false
        }
    }

    #[test]
    fn whatever_is_chosen_has_its_reason() {
        let explain = |io, runtime: &dyn Runtime| explain(&Settings { io, ..Settings::default() }, runtime);
        let native = Native::new("");
        assert_eq!(explain(IoModel::Epoll, &native), Ok("I/O by epoll, as asked for".to_owned()));
        for runtime in [&native as &dyn Runtime, &Sharing] {
            let auto = explain(IoModel::Auto, runtime).expect("it never fails");
            assert!(auto.starts_with("I/O by epoll: "), "{auto}");
        }
        // Refusals by the kernel are tested with the whole server, in a process of its own.
        for (model, name) in [(IoModel::Uring, "--io io_uring"), (IoModel::Libevent, "--io libevent")] {
            let refused = explain(model, &Sharing).expect_err("threads share a lane");
            assert!(refused.contains("threads") && refused.contains(name), "{refused}");
        }
        // Edges have the connections.
        let behind = Settings { edge: oribi_config::EdgeChoice::On, ..Settings::default() };
        let said = super::explain(&Settings { io: IoModel::Auto, ..behind.clone() }, &Sharing).expect("it never fails");
        assert!(!said.contains("threads"), "{said}");
        for io in [IoModel::Uring, IoModel::Libevent] {
            let settings = Settings { io, ..behind.clone() };
            assert_eq!(super::explain(&settings, &Sharing), super::explain(&settings, &native));
        }
    }

    #[test]
    fn libevent_is_had_where_it_was_built_in() {
        let said = explain(&Settings { io: IoModel::Libevent, ..Settings::default() }, &Native::new(""));
        match said {
            Ok(said) if cfg!(feature = "libevent") => assert!(said.starts_with("I/O by libevent ("), "{said}"),
            Err(refusal) if !cfg!(feature = "libevent") => assert!(refusal.contains("--features libevent"), "{refusal}"),
            said => panic!("{said:?}"),
        }
    }
}
