//! The purpose of an edge, shown with an app of each language and with clients that check every byte and count every
//! connection: a blocked app blocks no other request, no worker takes a connection with it when it ends, and every request
//! has an answer.
//!
//! `apps/` holds the same app three times; its behaviours are listed in `app.psgi`. With `ORIBI_TEST_EDGE=off` the tests run
//! against the shape without an edge, where many of them fail: that is how they were seen to be able to.

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
mod poison;
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

use oribi_test_support::{client, connection, held, http2, language, load, response, scrape, server, status, wire};

/// Makes a test of each function for each language that the server runs.
macro_rules! in_every_language {
    ($($test:ident),* $(,)?) => {
        crate::in_language!(perl, Perl, $($test),*);
        crate::in_language!(ruby, Ruby, $($test),*);
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

pub(crate) use {in_every_language, in_language};
