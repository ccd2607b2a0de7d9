//! Defaults that depend on the place of an app: the file whose touch reloads it, and the files that are watched.

use oribi_server::config::{Config, Origin, Settings};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The file that users of Passenger touch, in the folder of the app.
const RESTART_FILE: &str = "tmp/restart.txt";

/// The bit of the mode that permits all users to write into the folder.
const WRITABLE_BY_OTHERS: u32 = 0o002;

/// Returns the folder of the app; the app may be a folder itself.
fn folder(app: &Path) -> PathBuf {
    let folder = if app.is_dir() { app } else { app.parent().unwrap_or(Path::new("")) };
    if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder.to_owned() }
}

/// Sets `--restart-file` to the file that users of Passenger touch, unless the user has set the option. Does so only if the
/// folder of that file exists and not all users may write to the folder. They may if the app is in `/`, where the folder is
/// `/tmp`.
pub fn set_restart_file(config: &mut Config, app: &Path) {
    let file = folder(app).join(RESTART_FILE);
    let own = |folder: &Path| folder.metadata().is_ok_and(|facts| facts.permissions().mode() & WRITABLE_BY_OTHERS == 0);
    if file.parent().is_some_and(own)
        && let Some(file) = file.to_str()
    {
        // It does not fail, because a path is a valid value.
        let _ = config.set("restart-file", file, Origin::Default);
    }
}

/// With `--reload`, watches the folder of the app, unless the user has named files or folders to watch.
pub fn watch(settings: &mut Settings, app: &Path) {
    let life = &mut settings.life;
    if life.watch && life.watched.is_empty() {
        let folder = folder(app);
        life.watched.push(oribi_server::directory::absolute(&folder).unwrap_or(folder));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_file_of_passenger_counts_where_its_folder_is_the_users() {
        let directory = std::env::temp_dir().join(format!("oribi-place-{}", std::process::id()));
        fs::create_dir_all(directory.join("shop/tmp")).expect("it is new");
        let app = directory.join("shop/app.psgi");
        let file = |config: &Config| config.finish().expect("they fit").restart_file;
        let mut config = Config::with(|_| None, 1);
        set_restart_file(&mut config, &app);
        assert_eq!(file(&config), Some(directory.join("shop/tmp/restart.txt")));
        let mut config = Config::with(|_| None, 1);
        config.set("restart-file", "/x", Origin::CommandLine).expect("it fits");
        set_restart_file(&mut config, &app);
        assert_eq!(file(&config), Some(PathBuf::from("/x")), "the user's word counts");
        let mut config = Config::with(|_| None, 1);
        fs::set_permissions(directory.join("shop/tmp"), fs::Permissions::from_mode(0o777)).expect("it is ours");
        set_restart_file(&mut config, &app);
        set_restart_file(&mut config, &directory.join("nowhere/app.psgi"));
        assert_eq!(file(&config), None);
        fs::remove_dir_all(&directory).expect("it is ours");
    }

    #[test]
    fn the_folder_of_the_app_is_watched_unless_another_is_named() {
        let mut settings = Settings::default();
        watch(&mut settings, Path::new("/shop/app.psgi"));
        assert!(settings.life.watched.is_empty());
        settings.life.watch = true;
        watch(&mut settings, Path::new("/shop/app.psgi"));
        watch(&mut settings, Path::new("/other/app.psgi"));
        assert_eq!(settings.life.watched, [PathBuf::from("/shop")]);
    }
}
