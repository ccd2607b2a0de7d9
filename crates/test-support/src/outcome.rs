//! Programs that have ended.

use std::process::Output;

/// The end of a program and its output.
pub struct Outcome {
    pub status: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Outcome {
    pub fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        Self { status: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    #[track_caller]
    pub fn fails(&self, status: i32, parts: &[&str]) {
        assert_eq!(self.status, Some(status), "{}{}", self.out, self.err);
        for part in parts {
            assert!(self.err.contains(part), "{part:?} is not in {:?}", self.err);
        }
    }

    /// Returns the row for a setting in the output of `oribi check`: the value and its origin.
    #[track_caller]
    pub fn planned(&self, name: &str) -> Vec<&str> {
        assert_eq!(self.status, Some(0), "{}{}", self.out, self.err);
        let line = self.out.lines().find(|line| line.split_whitespace().next() == Some(name));
        line.unwrap_or_default().split_whitespace().skip(1).collect()
    }
}
