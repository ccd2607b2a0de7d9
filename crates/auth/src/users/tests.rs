//! Hashes that other programs have made: `openssl passwd`, crypt(3), and the tests of the reference implementation of Argon2.

use super::Users;

/// The password of all, unless another is given.
const SECRET: &str = "secret";

const STRONG: &[&str] = &[
    "$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a",
    "$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a",
    "$2a$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a",
    "$6$saltsalt$TVLlQcbpFVof5W3Yz4DTP6gRstiNuHwwTt6GLc1E5n0U0aDehy0S5knV8wiOQSpT0Y77vwPZN.Pq.H91p5hVO1",
    "$6$rounds=1000$saltsalt$LAV5VE5Y7w1d73x1mFNspYWUpazfmwv2SoepNXNKJ/otop/Zok96Hr8Q13LEv0DRY/x8v0/crpIjl8NJSAqXV/",
    "$5$saltsalt$0IyaXrmV7.sGNS6tirgqHLqX/G.FBvgkYA.lpPdS5sA",
    "$5$rounds=10000$saltsalt$RUsnTSO2Cw.gkRW/RZSmG6BCeuh1a6eDbZfnX4oz1c5",
];

const WEAK: &[&str] = &[
    "$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0",
    "$1$abc$iCQ2D3nhptRYi27fDYv2s1",
    "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=",
    "{SSHA}gVK8WC9YyFT1gMsQHTGCgT3sSv5zYWx0",
];

fn users(hash: &str, weak: bool) -> Result<Users, String> {
    let file = format!("# a comment\n\nalice:{hash}:Alice\r\n");
    Users::read(file.as_bytes(), weak).map_err(|mistakes| {
        assert_eq!((mistakes.len(), mistakes[0].line), (1, 3));
        mistakes[0].message.clone()
    })
}

#[track_caller]
fn assert_only(hash: &str, password: &str) {
    let users = users(hash, true).expect("the hash is known");
    assert!(users.check(b"alice", password.as_bytes()), "{hash}");
    for (user, other) in [("alice", "Secret"), ("alice", ""), ("alice", "secret "), ("bob", password), ("", password)] {
        assert!(!users.check(user.as_bytes(), other.as_bytes()), "{hash}: {user} {other}");
    }
}

#[test]
fn passwords_are_compared_with_hashes_of_all_kinds() {
    STRONG.iter().chain(WEAK).for_each(|hash| assert_only(hash, SECRET));
    assert_only("$apr1$xy$P1w.0Le4ZEIFwo7Pk.KOU.", "a much longer password than 16 bytes");
    assert_only("$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4", "password");
}

#[test]
fn weak_hashes_must_be_allowed() {
    STRONG.iter().for_each(|hash| assert!(users(hash, false).is_ok(), "{hash}"));
    for hash in WEAK {
        let why = users(hash, false).expect_err("it is weak");
        assert!(
            why.contains("can be guessed quickly") && why.contains("`htpasswd -B`") && why.contains("weak = true"),
            "{why}"
        );
    }
}

#[test]
fn costs_are_bounded() {
    let salt = "$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";
    for (hash, reason) in [
        (format!("$argon2id$v=19$m=262145,t=1,p=1{salt}"), "256 MiB of memory"),
        (format!("$argon2id$v=19$m=262144,t=17,p=1{salt}"), "17 passes over 262144 KiB"),
        (STRONG[0].replace("$05$", "$17$"), "its cost is 17"),
        (STRONG[4].replace("1000", "1000001"), "1000001 rounds"),
    ] {
        let why = users(&hash, true).expect_err("it costs too much");
        assert!(why.contains(reason), "{why}");
    }
    assert!(users(&format!("$argon2id$v=19$m=262144,t=1,p=1{salt}"), false).is_ok());
}

#[test]
fn no_message_has_a_part_of_a_hash() {
    let unusable = [
        "$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0",
        "$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0é",
        "$2y$",
        "$argon2id$v=19$m=256,t=2$c29tZXNhbHQ$nf65EOgLrQMR",
        "$argon2id$v=19$m=256,t=2,p=1,m=9$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
        "$argon2id$v=19$m=1,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
        "$argon2x$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
        "$6$saltsalt",
        "$6$$",
        "$5$rounds=10$saltsalt$0IyaXrmV7.sGNS6tirgqHLqX/G.FBvgkYA.lpPdS5sA",
        "$apr1$saltsalt",
        "{SHA}abc",
        "{SHA}gVK8WC9YyFT1gMsQHTGCgT3sSv5zYWx0",
        "{PLAIN}secret",
        "secret",
        "rl0uE0dI2VQXM",
        "$y$j9T$abc$def",
    ];
    for hash in unusable {
        let why = users(hash, true).expect_err("it is not usable");
        assert!(why.contains("`htpasswd -B`") && !why.contains("secret") && !why.contains("salt$"), "{hash}: {why}");
    }
}

#[test]
fn each_line_has_a_user_and_a_hash() {
    let bad = |line: &str| Users::read(format!("{line}\n{}\n", "good:$1$abc$iCQ2D3nhptRYi27fDYv2s1").as_bytes(), true);
    for line in ["alice", ":$1$abc$iCQ2D3nhptRYi27fDYv2s1", "alice:", "al\tice:$1$abc$iCQ2D3nhptRYi27fDYv2s1"] {
        assert_eq!(bad(line).map_err(|mistakes| mistakes[0].line).expect_err(line), 1, "{line}");
    }
    let twice = Users::read(b"a:$1$abc$iCQ2D3nhptRYi27fDYv2s1\na:$1$abc$iCQ2D3nhptRYi27fDYv2s1", true);
    assert_eq!(twice.expect_err("twice")[0].line, 2);
    let none = Users::read(b"", false).expect("a file may be empty");
    assert!(none.is_empty() && !none.check(b"", b"") && !none.check(b"alice", b"secret"));
    let users = Users::read(b"a:$1$abc$iCQ2D3nhptRYi27fDYv2s1\nb:$1$abc$iCQ2D3nhptRYi27fDYv2s1", true).expect("two");
    assert_eq!(users.len(), 2);
    assert!(!users.check(b"c", b"secret"), "an unknown user has no password, also not that of the first one");
}
