//! What an edge is for, shown with an app of each language and with clients that check every byte and count every connection:
//! a blocked app blocks nobody, no worker takes a connection with it when it ends, and every request has an answer.
//!
//! `apps/` holds the same app three times; its behaviours are listed in `app.psgi`. With `ORIBI_TEST_EDGE=off` the tests run
//! against the shape without an edge, where many of them fail: that is how they were seen to be able to.

// Each test program uses its own part of it.
mod acme;
mod aging;
#[allow(dead_code)]
#[path = "../process/client.rs"]
mod client;
#[allow(dead_code)]
mod connection;
mod counters;
mod deaths;
mod descriptors;
mod developing;
mod figures;
mod followers;
mod framing;
#[path = "../process/held.rs"]
mod held;
#[path = "../process/http2.rs"]
mod http2;
mod ids;
mod in_front;
#[allow(dead_code)]
mod language;
mod leftovers;
#[allow(dead_code)]
mod load;
mod poison;
mod queue;
mod readers;
mod real_time;
mod recycling;
mod reloading;
mod requests;
mod response;
mod saturated;
mod scaling;
#[allow(dead_code)]
#[path = "../process/scrape.rs"]
mod scrape;
#[allow(dead_code)]
#[path = "../process/server.rs"]
mod server;
mod shares;
mod slow;
#[allow(dead_code)]
#[path = "../process/status.rs"]
mod status;
mod steered;
mod streams;
mod stuck;
mod tls;
mod trailers;
mod transfers;
mod turn;
mod upgrades;
mod watched;
#[allow(dead_code)]
#[path = "../process/wire.rs"]
mod wire;

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
