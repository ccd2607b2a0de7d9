//! Troubles that a server must survive: apps that break while they are loaded or soon after, orders at the wrong moment, full
//! disks, log readers that stall, leftovers of dead servers, clocks that jump, and being process 1. The tests run with apps
//! of all languages, with edges and without, and with clients that check every byte and count every connection.
//!
//! `apps/` has the same app in three languages; `app.psgi` lists its behaviours.

mod clock;
mod environment;
mod generations;
mod inheritances;
mod init;
mod logs;
mod pressure;
mod releases;
mod reloads;
mod site;
mod stale;

use oribi_test_support::{client, connection, load, server};

/// Makes a test of each function for each language, and for each kind of processes with an edge and without: workers of Perl and of
/// Ruby are forked by a mold in the same way, and those of Lua are the server's own.
macro_rules! everywhere {
    ($($test:ident),* $(,)?) => {
        crate::in_shape!(perl, Perl, Edge::On, $($test),*);
        crate::in_shape!(lua, Lua, Edge::On, $($test),*);
        crate::in_shape!(ruby_alone, Ruby, Edge::Off, $($test),*);
        crate::in_shape!(lua_alone, Lua, Edge::Off, $($test),*);
    };
}

/// Makes a test of each function, for one language, with or without an edge.
macro_rules! in_shape {
    ($module:ident, $language:ident, $edge:expr, $($test:ident),*) => {
        mod $module {
            use crate::site::{Edge, Language};
            $(
                #[test]
                fn $test() {
                    super::$test(Language::$language, $edge);
                }
            )*
        }
    };
}

pub(crate) use {everywhere, in_shape};
