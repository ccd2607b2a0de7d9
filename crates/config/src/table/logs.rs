//! The rows of the table about the logging of requests.

use super::super::setting::{Section, Setting};
use super::super::value::{access_format, deadline, optional_log_target, show_access_format, show_duration, show_log_target};

pub(super) const ACCESS_LOG: Setting = Setting::server(
    "access-log",
    Section::Logs,
    "PATH",
    "Write a line for each request to a file, `syslog:`, `journal`, or `-` for standard output",
)
.apply(|draft, text| optional_log_target(text).map(|target| draft.settings.access_log = target))
.show(|settings| settings.access_log.as_ref().map_or_else(|| "off".to_owned(), show_log_target));

pub(super) const ACCESS_LOG_FORMAT: Setting = Setting::server(
    "access-log-format",
    Section::Logs,
    "FORMAT",
    "Format of the access log: common, combined, rack (as in Puma and Rack), json, or a pattern as in Apache's LogFormat; \
     times are in UTC",
)
.apply(|draft, text| access_format(text).map(|format| draft.settings.access_log_format = format))
.show(|settings| show_access_format(&settings.access_log_format).to_owned());

pub(super) const SLOW: Setting = Setting::server(
    "slow",
    Section::Logs,
    "TIME",
    "Log each request that takes this long or longer, from its last byte to the last byte of its response, with the parts of \
     that time: at most ten a second, then the number of the others; or off",
)
.apply(|draft, text| deadline(text).map(|time| draft.settings.slow = time))
.show(|settings| show_duration(settings.slow));
