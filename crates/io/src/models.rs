//! The I/O models for `--io`: one row for each.
//!
//! A row has everything that the rest of the server asks about a model. So a new model needs its
//! [`KernelBackend`](crate::KernelBackend), its row, its place in [`AnyBackend`](crate::AnyBackend), and nothing outside this
//! crate.

use std::ffi::c_long;

/// The facts about a model.
struct Row {
    /// Its name for `--io`, and the [name](crate::Backend::name) of its backend.
    name: &'static str,
    /// Other spellings for `--io`.
    aliases: &'static [&'static str],
    /// How to get a program that has the model, for the users of a program that was built without it: a phrase that a comma may
    /// follow.
    remedy: &'static str,
    /// Whether one thread may wait for connections while another uses the backend: see [`waiter`](crate::Backend::waiter).
    threads_share: bool,
    /// System calls that only this model needs, and that a sandbox must allow. The calls that all edges need are in
    /// `sandbox/calls.rs`.
    calls: &'static [c_long],
    /// The same for requests of ioctl(2).
    requests: &'static [u64],
}

/// Makes the type and its functions from the rows. A row begins with the type of the backend, the words for the help of
/// `--io`, and the condition under which the model is built in, if there is one.
macro_rules! models {
    ($($(#[$words:meta])* $model:ident $help:literal $(if $condition:meta)? { $($fact:tt)* })*) => {
        /// An I/O model that a server can be told to use. All programs know all models, also those that were not built in.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Model {
            $($(#[$words])* $model,)*
        }

        impl Model {
            /// All models, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$model),*];

            const fn row(self) -> &'static Row {
                match self {
                    $(Self::$model => &Row { $($fact)* },)*
                }
            }

            /// Whether this program has the model.
            #[must_use]
            pub const fn is_built_in(self) -> bool {
                match self {
                    $(Self::$model => cfg!(all($($condition)?)),)*
                }
            }
        }

        /// All models as the help of `--io` lists them, each with a comma behind it: a literal, for `concat!`.
        #[macro_export]
        macro_rules! listed_models {
            () => {
                concat!($($help, ", "),*)
            };
        }
    };
}

models! {
    /// Readiness: epoll.
    Epoll "epoll" {
        name: "epoll",
        aliases: &[],
        remedy: "",
        threads_share: true,
        // epoll's calls are allowed for every model, because wakers and naps use epoll beside every model.
        calls: &[],
        requests: &[],
    }

    /// Completion: io_uring.
    Uring "io_uring (Linux 6.1 or newer, if it is permitted)" {
        name: "io_uring",
        aliases: &["io-uring", "uring"],
        remedy: "",
        // The kernel refuses a ring to all threads but the one that made it.
        threads_share: false,
        calls: &[libc::SYS_io_uring_enter],
        requests: &[],
    }

    /// Readiness, by the method that the system's libevent prefers. Needs a program with libevent built in.
    Libevent "libevent (if it was built in, as by `make build`)" if feature = "libevent" {
        name: "libevent",
        aliases: &[],
        remedy: "build it with `make build`, or with cargo's `--features libevent` (Debian: apt-get install libevent-dev pkgconf)",
        // An event base is waited at by one thread.
        threads_share: false,
        // With `EVENT_NOEPOLL` and `EVENT_NOPOLL` in the environment, libevent uses select(2).
        calls: &[
            libc::SYS_pselect6,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_select,
        ],
        // `FIONREAD` and `FIONBIO` (linux/sockios.h, asm-generic/ioctls.h).
        requests: &[0x541b, 0x5421],
    }
}

impl Model {
    /// The models that this program has.
    pub fn built_in() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(|model| model.is_built_in())
    }

    /// The model with this name or alias, in lower case.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let is_its_name = |model: &Self| model.name() == name || model.row().aliases.contains(&name);
        Self::ALL.iter().copied().find(is_its_name)
    }

    /// The name for `--io` and for logs: `io_uring`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// How to get a program that has the model: `build it with ...`. `None` if this program has it.
    #[must_use]
    pub fn remedy(self) -> Option<&'static str> {
        (!self.is_built_in()).then(|| self.row().remedy)
    }

    /// Whether the threads of a worker may share connections of this model.
    #[must_use]
    pub const fn threads_share(self) -> bool {
        self.row().threads_share
    }

    /// System calls that a sandbox must allow for this model, beside those of every edge.
    pub(crate) const fn calls(self) -> &'static [c_long] {
        self.row().calls
    }

    /// The same for requests of ioctl(2).
    pub(crate) const fn requests(self) -> &'static [u64] {
        self.row().requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_and_alias_has_one_model() {
        for &model in Model::ALL {
            for name in [&[model.name()], model.row().aliases].concat() {
                assert_eq!(Model::named(name), Some(model));
                let others = Model::ALL.iter().filter(|&&other| other != model);
                assert!(others.into_iter().all(|other| other.name() != name && !other.row().aliases.contains(&name)));
            }
        }
        assert_eq!(Model::named("auto"), None);
    }
}
