//! Chooses the first route of a configuration that matches a request.
//!
//! A [`Rule`] holds the conditions of a route. [`Table::compile`] checks all rules and reports every error; [`Table::choose`]
//! returns the number of the first rule that matches a request. The crate does no I/O and keeps no time.
//!
//! # Conditions
//!
//! A rule has a list of patterns for each part of a request. A list matches if one of its positive patterns matches (or if it
//! has none) and none of its negative patterns, which begin with `!`, does. A rule matches if all of its lists do; an empty
//! list matches every request.
//!
//! | list | patterns |
//! |---|---|
//! | `host` | `NAME`, `*.NAME` (one or more labels before `NAME`), `*` (every request, even one without a host) |
//! | `path` | text that begins with `/`, or a wildcard or an expression as below |
//! | `method` | text (case-sensitive), a wildcard or an expression |
//! | `field` | a name (case-insensitive), and for the value text (case-sensitive), a wildcard or an expression |
//! | `query` | a name (case-sensitive), and for the value text (case-sensitive), a wildcard or an expression |
//! | `source` | an address or a network, such as `192.0.2.1`, `10.0.0.0/8` or `2001:db8::/32` |
//! | `destination` | such an address of this machine, also with ports: `[::1]:443`, `10.0.0.0/8:80-89`; `*:443`; `unix`; `unix:` and a path, perhaps a wildcard |
//! | `scheme` | `http` or `https` |
//!
//! * A wildcard is a text in which each `*` stands for any bytes, also none, also slashes. So `/a/*` matches `/a/` and
//!   `/a/b/c`, but neither `/a` nor `/ab`; `/a*` matches all four. These are the rules of NGINX Unit.
//! * An expression begins with `~`, has the syntax of the crate `regex`, and matches if it is found anywhere in the value:
//!   `~^/users/[0-9]+$` is anchored, `~admin` is not. It compares bytes: a dot matches every byte, also a line feed and one
//!   that is not UTF-8, so that no such byte takes a request around a rule. `(?i)` ignores the case of ASCII letters.
//! * A text that begins with `!` or `~`, or contains `*`, is written as an expression.
//! * The patterns of one field or query name are a list of their own, and the lists of all names must match.
//! * A field or query name without a pattern matches if it is present. With several lines or pairs of one name, one that
//!   matches is enough; this also holds for negative patterns, which then reject the request. The value `!*` matches if
//!   there is no line or pair of this name.
//!
//! # Normalization
//!
//! Path patterns are compared with the normalized path, which [`Choice::path`] also returns. Code that opens files or checks
//! rights must use this path and not the target:
//!
//! * All escapes are decoded once, `%2F` to a slash and `%00` to a NUL byte too. An invalid escape stays as it is: `/%zz` is
//!   the path `/%zz`. A plus sign is a plus sign.
//! * Then slashes are merged, `.` segments removed and `..` segments resolved, never above the root. So `/%61dmin/`,
//!   `//admin/`, `/x/../admin/`, `/x/%2e%2e/admin/` and `/admin%2Fx` all match `/admin/*`.
//! * Only `/` separates segments; a backslash, a semicolon and an invalid UTF-8 sequence are bytes like others.
//! * The path of an absolute-form target (`http://host/path`) is the part behind its authority, `/` if that is empty, and its
//!   authority replaces the Host field. Targets of other forms (`*`, `host:port`) have no path: they match no positive
//!   path pattern, not even `*`, and no negative one.
//!
//! Hosts are compared without case, port and one dot at the end; IPv6 literals as addresses, so `[::1]` and `[0:0::1]` are the
//! same. A missing or empty host, or one that begins with a dot, matches only `*`. Query pairs are split at `&`; names and
//! values are decoded once, with `+` as a space. Addresses of the form `::ffff:192.0.2.1` count as IPv4.
//!
//! # Cost
//!
//! Hosts are found by a hash, and exact paths and prefixes by a radix tree. Each leads to a row of bits, one for each rule that
//! is possible with this host or this path. The first bit that two rows share is the chosen rule, unless the rule has other
//! conditions, which are then checked. So the cost hardly depends on the number of rules: `examples/route_cost.rs` counts 130
//! instructions for `/` and about 200 for `/api/users`, with 10, 100 and 1000 rules. A path that is not in its normal form is
//! copied first. A regular expression has no key, so a request is compared with that of each rule before the chosen one.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod captures;
mod checks;
mod compile;
mod destination;
mod equal;
mod escape;
mod glob;
mod host;
mod index;
mod list;
mod network;
mod normal;
mod path;
mod pattern;
mod query;
mod request;
mod rows;
mod rule;
mod table;
mod template;
mod tree;

pub use captures::PathExpressions;
pub use destination::Destination;
pub use escape::push_path;
pub use glob::fits_wildcard;
pub use request::{FieldLines, RequestView, Scheme};
pub use rule::{
    EXPRESSION_BYTES, MOST_EXPRESSIONS, MOST_PATTERN_BYTES, MOST_PATTERNS, MOST_RULES, NamedPattern, Rule, RuleError,
};
pub use table::{Choice, Scratch, Table};
pub use template::{MOST_TEMPLATE_BYTES, NoResult, Template, Values, unknown_variable};
