//! Checks the file, the language and the options of an app in a configuration file.

use crate::language::{App, Language};
use crate::needed_paths::{directory, suggestion};
use crate::options::Options;
use crate::{languages, lua};
use oribi_config_file::{AppSection, Item, LANGUAGE_OPTIONS, NamedPath, Review, ValueForm, did_you_mean};
use oribi_server::directory::absolute;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The option by which a Lua app is a directory of scripts.
pub const ROOT: &str = "document-root";

/// Finds the app of a section. `None` after a mistake.
pub fn find(section: &AppSection, review: &mut Review) -> Option<App> {
    let language = language(section, review);
    if let Some(directory) = &section.directory {
        needs_directory(directory, "directory", review);
    }
    if !section.proxy.is_empty() {
        // A list with a mistake is incomplete.
        return languages::find(Some(Path::new(&section.proxy.join(","))), None).ok().filter(|_| section.is_sound);
    }
    let file = section.file.as_ref()?;
    let path = absolute(&file.path).unwrap_or_else(|_| file.path.clone());
    if section.language_options.iter().any(is_root) {
        if !path.is_dir() {
            let why = format!("{} is not a directory; {ROOT} needs one", file.quoted());
            review.mistake(&file.place, why, suggestion(file, review));
            return None;
        }
        return Some(App { path, language: &lua::LANGUAGE });
    }
    let name = match language {
        Some(Some(language)) => Some(language.name),
        Some(None) => None,
        // The name is a mistake of its own.
        None if path.exists() => return None,
        None => Some(lua::LANGUAGE.name),
    };
    match languages::find(Some(&path), name) {
        Ok(app) => Some(app),
        Err(why) => {
            let why = if file.from_environment { why.replace(&*path.to_string_lossy(), "***") } else { why };
            let why = why.replace("--language NAME", "language = \"NAME\"");
            review.mistake(&file.place, why, suggestion(file, review));
            None
        }
    }
}

/// The language that the section names, if it names one. `None` after a mistake.
fn language(section: &AppSection, review: &mut Review) -> Option<Option<&'static Language>> {
    let Some(name) = &section.language else { return Some(None) };
    let found = languages::by_name(&name.value);
    if found.is_none() {
        let names = languages::LANGUAGES.iter().map(|language| language.name);
        let known = names.clone().collect::<Vec<_>>().join(", ");
        let suggestion = if name.from_environment { None } else { did_you_mean(&name.value, names) };
        review.mistake(&name.place, format!("unknown language `{}`; known are {known}", name.quoted()), suggestion);
    }
    found.map(Some)
}

fn is_root(item: &Item) -> bool {
    item.name == ROOT && item.values.last().is_some_and(|value| value == "on")
}

fn needs_directory(path: &NamedPath, key: &str, review: &mut Review) {
    if let Err(why) = directory(&path.path) {
        review.mistake(&path.place, format!("{key}: {why}: {}", path.quoted()), suggestion(path, review));
    }
}

/// Reads the options of the language of an app. Those of Lua alone go to the command of the app. `None` after a mistake.
pub fn options(section: &AppSection, app: Option<&App>, review: &mut Review) -> Option<Options> {
    let mut options = Options::default();
    let mut is_sound = true;
    for item in &section.language_options {
        let last = item.values.last().map(String::as_str).unwrap_or_default();
        let text = || texts(item).pop().unwrap_or_default();
        let mut is_file = |path: OsString| {
            let path = named(item, path);
            let checked = checked_file(&path);
            if let Err(why) = &checked {
                review.mistake(&path.place, format!("{}: {why}: {}", item.name, path.quoted()), suggestion(&path, review));
            }
            checked.is_ok()
        };
        is_sound &= match item.name.as_str() {
            "include" => {
                options.include = texts(item);
                true
            }
            "module" => {
                options.modules.clone_from(&item.values);
                true
            }
            "require" => {
                options.requires = texts(item);
                true
            }
            "env" => {
                options.environment = Some(last.to_owned());
                true
            }
            "config" => {
                options.config = Some(text().into());
                last == "-" || is_file(text())
            }
            "perl" => {
                options.perl = Some(text());
                is_program(item, text(), review)
            }
            "ruby" => {
                options.ruby = Some(text());
                is_program(item, text(), review)
            }
            "hooks" => is_file(text()),
            ROOT => true,
            name => {
                let checked = lua::check_option(name, last);
                let hidden = || format!("bad value from the environment for {name}");
                if let Err(why) = &checked {
                    review.mistake(value_place(item), if item.from_environment { hidden() } else { why.clone() }, None);
                }
                checked.is_ok()
            }
        };
    }
    if let Some(app) = app {
        is_sound &= fits(section, app.language, review);
    }
    is_sound.then_some(options)
}

/// The place of the only value of an option, or of the first one.
fn value_place(item: &Item) -> &oribi_config_file::Place {
    item.places.first().unwrap_or(&item.place)
}

fn named(item: &Item, path: OsString) -> NamedPath {
    NamedPath { path: PathBuf::from(path), place: value_place(item).clone(), from_environment: item.from_environment }
}

fn checked_file(named: &NamedPath) -> Result<(), String> {
    match named.path.metadata() {
        Ok(found) if found.is_dir() => Err("a directory, not a file".to_owned()),
        Ok(_) => Ok(()),
        Err(error) => Err(format!("cannot read the file: {error}")),
    }
}

/// Whether there is a program; one without a slash is looked for in `PATH`.
fn is_program(item: &Item, program: OsString, review: &mut Review) -> bool {
    let runs = |path: &Path| path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
    let named = named(item, program);
    let found = if named.path.components().count() > 1 {
        runs(&named.path)
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| runs(&folder.join(&named.path)))
    };
    if !found {
        let suggestion = suggestion(&named, review);
        review.mistake(&named.place, format!("{}: there is no such program: {}", item.name, named.quoted()), suggestion);
    }
    found
}

/// Refuses options of another language.
fn fits(section: &AppSection, found: &Language, review: &mut Review) -> bool {
    let language = |item: &Item| LANGUAGE_OPTIONS.iter().find(|option| option.name == item.name).map(|option| option.language);
    let mut fits = true;
    for item in &section.language_options {
        let Some(of) = language(item).filter(|name| !name.is_empty() && *name != found.name) else { continue };
        fits = false;
        // With a language, or another ending, the reader of the file has said so.
        if section.is_sound {
            review.mistake(
                &item.place,
                format!("`{}` is for apps in {of}, and this one is in {}", item.name, found.name),
                None,
            );
        }
    }
    fits
}

/// The values of an option. Paths are absolute, because an app has a directory of its own.
pub fn texts(item: &Item) -> Vec<OsString> {
    let form = LANGUAGE_OPTIONS.iter().find(|option| option.name == item.name).map(|option| option.form);
    let is_path = |value: &str| match form {
        Some(ValueForm::Path | ValueForm::Paths) => value != "-",
        Some(ValueForm::Program) => value.contains('/'),
        _ => false,
    };
    let text = |value: &String| {
        let path = Path::new(value);
        if is_path(value) { absolute(path).unwrap_or_else(|_| path.to_owned()).into_os_string() } else { value.into() }
    };
    item.values.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_config_file::ENDINGS;
    use oribi_server::config::setting_of;

    #[test]
    fn each_option_of_lua_has_its_place_in_the_file() {
        let of_lua = |name: &str| LANGUAGE_OPTIONS.iter().any(|option| option.name == name && option.language == "lua");
        for setting in oribi_lua::table() {
            assert!(of_lua(setting.name), "{}", setting.name);
        }
        for option in LANGUAGE_OPTIONS {
            assert!(setting_of(option.name).is_none(), "{} is an option of the server, too", option.name);
        }
        assert!(lua::check_option("state-memory", "16m").is_ok());
        assert!(lua::check_option("states", "many").is_err_and(|why| why.contains("bad value `many` for states")));
        assert!(lua::check_option("lua", "jit").is_ok());
        assert!(lua::check_option("lua", "6").is_err_and(|why| why.contains("unknown Lua `6`")));
    }

    #[test]
    fn the_file_knows_the_endings_of_all_languages() {
        let endings = languages::LANGUAGES.iter().flat_map(|language| language.endings.iter().map(|end| (*end, language.name)));
        assert_eq!(endings.collect::<Vec<_>>(), ENDINGS);
    }
}
