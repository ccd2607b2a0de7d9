//! The rows of the table that move clients to https.

use super::super::https::{policy, redirect_port, show_redirect};
use super::super::setting::{Section, Setting};

pub(super) const REDIRECT: Setting = Setting::new(
    "redirect-https",
    Section::Responses,
    "",
    "Send clients that come by http to the same URL with https: by a 301 for GET and HEAD, by a 308 otherwise. on: to port 443; \
     --redirect-https=8443: to that port. Not for --probe, nor for challenges of ACME. A proxy that does TLS in front must be one of \
     --trusted-proxies",
)
.apply(|draft, text| redirect_port(text).map(|port| draft.settings.redirect_https = port))
.show(|settings| show_redirect(settings.redirect_https));

pub(super) const POLICY: Setting = Setting::new(
    "hsts",
    Section::Responses,
    "TEXT",
    "Tell browsers that come by https to come only so from now on (Strict-Transport-Security), unless the app tells them something \
     itself: a time such as 365d, or \"max-age=31536000; includeSubDomains; preload\"",
)
.apply(|draft, text| policy(text).map(|policy| draft.settings.transport_security = policy))
.show(|settings| settings.transport_security.clone().unwrap_or_else(|| "off".to_owned()));
