//! Limits of the rate of requests ([`Table`]) and of the number of open requests ([`Concurrent`]), in memory that several
//! processes share. Nothing here does I/O: the caller provides the memory, as atomics, and the time.
//!
//! ```
//! use oribi_limit::{Keys, Rule, Table, write_limit};
//! use std::sync::atomic::AtomicU64;
//! use std::time::Duration;
//!
//! let rules = [Rule { requests: 10, per: Duration::from_secs(1), burst: 2 }];
//! let words: Vec<AtomicU64> = (0..Table::words(1000, &rules)).map(|_| AtomicU64::new(0)).collect();
//! let table = Table::new(&words, &rules)?;
//! let keys = Keys::new([7; 16]);
//! let key = keys.of_client("192.0.2.1".parse().expect("an address"));
//!
//! let now = Duration::from_secs(1000);
//! assert!(table.take(0, key, now).allowed && table.take(0, key, now).allowed);
//! let verdict = table.take(0, key, now);
//! assert!(!verdict.allowed);
//! assert_eq!(verdict.retry_after, Duration::from_millis(100));
//! let mut field = Vec::new();
//! write_limit("api", verdict, &mut field);
//! assert_eq!(field, b"\"api\";r=0;t=1");
//! # Ok::<(), oribi_limit::InvalidRule>(())
//! ```
//!
//! # Attackers with many addresses
//!
//! The memory is fixed. A table forgets clients if there are more of them than it has entries: of the eight entries among which
//! the one of a new client must be, it forgets the one whose client has the least debt, and would be forgotten soonest anyway.
//! No client is ever refused because the table is full.
//!
//! An attacker with more addresses than the table has entries is therefore not limited: while the attacker uses one address,
//! the table forgets the others. (Such an attacker also gets `burst` requests for each address without that.) But the attacker
//! cannot have other clients refused, and hardly has them forgotten as long as they have more debt than the attacker's
//! addresses: an address that sends one request forgets another of that kind. IPv6 is why a client is a prefix of 64 bits
//! ([`Keys::with_ipv6_prefix`]): a single customer of a provider has that many addresses, and often 256 or 65,536 such
//! prefixes. A rule with one key for all requests ([`Keys::of_all`]) bounds what all addresses together can do.
//!
//! Clients cannot choose addresses or values whose entries collide, because the hash has a secret key (SipHash). An entry has
//! 24 bits of the hash beside those that choose its set: of a table in which eight clients share a set, one client of two
//! million shares the entry of another, and the allowance with it.
#![forbid(unsafe_code)]

mod concurrent;
mod fields;
mod key;
mod limit;
mod rule;
mod set;
mod table;

pub use concurrent::{Concurrent, Guard};
pub use fields::{retry_after_seconds, write_limit, write_policy};
pub use key::{IPV6_PREFIX, Key, Keys, client_network};
pub use limit::{LimitBy, LimitOf};
pub use rule::{InvalidRule, MOST_BURST, Rule};
pub use table::{Table, Verdict};
