//! Compares tables with the plain reading of the rules, over many random rules and requests.

#[path = "../../../fuzz/bodies/route.rs"]
mod body;
mod reference;

/// A linear congruential generator: the same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn one_of<'a>(&mut self, texts: &[&'a str]) -> &'a str {
        texts[self.below(texts.len())]
    }

    /// A text of so many pieces at most.
    fn text(&mut self, pieces: &[&str], most: usize) -> String {
        (0..self.below(most + 1)).map(|_| self.one_of(pieces)).collect()
    }
}

/// The texts are short and have few different bytes, so that patterns often match.
fn rule(random: &mut Random, lines: &mut String) {
    lines.push_str("R\n");
    let mut list = |letter: char, odds: usize, pattern: &dyn Fn(&mut Random) -> String| {
        if random.below(odds) > 0 {
            return;
        }
        for _ in 0..=random.below(3) {
            let sign = if random.below(4) == 0 { "!" } else { "" };
            let pattern = pattern(random);
            match pattern.split_once('=') {
                Some((name, value)) if letter == 'f' || letter == 'q' => {
                    lines.push_str(&format!("{letter}{name}={sign}{value}\n"));
                }
                None if letter == 'f' || letter == 'q' => lines.push_str(&format!("{letter}{pattern}\n")),
                _ => lines.push_str(&format!("{letter}{sign}{pattern}\n")),
            }
        }
    };
    list('h', 2, &|random| {
        random
            .one_of(&["a.b", "A.B.", "c.a.b", "*.b", "*.a.b", "*.B", "*", "[::1]", "[::A]", "c", "a-longer-name.b", "*.c.a.b"])
            .into()
    });
    list('p', 2, &|random| match random.below(6) {
        0 => random.one_of(&["~a", "~^/a/b$", "~^/a", "~b/$", "~^/.*a.b", "~[^/]b"]).into(),
        1 => format!("/{}", random.text(&["a", "b", "*"], 4)),
        2 => format!("/{}*", ["", "a", "b", "ab", "a/", "a/b", "b/a/b"][random.below(7)]),
        3 => random.one_of(&["*", "*b", "/*/a", "/a*/b", "/a/*/b/*"]).into(),
        _ => format!("/{}", ["", "a", "b", "ab", "a/", "a/b", "b/a/b"][random.below(7)]),
    });
    list('m', 6, &|random| random.one_of(&["GET", "PUT", "P*", "~^(GET|PUT)$"]).into());
    list('f', 6, &|random| random.one_of(&["X-A", "x-a=a", "X-A=a*", "Accept=*b*", "accept=~^a$", "X-B=*"]).into());
    list('q', 6, &|random| random.one_of(&["a", "a=b", "a=*b", "a b=a", "b=~a", "b=*"]).into());
    list('s', 8, &|random| {
        random.one_of(&["10.0.0.0/8", "10.0.0.1", "::/0", "::1", "::ffff:10.0.0.0/104", "0.0.0.0/0"]).into()
    });
    list('d', 8, &|random| {
        random
            .one_of(&["10.0.0.1", "10.0.0.0/8:80", "[::1]:80-90", "::/0", "*:80", ":81-90", "unix", "::ffff:10.0.0.0/104"])
            .into()
    });
    list('t', 8, &|random| random.one_of(&["http", "https"]).into());
}

fn request(random: &mut Random, lines: &mut String) {
    let path = random.text(
        &["a", "b", "/", "/", "a/b", ".", "..", "/../", "%61", "%2F", "%2e", "%", "%zz", "\u{e9}", "%0a", "%ff", "%00"],
        7,
    );
    let start = random.one_of(&["/", "/", "/", "/", "/", "http://a.b/", "HTTPS://x.a.b:80/", "http://c", "", "*"]);
    let query = random.text(&["?", "a", "=", "b", "&", "+", "%62", "%", "a=b", "&b=a", "a+b=a"], 6);
    lines.push_str(&format!("Q{start}{path}{query}\n"));
    if random.below(8) > 0 {
        let hosts = [
            "a.b",
            "A.b:80",
            "a.b.",
            "c.a.b",
            "d.C.a.B",
            "x.b",
            "b",
            ".b",
            ".a.b",
            "c",
            "[::1]",
            "[0:0::1]:443",
            "[::a]",
            "[::1",
            "",
            "a.b:x",
            "A-Longer-NAME.B",
            "x.a-longer-name.b:",
            "10.0.0.1:80",
            "c.a.b.:1",
        ];
        lines.push_str(&format!("h{}\n", random.one_of(&hosts)));
    }
    lines.push_str(&format!("m{}\n", random.one_of(&["GET", "PUT", "POST", "get", ""])));
    for _ in 0..random.below(4) {
        let (name, value) = (random.one_of(&["X-A", "x-a", "ACCEPT", "accept", "x-b", "y"]), random.text(&["a", "b", "c"], 3));
        lines.push_str(&format!("f{name}={value}\n"));
    }
    if random.below(4) > 0 {
        let source = random.one_of(&["10.0.0.1", "10.1.2.3", "192.0.2.1", "::1", "2001:db8::1", "::ffff:10.0.0.1"]);
        lines.push_str(&format!("s{source}\n"));
    }
    if random.below(4) > 0 {
        let places = ["10.0.0.1:80", "10.1.2.3:81", "192.0.2.1:90", "[::1]:80", "[::ffff:10.0.0.1]:91", "unix", "80", "81"];
        lines.push_str(&format!("d{}\n", random.one_of(&places)));
    }
    lines.push_str(random.one_of(&["thttp\n", "thttps\n"]));
}

#[test]
fn a_table_chooses_as_the_plain_reading_of_its_rules() {
    let mut random = Random(1);
    let mut requests = 0;
    for round in 0..3000 {
        let mut lines = String::new();
        let rules = if round % 10 == 0 { 1 + random.below(200) } else { 1 + random.below(12) };
        (0..rules).for_each(|_| rule(&mut random, &mut lines));
        (0..20).for_each(|_| request(&mut random, &mut lines));
        let checked = body::check(lines.as_bytes());
        requests += checked;
    }
    assert!(requests > 40_000, "only {requests} requests were compared: most rules were not valid");
}

#[test]
fn no_bytes_of_a_request_cause_a_panic() {
    let mut random = Random(2);
    let bytes = b"/.%?&=+:[]*!~\\#@aA0\0\xff\xc3\x80 ;-";
    let rules = b"R\nh*.a\nR\nha\np/a\nR\nh[::1]\np~^/a.*a$\nR\np/*a*\nR\np!/a/*\nR\nqa=~.\nfa=*a\nR\nqa\nR\n";
    for _ in 0..30_000 {
        let mut lines = rules.to_vec();
        let mut text = |letter: u8, length: usize| {
            lines.push(letter);
            let start = if random.below(2) == 0 { 0 } else { bytes.len() };
            for place in 0..random.below(length) {
                lines.push(if start == 0 && place == 0 { b'/' } else { bytes[random.below(bytes.len())] });
            }
            lines.push(b'\n');
        };
        text(b'Q', 24);
        text(b'h', 20);
        text(b'f', 5);
        text(b'm', 3);
        assert_eq!(body::check(&lines), 1);
    }
}

#[test]
fn no_bytes_of_rules_cause_a_panic() {
    let mut random = Random(3);
    let bytes = b"/.%*!~[](){}^$|\\?+:@aA09\0\xc3\xa9 -,#";
    for _ in 0..30_000 {
        let mut lines = b"R\n".to_vec();
        for _ in 0..1 + random.below(3) {
            lines.push(b"hpmfqstd"[random.below(8)]);
            lines.extend((0..random.below(12)).map(|_| bytes[random.below(bytes.len())]));
            lines.push(b'\n');
        }
        lines.extend(b"Q/aA/%09?a=A\nha.A\n");
        body::check(&lines);
    }
}
