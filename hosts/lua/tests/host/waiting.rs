//! Scripts that wait without holding their lane.

use crate::harness::{Call, Recorder, Site};
use std::os::fd::AsFd;

/// Each request spawns tasks that take 4 ms of a processor each, and answers with the number of those that have ended.
const TASKS: &str = "
    local oribi = require 'oribi'
    local done = 0
    local function compute()
        local start = os.clock()
        while os.clock() - start < 0.004 do end
        done = done + 1
    end
    return function(request)
        if request.path == '/spawn' then
            for _ = 1, 50 do oribi.spawn(compute) end
        end
        return 200, {}, tostring(done)
    end";

#[test]
fn a_lane_looks_for_commands_between_tasks_that_compute() {
    let outlet = Recorder::default();
    let site = Site::with(TASKS, |settings| settings.waits = true);
    let lane = std::io::pipe().expect("a pipe").0;
    site.come_round(&outlet, lane.as_fd());
    let ended = |path: &str| {
        site.answer_to(&Call::new("GET", path), &outlet);
        outlet.take().body.parse::<u32>().expect("a number")
    };
    let mut before = ended("/spawn");
    while before < 50 {
        site.come_round(&outlet, lane.as_fd());
        let after = ended("/");
        assert!(before < after && after < before + 20, "from {before} to {after} in one round");
        before = after;
    }
}
