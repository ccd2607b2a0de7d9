//! Content of the file with the proof.

use super::parse;

/// A key of P-256, and bytes that are not a certificate, which nothing checks here.
const PROOF: &str = "a.example\n-----BEGIN PRIVATE KEY-----\n\
    MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgAAAAAAAAAAAAAAAA\n\
    AAAAAAAAAAAAAAAAAAAAAAAAAAGhRANCAARrF9Hy4SxCR/i85uVjpEDydwN9gS3r\n\
    M6D0oTlF2JjClk/jQuL+Gn+bjufrSnwPnhYrzjNXazFezsu2QGg3v1H1\n-----END PRIVATE KEY-----\n\
    -----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

#[test]
fn the_proof_is_shown_for_its_name_alone() {
    let found = parse(PROOF.as_bytes(), "A.Example").expect("it is for this name");
    assert_eq!(found.cert[0].as_ref(), [0; 3]);
    for name in ["b.example", "a.example.org", "a", ""] {
        assert!(parse(PROOF.as_bytes(), name).is_none(), "{name}");
    }
}

#[test]
fn a_file_that_is_being_written_has_no_proof() {
    // The last line may lack its end.
    let whole = PROOF.len() - 1;
    for size in 0..whole {
        assert!(parse(&PROOF.as_bytes()[..size], "a.example").is_none(), "{size} bytes");
    }
    assert!(parse(&PROOF.as_bytes()[..whole], "a.example").is_some());
    let mut torn = PROOF.as_bytes().to_vec();
    for place in 0..torn.len() {
        // Any byte may follow, and nothing panics.
        let before = std::mem::replace(&mut torn[place], 0xff);
        let _ = parse(&torn, "a.example");
        torn[place] = before;
    }
}
