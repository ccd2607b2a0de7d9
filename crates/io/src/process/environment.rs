//! The environment that this process was started with.
//!
//! An app may change its environment, or clear it, while it is loaded. So the server takes a copy before that, hides its own
//! variables from the app, and reads the copy from then on.
#![allow(unsafe_code)]

use std::ffi::OsString;
use std::sync::OnceLock;

static KEPT: OnceLock<Vec<(OsString, OsString)>> = OnceLock::new();

/// Takes the copy, unless there is one.
pub fn keep() {
    KEPT.get_or_init(|| std::env::vars_os().collect());
}

/// Takes the copy, and removes these variables from the environment of this process and of the programs that it starts.
///
/// Call it before other threads of this process read the environment.
pub fn hide(names: &[&str]) {
    keep();
    for name in names.iter().filter(|name| std::env::var_os(name).is_some()) {
        // SAFETY: by the rule above no other thread reads the environment meanwhile. The text of a removed variable stays in
        // memory, so a pointer that other code has got from getenv(3) stays valid.
        unsafe { std::env::remove_var(name) };
    }
}

/// A variable of the copy, or of the current environment if there is no copy.
#[must_use]
pub fn variable_os(name: &str) -> Option<OsString> {
    match KEPT.get() {
        Some(kept) => kept.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone()),
        None => std::env::var_os(name),
    }
}

/// Like [`variable_os`], as text; `None` also if it is not valid UTF-8.
#[must_use]
pub fn variable(name: &str) -> Option<String> {
    variable_os(name)?.into_string().ok()
}

/// All variables of the copy, or of the current environment if there is no copy.
#[must_use]
pub fn variables() -> Vec<(OsString, OsString)> {
    KEPT.get().map_or_else(|| std::env::vars_os().collect(), Clone::clone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Set in the process that the test starts: the copy belongs to a whole process.
    const OWN: &str = "ORIBI_TEST_ENVIRONMENT";

    #[test]
    fn a_variable_that_is_hidden_or_removed_later_is_still_known() {
        if std::env::var_os(OWN).is_none() {
            let name = "process::environment::tests::a_variable_that_is_hidden_or_removed_later_is_still_known";
            let mut again = Command::new(std::env::current_exe().expect("it runs"));
            let outcome = again.args(["--exact", name]).env(OWN, "a").env("ORIBI_TEST_LATER", "b").output();
            let outcome = outcome.expect("it can be started");
            let output = String::from_utf8_lossy(&outcome.stdout);
            assert!(outcome.status.success() && output.contains(" 1 passed"), "{output}");
            return;
        }
        hide(&[OWN, "ORIBI_TEST_NONE"]);
        assert_eq!(std::env::var_os(OWN), None);
        assert_eq!(variable(OWN).as_deref(), Some("a"));
        // SAFETY: as in `hide`: no other test runs in this process.
        unsafe { std::env::remove_var("ORIBI_TEST_LATER") };
        assert_eq!(variable("ORIBI_TEST_LATER").as_deref(), Some("b"));
        assert_eq!(variable("ORIBI_TEST_NONE"), None);
        assert!(variables().iter().any(|(name, value)| name == "ORIBI_TEST_LATER" && value == "b"));
    }
}
