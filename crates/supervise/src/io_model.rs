//! Chooses the I/O model of the lanes.

use oribi_config::{IoModel, Settings};
use oribi_host::Runtime;
use oribi_io::{Model, Restricted};

/// Checks whether workers can use the I/O model of the settings. Must be called in the process that will fork them. Returns a
/// line for the log.
///
/// # Errors
/// The workers cannot use the I/O model; the message says how to proceed. Never an error if the settings leave the choice to
/// the server.
pub(super) fn explain(settings: &Settings, runtime: &dyn Runtime) -> Result<String, String> {
    // Behind edges no lane has connections.
    let shares_connections = runtime.global_lock().is_some() && settings.edges_wanted() == 0;
    match settings.io {
        IoModel::Chosen(model) => explain_choice(model, shares_connections),
        IoModel::Auto if shares_connections => Ok("I/O by epoll: threads share their connections".to_owned()),
        IoModel::Auto => Ok(match Model::Uring.open(Restricted::No) {
            Ok(_) => {
                "I/O by epoll: io_uring is also available, and mostly takes more CPU below full load (--io io_uring takes it)"
                    .to_owned()
            }
            Err(refusal) => format!("I/O by epoll: {refusal}"),
        }),
    }
}

fn explain_choice(model: Model, shares_connections: bool) -> Result<String, String> {
    let name = model.name();
    if shares_connections && !model.threads_share() {
        return Err(format!(
            "the threads of this language share their connections, which {name} does not allow: leave --io {name} out"
        ));
    }
    if let Some(remedy) = model.remedy() {
        return Err(format!("this program was built without {name}: {remedy}, or leave --io {name} out"));
    }
    match model.open(Restricted::No) {
        Ok(backend) => Ok(format!("I/O by {}, as asked for", backend.title())),
        Err(error) => Err(format!("{error}; or leave --io {name} out")),
    }
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
        assert_eq!(explain(IoModel::Chosen(Model::Epoll), &native), Ok("I/O by epoll, as asked for".to_owned()));
        for runtime in [&native as &dyn Runtime, &Sharing] {
            let auto = explain(IoModel::Auto, runtime).expect("it never fails");
            assert!(auto.starts_with("I/O by epoll: "), "{auto}");
        }
        // Refusals by the kernel are tested with the whole server, in a process of its own.
        for &model in Model::ALL.iter().filter(|model| !model.threads_share()) {
            let refused = explain(IoModel::Chosen(model), &Sharing).expect_err("threads share a lane");
            assert!(refused.contains("threads") && refused.contains(&format!("--io {}", model.name())), "{refused}");
        }
        // Edges have the connections.
        let behind = Settings { edge: oribi_config::EdgeChoice::On, ..Settings::default() };
        let said = super::explain(&Settings { io: IoModel::Auto, ..behind.clone() }, &Sharing).expect("it never fails");
        assert!(!said.contains("threads"), "{said}");
        for &model in Model::ALL {
            let settings = Settings { io: IoModel::Chosen(model), ..behind.clone() };
            assert_eq!(super::explain(&settings, &Sharing), super::explain(&settings, &native));
        }
    }

    #[test]
    fn a_model_is_available_where_it_was_built_in() {
        for &model in Model::ALL {
            let (io, name) = (IoModel::Chosen(model), model.name());
            match explain(&Settings { io, ..Settings::default() }, &Native::new("")) {
                Ok(said) if model.is_built_in() => assert!(said.starts_with(&format!("I/O by {name}")), "{said}"),
                Err(refusal) if !model.is_built_in() => {
                    assert!(
                        refusal.starts_with(&format!("this program was built without {name}: build it with ")),
                        "{refusal}"
                    );
                    assert!(refusal.ends_with(&format!(", or leave --io {name} out")), "{refusal}");
                }
                said => panic!("{said:?}"),
            }
        }
    }
}
