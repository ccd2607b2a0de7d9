//! The rules of the filter `cache`.

use oribi_cache::Rules;
use oribi_config_file::parse;

#[test]
fn the_cache_of_a_route_is_its_own_or_that_of_the_defaults() {
    let rules = |cache: &str, defaults: &str| {
        let routes = format!("[[route]]\napp = \"a\"\n{cache}\n[defaults]\n{defaults}\n");
        let text = format!("[app.a]\nfile = \"a.lua\"\n{routes}");
        let reading = parse(&[("oribi.toml", text.as_bytes())], &|_| None);
        let config = reading.unwrap_or_else(|findings| panic!("{text}\n{findings}")).config;
        config.routes[0].filters.cache.flatten().map(|cache| (cache.rules, cache.size))
    };
    let standard = Rules::default();
    assert_eq!(rules("", ""), None);
    assert_eq!(rules("cache = true", ""), Some((standard, 32 << 20)));
    assert_eq!(rules("cache = {}", ""), Some((standard, 32 << 20)));
    assert_eq!(rules("", "cache = { size = \"1m\" }"), Some((standard, 1 << 20)));
    assert_eq!(rules("cache = false", "cache = true"), None);
    let keys = "max-object = \"2k\", default-age = \"1m\", stale-while-revalidate = 5, stale-if-error = \"1h\", request-directives = true";
    let expected = Rules {
        default_age: Some(60),
        max_object: 2048,
        stale_while_revalidate: 5,
        stale_if_error: 3600,
        heeds_requests: true,
    };
    assert_eq!(rules(&format!("cache = {{ {keys} }}"), ""), Some((expected, 32 << 20)));
    assert_eq!(rules("cache = { default-age = 0 }", ""), Some((standard, 32 << 20)));
}
