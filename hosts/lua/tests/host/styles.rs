//! The style of an app, as the host detects it.

use crate::harness::{Site, logged};
use oribi_lua::script_path::ScriptSource;
use oribi_lua::{LuaRuntime, LuaSettings, Style};

fn style(script: &str) -> Option<Style> {
    Site::new(script).runtime.check().expect("the script loads")
}

#[test]
fn what_the_script_leaves_behind_says_its_style() {
    assert_eq!(style("return function() end"), Some(Style::Oribi));
    assert_eq!(style("return { run = function() end }"), Some(Style::Wsapi));
    assert_eq!(style("function run() end"), Some(Style::Wsapi));
    assert_eq!(style("function main() end"), Some(Style::Luafcgid));
    assert_eq!(style("function handler() return '' end"), Some(Style::LuafcgidFirst));
}

#[test]
fn if_several_fit_the_order_is_the_documented_one() {
    let all = "function main() end function run() end function handler() end ";
    assert_eq!(style(&format!("{all} return function() end")), Some(Style::Oribi));
    assert_eq!(style(&format!("{all} return {{ run = print }}")), Some(Style::Wsapi));
    assert_eq!(style(all), Some(Style::Luafcgid));
    assert_eq!(style("function run() end function handler() end"), Some(Style::Wsapi));
}

#[test]
fn the_name_of_the_handler_can_be_set() {
    let site = Site::with("function serve(env, con) con:puts('served') end", |settings| settings.handler = "serve".to_owned());
    assert_eq!(site.text(), "served");
}

#[test]
fn the_first_generation_may_be_called_as_the_settings_say() {
    let site = Site::with("function page() return 'a page' end", |settings| settings.handler = "page".to_owned());
    assert_eq!(site.text(), "a page");
}

#[cfg(feature = "luajit")]
#[test]
fn a_module_of_lua_51_is_a_wsapi_app() {
    let script = "module(..., package.seeall) function run(env) return 200, {}, 'a module' end";
    assert_eq!(style(script), Some(Style::Wsapi));
    assert_eq!(Site::new(script).text(), "a module");
}

#[test]
fn a_script_that_offers_nothing_is_told_what_was_looked_for() {
    let site = Site::on_demand("local nothing = 1", |settings| settings.handler = "serve".to_owned());
    assert_eq!(site.get("/").status, 500);
    assert!(logged("must return a function, or a table with a function `run`, or define a global function `serve`, `run` or"));
    let runtime = LuaRuntime::new(LuaSettings::new(ScriptSource::One(site.path("app.lua")))).expect("a runtime");
    let failure = runtime.check().expect_err("nothing to answer with");
    assert!(!failure.message.contains("traceback"), "{}", failure.message);
}

#[test]
fn a_launcher_of_wsapi_may_return_the_function_and_knows_where_the_app_is() {
    let files = [(
        "app.ws",
        "local wsapi = require 'wsapi'
        return function(env)
            local sent = false
            return '201 Made', {}, function() if not sent then sent = true return env.REQUEST_METHOD .. ' ' .. wsapi.app_path end end
        end",
    )];
    let site = Site::with_files(&files, |directory| ScriptSource::One(directory.join("app.ws")), |_| {});
    let response = site.get("/");
    assert_eq!((response.status, response.body), (201, format!("GET {}", site.directory.path().display())));
}
