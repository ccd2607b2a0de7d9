//! The rows of the table that move clients to https.

use super::super::https::{policy, redirect_port, show_redirect};
use super::super::setting::{Section, Setting};

pub(super) const REDIRECT: Setting = Setting::server(
    "redirect-https",
    Section::Responses,
    "",
    "Redirect http requests to the same URL with https: with a 301 for GET and HEAD, otherwise with a 308. on: to port 443; \
     --redirect-https=8443: to that port. Does not affect --probe and ACME challenges. A proxy in front that ends TLS must be \
     in --trusted-proxies",
)
.apply(|draft, text| redirect_port(text).map(|port| draft.settings.redirect_https = port))
.show(|settings| show_redirect(settings.redirect_https));

pub(super) const POLICY: Setting = Setting::server(
    "hsts",
    Section::Responses,
    "TEXT",
    "Send Strict-Transport-Security with responses over https, so that browsers use only https from then on, unless the app \
     sends that field itself: a time such as 365d, or \"max-age=31536000; includeSubDomains; preload\"",
)
.apply(|draft, text| policy(text).map(|policy| draft.settings.transport_security = policy))
.show(|settings| settings.transport_security.clone().unwrap_or_else(|| "off".to_owned()));
