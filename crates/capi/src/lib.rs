//! Implements the C interface of Oribi, `include/oribi.h`, which documents every function and type.
//!
//! The types mirror the header field by field: change both together. A panic ends at this border: the function returns a
//! failure (see `fence`).
#![deny(unsafe_code)]

mod app_metrics;
mod config;
mod crew;
mod fence;
mod host;
mod interruption;
mod live;
mod posting;
mod reply;
mod run;
mod table;
mod tracing;
mod types;
mod waking;

pub use app_metrics::{oribi_count, oribi_has_figures, oribi_note_collections, oribi_note_interpreter, oribi_observe};
pub use config::{
    OribiConfig, oribi_config_fibers, oribi_config_free, oribi_config_io_threads, oribi_config_loop, oribi_config_new,
    oribi_config_request_timeout, oribi_config_set,
};
pub use crew::{OribiCrew, oribi_crew_before_unlocking, oribi_crew_mark_waiting, oribi_crew_serve, oribi_crew_unmark_waiting};
pub use fence::{oribi_last_error, oribi_masked};
pub use interruption::oribi_resume;
pub use live::{oribi_command, oribi_has_live_connections, oribi_live_offer};
pub use posting::{oribi_can_post, oribi_post};
pub use reply::{
    oribi_abandon, oribi_break_off, oribi_check, oribi_extend_deadline, oribi_fail, oribi_finish, oribi_finish_with_trailers,
    oribi_has_deadlines, oribi_has_gone, oribi_has_room, oribi_inform, oribi_offer, oribi_respond, oribi_respond_file,
    oribi_retire, oribi_start, oribi_stops, oribi_take_socket, oribi_waiting, oribi_write,
};
pub use run::{oribi_key_count, oribi_key_name, oribi_log, oribi_run, oribi_version};
pub use table::{OribiHost, OribiInterruptFn, OribiLock, OribiTraceFn};
pub use tracing::{oribi_trace_expect, oribi_trace_tell};
pub use types::{OribiBytes, OribiField, OribiLane, OribiRequest, OribiVariable};
pub use waking::{OribiWaker, oribi_lane_waker, oribi_unwatch, oribi_wake, oribi_wake_after, oribi_waker_free, oribi_watch};
