//! The output of `oribi check`: a text for users, or JSON for programs.

use crate::planned_setting::PlannedSetting;
use crate::print_config;
use oribi_control_api::to_json;
use oribi_server::config::{Plan, PlanPart, Scope, Setting};
use serde::Serialize;
use std::fmt::Write;

/// The form of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanForm {
    /// Whether only settings are printed whose value is not the default.
    pub changed: bool,
    /// Whether the output is JSON.
    pub json: bool,
    /// Whether the output is an `oribi.toml`.
    pub config: bool,
}

/// The plan as JSON.
#[derive(Serialize)]
struct PlanReport<'a> {
    /// The version of this program.
    version: &'a str,
    app: &'a str,
    language: &'a str,
    settings: Vec<&'a PlannedSetting>,
}

impl PlanForm {
    /// The output for a plan and the settings of the app's host.
    pub fn text(self, plan: &Plan<'_>, of_host: &[PlannedSetting]) -> String {
        if self.config {
            return print_config::text(plan, of_host);
        }
        let of_server = settings(plan);
        let wanted = |setting: &&PlannedSetting| setting.is_changed || !self.changed;
        if self.json {
            let settings = of_server.iter().chain(of_host).filter(wanted).collect();
            let report = PlanReport { version: env!("CARGO_PKG_VERSION"), app: &plan.app, language: &plan.language, settings };
            return format!("{}\n", to_json(&report));
        }
        let mut text = if self.changed { String::new() } else { plan.to_string() };
        // Each table has its own widths.
        for settings in [if self.changed { &of_server[..] } else { &[] }, of_host] {
            write_table(&settings.iter().filter(wanted).collect::<Vec<_>>(), &mut text);
        }
        if text.is_empty() { "all settings have their defaults\n".to_owned() } else { text }
    }
}

/// The settings of the server.
fn settings(plan: &Plan<'_>) -> Vec<PlannedSetting> {
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    // The plan of the server has the others.
    let belongs = |setting: &Setting| !matches!(plan.part, PlanPart::App) || setting.scope == Scope::App;
    let explained = plan.resolved.explain().filter(|(setting, _)| belongs(setting));
    let planned = explained.map(|(setting, explained)| PlannedSetting {
        section: setting.section.title(),
        name: setting.name,
        is_changed: explained.is_changed(),
        value: some(explained.value),
        origin: explained.origin.to_string(),
        default: setting.default_text().and_then(some),
    });
    planned.collect()
}

fn write_table(settings: &[&PlannedSetting], text: &mut String) {
    let value = |setting: &PlannedSetting| setting.value.clone().unwrap_or_else(|| "(none)".to_owned());
    let width_of_names = settings.iter().map(|setting| setting.name.len()).max().unwrap_or(0);
    // One long path must not push the origins of all other values off the screen.
    let widths = settings.iter().map(|setting| value(setting).chars().count());
    let width_of_values = widths.filter(|width| *width <= 32).max().unwrap_or(0);
    let mut section = None;
    for setting in settings {
        if section.replace(setting.section) != Some(setting.section) {
            let between = if text.is_empty() { "" } else { "\n" };
            let _ = writeln!(text, "{between}{}:", setting.section);
        }
        let (name, origin) = (setting.name, &setting.origin);
        let _ = writeln!(text, "  {name:<width_of_names$}  {:<width_of_values$}  {origin}", value(setting));
    }
}
