//! The rows of the table about the life of workers.

use super::super::life_values::{
    boot_request, lifetime, memory, reload_mode, replace_order, show_lifetime, show_memory, show_reload_mode,
    show_replace_order,
};
use super::super::setting::{Section, Setting};
use super::super::value::{boolean, deadline, path, show_duration, show_switch};

pub(super) const BOOT_REQUEST: Setting = Setting::app(
    "boot-request",
    Section::Workers,
    "PATH",
    "Each new worker answers an internal GET for this path before it takes requests. A worker whose app raises an error or \
     answers with 500 or more cannot start, and a generation that cannot start does not replace the current one",
)
.default_words("none")
.apply(|draft, text| boot_request(text).map(|target| draft.settings.life.boot_request = target))
.show(|settings| settings.life.boot_request.clone().unwrap_or_default());

pub(super) const BOOT_TIMEOUT: Setting = Setting::app(
    "boot-timeout",
    Section::Workers,
    "TIME",
    "Time for a worker from its start until it takes requests, hooks and --boot-request included; after that it is killed and \
     counts as failed; or off",
)
.aliases(&["worker-boot-timeout", "start-timeout", "startup-timeout"])
.apply(|draft, text| deadline(text).map(|time| draft.settings.life.boot_timeout = time))
.show(|settings| show_duration(settings.life.boot_timeout));

pub(super) const UPGRADE_TIMEOUT: Setting = Setting::server(
    "upgrade-timeout",
    Section::Workers,
    "TIME",
    "Time for a new program, after USR2, until all its workers serve; after that it is stopped, and the current one keeps \
     serving; or off",
)
.apply(|draft, text| deadline(text).map(|time| draft.settings.life.upgrade_timeout = time))
.show(|settings| show_duration(settings.life.upgrade_timeout));

pub(super) const LOAD_TIMEOUT: Setting = Setting::app(
    "load-timeout",
    Section::Workers,
    "TIME",
    "Time for `oribi APP` to load an app in Perl or Ruby, before workers are started; after that the loading process is \
     killed, and the load counts as failed; or off",
)
.apply(|draft, text| deadline(text).map(|time| draft.settings.life.load_timeout = time))
.show(|settings| show_duration(settings.life.load_timeout));

pub(super) const RELOAD_MODE: Setting = Setting::app(
    "reload-mode",
    Section::Workers,
    "NAME",
    "How new workers replace the current ones on HUP: whole (all new workers are ready before the first old one stops) or \
     rolling (one becomes ready and one stops, then the next: if memory has no room for twice as many)",
)
.apply(|draft, text| reload_mode(text).map(|mode| draft.settings.life.reload_mode = mode))
.show(|settings| show_reload_mode(settings.life.reload_mode));

pub(super) const MAX_LIFETIME: Setting = Setting::app(
    "max-lifetime",
    Section::Workers,
    "TIME",
    "Replace a worker at this age at the latest: each gets a random age between three quarters of it and the whole, so that \
     not all are replaced at once; or off",
)
.aliases(&["max-worker-lifetime", "workers-lifetime", "worker-lifetime"])
.apply(|draft, text| lifetime(text).map(|time| draft.settings.life.max_lifetime = time))
.show(|settings| show_lifetime(settings.life.max_lifetime));

pub(super) const MAX_MEMORY: Setting = Setting::app(
    "max-memory",
    Section::Workers,
    "SIZE",
    "Replace a worker that uses more memory than this; of memory shared with other processes, only its part counts (PSS). A \
     plain number counts MiB; or off",
)
.aliases(&["reload-on-pss", "reload-on-rss", "memory-limit", "workers-max-rss"])
.apply(|draft, text| memory(text).map(|limit| draft.settings.life.max_memory = limit))
.show(|settings| show_memory(settings.life.max_memory));

pub(super) const REPLACE_ORDER: Setting = Setting::app(
    "replace-order",
    Section::Workers,
    "NAME",
    "How a worker that is due is replaced: new-first (it stops when its replacement is ready) or old-first (its replacement \
     starts when it has ended, one worker at a time: if memory has no room for one more worker)",
)
.apply(|draft, text| replace_order(text).map(|order| draft.settings.life.replace_order = order))
.show(|settings| show_replace_order(settings.life.replace_order));

pub(super) const RELOAD: Setting = Setting::app(
    "reload",
    Section::Workers,
    "",
    "Load the app again, as on HUP, when one of its files changes: for development. With -E development, browsers show why the \
     app could not be loaded",
)
.aliases(&["watch"])
.apply(|draft, text| boolean(text).map(|on| draft.settings.life.watch = on))
.show(|settings| show_switch(settings.life.watch));

pub(super) const RELOAD_PATH: Setting = Setting::app(
    "reload-path",
    Section::Workers,
    "PATH",
    "A file or folder to watch; turns --reload on. Several are separated by commas, or the option is given several times",
)
.short('R')
.aliases(&["reload-paths", "watch-path"])
.default_words("the folder of the app")
.apply(|draft, text| {
    let paths = text.split(',').filter(|path| !path.trim().is_empty()).map(path).collect::<Result<Vec<_>, _>>()?;
    if paths.is_empty() {
        return Err("expected the path of a file or folder".to_owned());
    }
    draft.settings.life.watched.extend(paths);
    draft.settings.life.watch = true;
    Ok(())
})
.shows_each(|settings| settings.life.watched.iter().map(|path| path.display().to_string()).collect());

pub(super) const AUTO_APPLY: Setting = Setting::server(
    "auto-apply",
    Section::Logs,
    "",
    "Apply changes of oribi.toml, and of the files that it includes, by themselves, as `oribi ctl apply` does",
)
.apply(|draft, text| boolean(text).map(|on| draft.settings.life.auto_apply = on))
.show(|settings| show_switch(settings.life.auto_apply));
