//! The grammars of the commands whose output packages ship as files: completions and manual pages.

use clap::builder::PossibleValue;
use clap::{Arg, Command};

const WHERE: &str = "\
Where the script belongs:
  bash  /usr/share/bash-completion/completions/oribi, or ~/.local/share/bash-completion/completions/oribi
  zsh   /usr/share/zsh/vendor-completions/_oribi, or any directory in fpath
  fish  /usr/share/fish/vendor_completions.d/oribi.fish, or ~/.config/fish/completions/oribi.fish";

/// The grammar of `oribi schema`.
pub fn schema() -> Command {
    Command::new("oribi schema")
        .bin_name("oribi schema")
        .about("Prints the JSON schema of oribi.toml, by which editors complete and check the file.")
        .override_usage("oribi schema > oribi.schema.json")
}

/// The grammar of `oribi completions`.
pub fn completions() -> Command {
    let shells = ["bash", "zsh", "fish"].map(PossibleValue::new);
    Command::new("oribi completions")
        .bin_name("oribi completions")
        .about("Prints a script by which a shell completes the command line of oribi.")
        .override_usage("oribi completions bash|zsh|fish")
        .after_help(WHERE)
        .arg(Arg::new("SHELL").required(true).value_parser(shells).help("The shell"))
}

/// The grammar of `oribi manual`.
pub fn manual() -> Command {
    let pages = ["oribi", "oribi-ctl", "oribi-top"].map(PossibleValue::new);
    Command::new("oribi manual")
        .bin_name("oribi manual")
        .about("Prints a manual page: `oribi manual oribi-ctl | man -l -` displays it.")
        .override_usage("oribi manual [oribi|oribi-ctl|oribi-top]")
        .arg(Arg::new("PAGE").default_value("oribi").value_parser(pages).help("The page"))
}
