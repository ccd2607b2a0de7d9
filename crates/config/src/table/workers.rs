//! The rows of the table about the number of workers, and their name.

use super::super::event_loop::{LoopChoice, MOST_OPEN};
use super::super::interface::Interface;
use super::super::setting::{Section, Setting};
use super::super::value::{duration, show_duration, small_count, title_part};
use super::super::worker_values::{percent, worker_range};
use super::PROCESSES;

pub(super) const WORKERS: Setting = Setting::app(
    "workers",
    Section::Workers,
    "NUMBER",
    "Worker processes; `auto` for the default, 0 is 1. MIN:MAX starts with MIN, and the number follows the load; with 0:MAX \
     the app sleeps, without any process, while it has no requests",
)
.aliases(&["max-workers", "worker-processes", "nproc"])
.environment("WEB_CONCURRENCY")
.default_words("the CPUs that the process may use, cgroup quota included")
.apply(|draft, text| worker_range(text, draft.processors, PROCESSES).map(|range| draft.settings.workers = range))
.show(|settings| settings.workers.to_string());

pub(super) const UP_WAIT: Setting = Setting::app(
    "scale-up-wait",
    Section::Workers,
    "TIME",
    "With --workers MIN:MAX: start one more worker when requests have waited longer than this (the median)",
)
.apply(|draft, text| duration(text).map(|time| draft.settings.scaling.up_wait = time))
.show(|settings| show_duration(settings.scaling.up_wait));

pub(super) const UP_CPU: Setting = Setting::app(
    "scale-up-cpu",
    Section::Workers,
    "PERCENT",
    "With --workers MIN:MAX: start none while the processors, or the quota of the cgroup, are busier than this; 100 starts \
     them anyway",
)
.apply(|draft, text| percent(text).map(|share| draft.settings.scaling.up_cpu = share))
.show(|settings| settings.scaling.up_cpu.to_string());

pub(super) const DOWN_IDLE: Setting = Setting::app(
    "scale-down-idle",
    Section::Workers,
    "TIME",
    "With --workers MIN:MAX: end a worker after this time in which at least one had nothing to do; with 0:MAX the last one \
     too, and the process that has loaded the app",
)
.apply(|draft, text| duration(text).map(|time| draft.settings.scaling.down_idle = time))
.show(|settings| show_duration(settings.scaling.down_idle));

/// The most threads of a worker beyond those of `--threads`.
const MOST_IO_THREADS: u32 = 1024;

pub(super) const IO_THREADS: Setting = Setting::app(
    "max-io-threads",
    Section::Workers,
    "COUNT",
    "Ruby: the most threads of each worker beyond those of --threads, one for each request that only waits and says so by \
     calling env[\"oribi.io_bound\"] (docs/ruby.md)",
)
.apply(|draft, text| small_count(text, 0..=MOST_IO_THREADS).map(|count| draft.settings.io_threads = count))
.show(|settings| settings.io_threads.to_string());

pub(super) const INTERFACE: Setting = Setting::app(
    "interface",
    Section::Workers,
    "NAME",
    "Perl: the interface of the app: psgi or pagi; auto for PAGI if the name of its file ends in .pagi, else PSGI",
)
.apply(|draft, text| Interface::parse(text).map(|interface| draft.settings.event_loop.interface = interface))
.show(|settings| settings.event_loop.interface.name().to_owned());

pub(super) const LOOP: Setting = Setting::app(
    "loop",
    Section::Workers,
    "NAME",
    "Perl: the event loop that runs in each worker while requests wait in the app: ev, anyevent, ioasync or mojo; none for apps \
     that block; auto for the one that the app has loaded, if there is any. Needs --threads 1 and, without edges, --io epoll. \
     Ruby with --fibers: none for Oribi's own scheduler although the app has loaded the gem async",
)
.apply(|draft, text| LoopChoice::parse(text).map(|choice| draft.settings.event_loop.choice = choice))
.show(|settings| settings.event_loop.choice.name().to_owned());

pub(super) const CONCURRENCY: Setting = Setting::app(
    "concurrency",
    Section::Workers,
    "COUNT",
    "Where an event loop runs (--loop): the most unfinished answers of a worker. It then leaves further requests to other \
     workers, or lets them wait. Lua: lets handlers wait without holding their worker, if it is set and more than 1",
)
.apply(|draft, text| small_count(text, 1..=MOST_OPEN).map(|count| draft.settings.event_loop.concurrency = count))
.show(|settings| settings.event_loop.concurrency.to_string());

pub(super) const APP_NAME: Setting = Setting::app("app-name", Section::Workers, "TEXT", "The name of the app in process lists")
    .default_words("its file, as it was given")
    .apply(|draft, text| title_part(text).map(|name| draft.settings.app_name = name))
    .show(|settings| settings.app_name.clone());

pub(super) const FIBERS: Setting = Setting::app(
    "fibers",
    Section::Workers,
    "COUNT",
    "Ruby: run each request in a fiber, so that a worker takes further requests while others wait, up to this number; 0: a request \
     holds its thread. Needs --threads 1, no --max-io-threads and, without edges, --io epoll",
)
.apply(|draft, text| small_count(text, 0..=MOST_OPEN).map(|count| draft.settings.event_loop.fibers = count))
.show(|settings| settings.event_loop.fibers.to_string());
