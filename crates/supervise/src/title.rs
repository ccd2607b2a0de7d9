//! Process titles, as in `oribi: worker 3 app.psgi (generation 2)`.

use oribi_config::Settings;
use oribi_host::Runtime;

/// The role and the current activity of a process.
pub(super) struct Title<'a> {
    /// The role: `master`, `worker 3`.
    pub(super) role: &'a str,
    /// The number of the load of the app. `None` without a master.
    pub(super) generation: Option<u64>,
    /// The activity. Empty while the process serves.
    pub(super) state: &'a str,
}

impl Title<'_> {
    /// Sets the title, unless `settings` disable titles. The language runtime sets the title if the process runs the language's
    /// own program. Otherwise the process runs this program, as a master does, and sets the title itself.
    pub(super) fn show(&self, settings: &Settings, runtime: Option<&dyn Runtime>) {
        if !settings.process_titles {
            return;
        }
        let text = self.text(&settings.app_name);
        if !runtime.is_some_and(|runtime| runtime.set_title(&text)) {
            oribi_io::process::set_title(&text);
        }
    }

    fn text(&self, app: &str) -> String {
        let mut text = format!("oribi: {}", self.role);
        if !app.is_empty() {
            text.push(' ');
            text.push_str(app);
        }
        match (self.generation, self.state) {
            (None, "") => {}
            (None, state) => text.push_str(&format!(" ({state})")),
            (Some(number), "") => text.push_str(&format!(" (generation {number})")),
            (Some(number), state) => text.push_str(&format!(" (generation {number}, {state})")),
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::Title;

    #[test]
    fn titles_tell_role_app_generation_and_state() {
        let text = |role, generation, state, app| Title { role, generation, state }.text(app);
        assert_eq!(text("worker 3", None, "", "app.psgi"), "oribi: worker 3 app.psgi");
        assert_eq!(text("worker 3", Some(2), "", "app.psgi"), "oribi: worker 3 app.psgi (generation 2)");
        assert_eq!(text("mold", Some(2), "stopping", ""), "oribi: mold (generation 2, stopping)");
        assert_eq!(text("master", None, "loading", "x"), "oribi: master x (loading)");
    }
}
