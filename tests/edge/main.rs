//! Tests of what an edge is for, with an app of each language, and with clients that check every byte and count every
//! connection. A blocked app must not block other requests, a worker that ends must not close a connection, and every request
//! must get an answer.
//!
//! `apps/` has the same app in three languages; `app.psgi` lists its behaviours. With `ORIBI_TEST_EDGE=off` the tests run
//! against a server without an edge. Many of them fail then, which shows that they can fail.

mod acme;
mod aging;
mod app_metrics;
mod counters;
mod deaths;
mod descriptors;
mod developing;
mod followers;
mod framing;
mod ids;
mod in_front;
mod leftovers;
mod live_upgrades;
mod poison;
mod postponed;
mod queue;
mod readers;
mod real_time;
mod recycling;
mod reloading;
mod requests;
mod saturated;
mod scaling;
mod shares;
mod slow;
mod steered;
mod streams;
mod stuck;
mod tls;
mod trailers;
mod transfers;
mod turn;
mod upgrades;
mod watched;

use oribi_test_support::{
    client, connection, held, http2, http2_streams, language, load, response, scrape, server, status, wire,
};

/// Makes a test of each function for each language that the server runs.
macro_rules! in_every_language {
    ($($test:ident),* $(,)?) => {
        crate::in_language!(perl, Perl, $($test),*);
        crate::in_language!(ruby, Ruby, $($test),*);
        crate::in_language!(lua, Lua, $($test),*);
    };
}

/// Makes a test of each function for each kind of workers, where the language makes no difference: those of Perl and of Ruby are forked
/// by a mold in the same way, and those of Lua are the server's own.
macro_rules! with_all_kinds_of_workers {
    ($($test:ident),* $(,)?) => {
        crate::in_language!(perl, Perl, $($test),*);
        crate::in_language!(lua, Lua, $($test),*);
    };
}

/// Makes a test of each function for one language.
macro_rules! in_language {
    ($module:ident, $language:ident, $($test:ident),*) => {
        mod $module {
            $(
                #[test]
                fn $test() {
                    super::$test(crate::language::Language::$language);
                }
            )*
        }
    };
}

pub(crate) use {in_every_language, in_language, with_all_kinds_of_workers};
