//! Which I/O model the lanes get, and why.

use crate::config::{IoModel, Settings};
use oribi_host::Runtime;
use oribi_io::Uring;

/// Finds out, in the process that will fork the workers, whether they can have what the settings ask for. Returns a line for the
/// log.
///
/// # Errors
/// That they cannot, and what to do. It is no error where the choice is the server's.
pub(super) fn explain(settings: &Settings, runtime: &dyn Runtime) -> Result<String, String> {
    match settings.io {
        IoModel::Epoll => Ok("I/O by epoll, as asked for".to_owned()),
        IoModel::Uring if runtime.shares_lane() => {
            Err("the threads of this language share their connections, which io_uring does \
                                                         not allow: leave --io io_uring out"
                .to_owned())
        }
        IoModel::Uring => match Uring::new() {
            Ok(_) => Ok("I/O by io_uring, as asked for".to_owned()),
            Err(refusal) => Err(format!("{refusal}; or leave --io io_uring out")),
        },
        #[cfg(feature = "study")]
        IoModel::EpollLevel => Err("--io epoll-level does not work yet: leave it out".to_owned()),
        // No measurement has shown yet where io_uring is the better choice.
        IoModel::Auto if runtime.shares_lane() => Ok("I/O by epoll: threads share their connections".to_owned()),
        IoModel::Auto => Ok(match Uring::new() {
            Ok(_) => "I/O by epoll: io_uring is allowed here, but not known to be faster (--io io_uring takes it)".to_owned(),
            Err(refusal) => format!("I/O by epoll: {refusal}"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_host::{Host, Native};

    struct Sharing;

    impl Runtime for Sharing {
        fn open(&self, _own: bool) -> Result<Box<dyn Host>, String> {
            Err("it opens nothing".to_owned())
        }

        fn shares_lane(&self) -> bool {
            true
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
        // What the kernel says is said of a process of its own in the tests of the whole server.
        let refused = explain(IoModel::Uring, &Sharing).expect_err("threads share a lane");
        assert!(refused.contains("--io"), "{refused}");
    }
}
