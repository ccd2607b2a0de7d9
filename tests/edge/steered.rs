//! A server that its test asks and steers by `oribi ctl`.

use crate::language::{Language, Site};
use crate::server::Folder;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

pub struct Steered {
    pub site: Site,
    control: PathBuf,
    _folder: Folder,
}

impl Steered {
    pub fn start(language: Language, arguments: &[&str]) -> Self {
        let folder = Folder::new();
        let control = folder.file("control.sock");
        let site = language.start(&[&["--control", control.to_str().expect("a plain path")], arguments].concat());
        Self { site, control, _folder: folder }
    }

    pub fn control(&self) -> &Path {
        &self.control
    }

    fn command(&self, order: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oribi"));
        command.arg("ctl").args(order).arg("--control").arg(&self.control);
        command
    }

    pub fn ctl(&self, order: &[&str]) -> Output {
        self.command(order).output().expect("it was built")
    }

    /// Starts an `oribi ctl` with an order that takes a while.
    pub fn begin(&self, order: &[&str]) -> Child {
        self.command(order).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it was built")
    }

    /// Returns the output of `oribi ctl` with an order that must succeed.
    pub fn well(&self, order: &[&str]) -> String {
        let output = self.ctl(order);
        assert_eq!(output.status.code(), Some(0), "{order:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    /// A list in the answer to an order.
    pub fn list(&self, order: &str, name: &str) -> Vec<Value> {
        let answer: Value = serde_json::from_str(&self.well(&[order, "--json"])).expect("JSON");
        answer[name].as_array().expect("a list").clone()
    }

    /// Returns the states of the workers, as the server reports them.
    pub fn states_of_workers(&self) -> Vec<String> {
        let processes = self.list("workers", "processes");
        let workers = processes.iter().filter(|process| process["kind"] == "worker");
        workers.map(|worker| worker["state"].as_str().expect("text").to_owned()).collect()
    }
}
