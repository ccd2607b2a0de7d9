//! What stands behind the content, on its way from the app of each language to real clients.

use crate::language::{Language, Launcher, Site};
use crate::turn;
use std::process::Command;

crate::in_every_language!(clients_get_what_stands_behind_the_content);

fn clients_get_what_stands_behind_the_content(language: Language) {
    let _turn = turn::beside_others();
    for edge in ["on", "off"] {
        let site = Site::start(Launcher::Oribi, language, &["--edge", edge, "--workers", "2"]);
        for (number, length) in [(1, 5), (2, 300_000)] {
            let url = format!("http://{}/trailers?{number}&{length}", site.address);
            for (version, expected) in [("--http2-prior-knowledge", true), ("--http1.1", true), ("--http1.0", false)] {
                // The trailers stand among the fields, behind those of the head.
                let mut curl = Command::new("curl");
                curl.args(["-sS", "--max-time", "50", version, "-o", "/dev/null", "-D", "-", "-w", "%{size_download}", &url]);
                let output = curl.output().expect("curl is installed");
                let said = String::from_utf8_lossy(&output.stdout).to_ascii_lowercase().replace("\r\n", "\n");
                let case = format!("edge {edge}, {version}: {said}{}", String::from_utf8_lossy(&output.stderr));
                assert!(output.status.success(), "{case}");
                let (head, behind) = said.split_once("\n\n").expect("the end of the head");
                assert!(head.contains(" 200") && !head.contains("x-number"), "{case}");
                let trailers = format!("x-number: {number}\nx-length: {length}\n");
                assert!(behind.contains(&trailers) == expected && behind.ends_with(&length.to_string()), "{case}");
            }
        }
    }
}
