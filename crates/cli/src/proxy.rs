//! Passes requests on to other servers, in this process and its workers.

use crate::language::{App, Home, Language};
use crate::options::{Mode, Options};
use crate::planned_setting::PlannedSetting;
use crate::trouble::Trouble;
use crate::{begin, behind_master, exit_status, print, resolve};
use oribi_proxy::{Proxy, Upstream, is_upstream};
use oribi_server::config::{Config, Origin, Plan, Served, SettingError, Timeouts};
use oribi_server::process;
use std::path::PathBuf;

/// A proxy in place of a language. It is not among the languages, because no file is written in it.
pub static LANGUAGE: Language = Language {
    name: "proxy",
    title: "none (proxy)",
    endings: &[],
    programs: &[],
    files: &[],
    shares_requests: false,
    home: Home::BuiltIn { describe: || format!("Oribi {}", env!("CARGO_PKG_VERSION")), serve },
};

/// Returns the proxy that `text` stands for, if it is no file: upstreams with commas between them.
pub fn app(text: &str) -> Option<Result<App, String>> {
    let valid = || Upstream::parse_list(text).map(|_| App { path: PathBuf::from(text), language: &LANGUAGE });
    is_upstream(text).then(valid)
}

/// Sets the defaults of a proxy: one worker keeps many exchanges open.
pub fn set_defaults(config: &mut Config) -> Result<(), SettingError> {
    config.set("workers", "1", Origin::Default)
}

/// The upstreams, for `oribi check`.
pub fn planned(upstreams: &[String], origin: &str) -> Vec<PlannedSetting> {
    let one = |url: &String| PlannedSetting {
        section: "Upstreams",
        name: "proxy",
        value: Some(url.clone()),
        origin: origin.to_owned(),
        default: None,
        is_changed: true,
    };
    upstreams.iter().map(one).collect()
}

/// Serves a proxy, or checks it.
fn serve(mode: Mode, app: &App, options: &Options, mut config: Config) -> Result<u8, Trouble> {
    if *options != Options::default() {
        return Err(Trouble::usage("a proxy runs no code: options of Perl, Ruby and Lua are not for it"));
    }
    let text = app.path.display().to_string();
    let upstreams = Upstream::parse_list(&text).map_err(Trouble::usage)?;
    let names: Vec<String> = upstreams.iter().map(ToString::to_string).collect();
    set_defaults(&mut config).map_err(|error| Trouble::usage(error.to_string()))?;
    let mut resolved = resolve(&config, Served::App)?;
    let timeout = resolved.settings.timeouts.request;
    let proxy = Proxy::new(upstreams, Some(timeout).filter(|timeout| *timeout < Timeouts::NEVER));
    proxy.check().map_err(Trouble::failure)?;
    if let Mode::Check(form) = mode {
        resolved.settings.look_at_certificates().map_err(Trouble::failure)?;
        let plan = Plan::new(text, LANGUAGE.title.to_owned(), &resolved);
        return print(&form.text(&plan, &planned(&names, &Origin::CommandLine.to_string())));
    }
    begin(mode, &mut resolved.settings)?;
    if let Some(served) = behind_master::serve(&resolved.settings, resolved.settings.threads) {
        return served;
    }
    Ok(exit_status(process::supervise_program(&resolved.settings, &proxy)))
}
