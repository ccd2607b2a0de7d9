//! The limits of the protocols, as the settings give them.

use super::{fastcgi, http2};
use oribi_config::Settings;
use oribi_proto::{fcgi, h1, h2};

/// The limits of each protocol.
pub(super) struct ProtocolLimits {
    /// HTTP/1.
    pub(super) http: h1::Limits,
    /// The records of FastCGI.
    pub(super) records: fcgi::Limits,
    /// The frames of HTTP/2.
    pub(super) frames: h2::Limits,
}

impl ProtocolLimits {
    pub(super) fn of(settings: &Settings) -> Self {
        Self { http: http(settings), records: fastcgi::limits(settings), frames: http2::limits(settings) }
    }
}

fn http(settings: &Settings) -> h1::Limits {
    h1::Limits {
        head_bytes: settings.limits.head_bytes,
        fields: settings.limits.fields,
        target_bytes: settings.limits.target_bytes,
        strict_target: settings.strict_uri,
        content_bytes: settings.limits.content_bytes,
        ..h1::Limits::default()
    }
}
