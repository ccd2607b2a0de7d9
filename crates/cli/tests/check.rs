//! The forms of the output of `oribi check`: `--changed`, `--json`, and both.

#[allow(dead_code, reason = "another test uses the rest")]
mod lua_directory;

use lua_directory::TestDirectory;
use oribi_server::config::table;
use oribi_test_support::outcome::Outcome;
use serde_json::Value;

fn place() -> TestDirectory {
    let place = TestDirectory::new();
    place.file("app.lua", "return function() return 200, {}, 'hello' end");
    place.file("static/a", "");
    place
}

/// The settings of a plan in JSON, which must be one line.
fn settings(plan: &Outcome) -> Vec<Value> {
    assert_eq!((plan.status, plan.out.lines().count()), (Some(0), 1), "{}{}", plan.out, plan.err);
    let plan: Value = serde_json::from_str(&plan.out).expect("it is JSON");
    assert_eq!((&plan["version"], &plan["app"]), (&Value::from(env!("CARGO_PKG_VERSION")), &Value::from("app.lua")));
    assert!(plan["language"].as_str().is_some_and(|language| language.starts_with("Lua: ")), "{plan}");
    plan["settings"].as_array().expect("a list").clone()
}

#[test]
fn only_settings_with_other_values_than_their_defaults_are_changed() {
    let place = place();
    assert_eq!(place.run(&["check", "--changed"]).out, "all settings have their defaults\n");
    // A default that depends on the machine is no value to compare with.
    let plan = place.run(&["check", "--changed", "--workers", "1", "--backlog", "4096", "--timeout", "9", "--states", "7"]);
    let expected = "Workers and threads:\n  workers         1   command line\n\n\
                    Timeouts:\n  header-timeout  9s  command line\n  body-timeout    9s  command line\n  \
                    write-timeout   9s  command line\n\nLua:\n  states  7  command line\n";
    assert_eq!((plan.status, plan.out.as_str()), (Some(0), expected));
    let mut command = place.command(env!("CARGO_BIN_EXE_oribi"));
    command.args(["check", "app.lua", "--changed"]).env("PORT", "8080").env("ORIBI_CONTROL", "/run/a.sock");
    let plan = Outcome::of(command.output().expect("it was built"));
    assert_eq!(plan.planned("listen"), ["*:8080", "environment", "(PORT)"]);
    assert_eq!(plan.planned("control"), ["/run/a.sock", "environment", "(ORIBI_CONTROL)"]);
}

#[test]
fn json_has_every_setting_with_its_value_origin_and_default() {
    let place = place();
    let arguments = ["--max-requests", "7", "--static", "/s=static", "-E", "development"];
    let plan = place.run(&[&["check", "app.lua"], &arguments[..]].concat());
    let all = settings(&place.run(&[&["check", "--json", "app.lua"], &arguments[..]].concat()));
    let named = |name: &str| all.iter().find(|setting| setting["name"] == name).unwrap_or_else(|| panic!("no {name}"));
    // Lines of settings are indented.
    let line = |name: &str| plan.out.lines().find_map(|line| line.strip_prefix(&format!("  {name} ")));
    for (setting, line) in table().iter().filter_map(|setting| Some((setting, line(setting.name)?))) {
        let found = named(setting.name);
        assert_eq!(found["default"].as_str().unwrap_or_default(), setting.default_text().unwrap_or_default());
        // The text has the same value, with the same parts hidden.
        let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
        let origin = found["origin"].as_str().expect("it has one");
        match found["value"].as_str() {
            Some(value) => assert_eq!(words, format!("{value} {origin}")),
            None => assert!(words.starts_with('(') && words.ends_with(origin), "{words}"),
        }
    }
    assert_eq!(named("max-requests")["section"], "Workers and threads");
    assert_eq!(named("pid-file")["value"], Value::Null);
    assert_eq!((&named("show-errors")["value"], &named("show-errors")["origin"]), (&"on".into(), &"--env".into()));
    assert_eq!(all.len(), plan.out.lines().filter(|line| line.starts_with("  ")).count());
    assert!(all.len() > 120, "{} settings", all.len());
}

#[test]
fn both_together_print_the_changed_settings_as_json() {
    let changed = settings(&place().run(&["check", "app.lua", "--json", "--changed", "--max-requests", "7"]));
    let names: Vec<&Value> = changed.iter().map(|setting| &setting["name"]).collect();
    assert_eq!(names, ["max-requests"]);
    assert_eq!((&changed[0]["value"], &changed[0]["default"]), (&"7".into(), &"off".into()));
}

#[test]
fn a_printed_file_says_the_same_as_the_options() {
    let place = place();
    let options = [
        ["--listen", "127.0.0.1:0"],
        ["--listen", "shop.sock?mode=660"],
        ["--workers", "3"],
        ["--request-timeout", "9s"],
        ["--static", "/s=static"],
        ["--static", "/t=static"],
        ["--trusted-proxies", "10.0.0.0/8"],
        ["--header-timeout", "7s"],
    ];
    let printed = place.run(&[&["check", "app.lua", "--print-config", "--states", "7"], &options.concat()[..]].concat());
    assert_eq!(printed.status, Some(0), "{}", printed.err);
    assert!(printed.out.contains("\nworkers = 3\n") && printed.out.contains("\nstates = 7\n"), "{}", printed.out);
    place.file("oribi.toml", &printed.out);
    let planned = |arguments: &[&str]| -> Vec<(String, String)> {
        let plan = place.run(arguments);
        assert_eq!(plan.status, Some(0), "{}{}", plan.out, plan.err);
        let pair = |line: &str| {
            let mut words = line.strip_prefix("  ")?.split_whitespace().map(str::to_owned);
            Some((words.next()?, words.next()?))
        };
        plan.out.lines().filter_map(pair).collect()
    };
    let of_file = planned(&["check", "-c", "oribi.toml", "--changed"]);
    for pair in planned(&[&["check", "app.lua", "--changed"], &options.concat()[..]].concat()) {
        assert!(of_file.contains(&pair), "{pair:?} is not among {of_file:?}");
    }
    let refused = place.run(&["app.lua", "--print-config"]);
    assert_eq!(refused.status, Some(2), "it is for check: {}", refused.err);
}

#[test]
fn a_printed_file_names_upstreams_or_says_that_it_has_no_app() {
    let place = place();
    for (urls, proxy) in [
        ("http://127.0.0.1:3000", "\"http://127.0.0.1:3000\""),
        ("http://127.0.0.1:3000,http+unix:/run/a.sock", "[\"http://127.0.0.1:3000\", \"http+unix:/run/a.sock\"]"),
    ] {
        let printed = place.run(&["check", urls, "--workers", "1:2", "--print-config"]);
        let table = format!("[app.upstream]\nproxy = {proxy}\nworkers = \"1:2\"\n");
        assert!(printed.out.ends_with(&table), "{}{}", printed.out, printed.err);
        place.file("oribi.toml", &printed.out);
        let plan = place.run(&["check", "-c", "oribi.toml", "--changed"]);
        assert_eq!(plan.status, Some(0), "{}{}", plan.out, plan.err);
        assert!(plan.out.contains("http://127.0.0.1:3000"), "{}", plan.out);
        assert!(plan.out.lines().any(|line| line.split_whitespace().take(2).eq(["workers", "1:2"])), "{}", plan.out);
    }
    let printed = place.run(&["check", "serve", "static", "--listing", "--print-config"]);
    assert!(printed.out.contains("\n[server]\nlisting = \"on\"\n"), "{}", printed.out);
    assert!(printed.out.contains("\n# `oribi check` refuses this file, because it has no app: "), "{}", printed.out);
    place.file("oribi.toml", &printed.out);
    let refused = place.run(&["check", "-c", "oribi.toml"]);
    assert_eq!(refused.status, Some(2), "{}{}", refused.out, refused.err);
    assert!(refused.err.contains("there is no app") && refused.err.contains("oribi schema"), "{}", refused.err);
}
