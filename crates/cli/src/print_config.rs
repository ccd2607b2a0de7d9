//! Prints the `oribi.toml` that says the same as the options of one app.

use crate::planned_setting::PlannedSetting;
use oribi_config_file::{LANGUAGE_OPTIONS, ValueForm};
use oribi_control_api::to_json;
use oribi_proxy::{Upstream, is_upstream};
use oribi_server::config::{Plan, Scope};
use std::fmt::Write;
use std::path::Path;

/// Options that other keys of the file replace, or that only make sense on a command line.
const ELSEWHERE: &[&str] = &["listen", "host", "port", "app-name", "edge"];

/// The file for a plan, and for the settings of the app's host.
pub fn text(plan: &Plan<'_>, of_host: &[PlannedSetting]) -> String {
    let path = Path::new(&plan.app);
    let current = std::env::current_dir().ok().and_then(|current| current.canonicalize().ok());
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let file = current.and_then(|current| whole.strip_prefix(current).ok().map(Path::to_owned)).unwrap_or(whole);

    let (mut server, mut app) = (String::new(), String::new());
    let settings = &plan.resolved.settings;
    for (setting, explained) in plan.resolved.explain() {
        if !explained.is_changed() || ELSEWHERE.contains(&setting.name) {
            continue;
        }
        let values: Vec<String> = setting.values_in(settings).iter().map(|value| quoted(value)).collect();
        let value = match (setting.repeats(), &values[..]) {
            (false, [one]) => one.clone(),
            _ => format!("[{}]", values.join(", ")),
        };
        let table = if setting.scope == Scope::App { &mut app } else { &mut server };
        // Writing into a text cannot fail.
        let _ = writeln!(table, "{} = {value}", setting.name);
    }
    let (of_language, elsewhere): (Vec<_>, Vec<_>) = of_host.iter().filter(|setting| setting.is_changed).partition(|setting| {
        let has_place = LANGUAGE_OPTIONS.iter().any(|option| option.name == setting.name && option.form == ValueForm::Text);
        has_place && setting.value.is_some()
    });
    for setting in of_language {
        let _ = writeln!(app, "{} = {}", setting.name, quoted(setting.value.as_deref().unwrap_or_default()));
    }
    let proxy = upstreams(&plan.app);
    if !path.is_file() && proxy.is_none() {
        // In [server], they hold for the routes and for all apps.
        server.push_str(&std::mem::take(&mut app));
    }
    let mut text = "# oribi.toml\n".to_owned();
    if !server.is_empty() {
        let _ = write!(text, "\n[server]\n{server}");
    }
    for address in &settings.listen {
        let _ = write!(text, "\n[[listen]]\naddress = {}\n", quoted(&address.to_string()));
    }
    if path.is_file() {
        let _ = write!(text, "\n[app.{}]\nfile = {}\n{app}", name(&file), quoted(&file.display().to_string()));
    } else if let Some(proxy) = proxy {
        let _ = write!(text, "\n[app.upstream]\nproxy = {proxy}\n{app}");
    } else {
        let _ = write!(text, "\n# `oribi check` refuses this file, because it has no app: {}\n{WITHOUT_APP}", plan.app);
    }
    // The table of the app has the upstreams.
    for setting in elsewhere.into_iter().filter(|setting| setting.name != "proxy") {
        let _ = writeln!(text, "# Not in a file: --{} {}", setting.name, setting.value.as_deref().unwrap_or_default());
    }
    text
}

/// The next best in a file, as a comment.
const WITHOUT_APP: &str = "\
# Add an [app.NAME]. Beside it, a [[route]] may have files = { root = \"DIR\" } or respond = { content = \"TEXT\" }.
";

/// The value of `proxy`, if `app` is a list of upstreams.
fn upstreams(app: &str) -> Option<String> {
    let upstreams = Upstream::parse_list(app).ok().filter(|_| is_upstream(app))?;
    let urls: Vec<String> = upstreams.iter().map(|upstream| quoted(&upstream.to_string())).collect();
    Some(if let [url] = &urls[..] { url.clone() } else { format!("[{}]", urls.join(", ")) })
}

/// A name for the app: that of its file, or of its folder where all files have the same name.
fn name(file: &Path) -> String {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let folder = || file.parent().and_then(Path::file_name).map(|folder| folder.to_string_lossy().into_owned());
    let name = if matches!(stem.as_str(), "app" | "config") { folder().unwrap_or(stem) } else { stem };
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
    let name: String = name.chars().map(|letter| if fits(letter) { letter } else { '-' }).take(64).collect();
    if name.is_empty() { "app".to_owned() } else { name }
}

/// A number as it is, and any other value as a string, whose escapes TOML has from JSON.
fn quoted(value: &str) -> String {
    let is_number = value.parse::<u64>().is_ok_and(|number| number.to_string() == value);
    if is_number { value.to_owned() } else { to_json(&value).replace('\u{7f}', "\\u007f") }
}
