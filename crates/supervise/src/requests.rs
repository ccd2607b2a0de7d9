//! Lists the requests in the server, in its first process.
//!
//! This process reads memory that edges and workers write, and does not trust it: the data are displayed and have no other
//! effect.

use super::edges::AppPools;
use oribi_admin::control::{About, MOST_REQUESTS, ProcessReport};
use oribi_admin::metrics::Traffic;
use oribi_config::{AppDeadlines, Settings, Timeouts};
use oribi_control_api::{Request, Requests, Seconds};
use oribi_io::clock::monotonic;
use oribi_ipc::slot::{Malformed, size_for_summary, summarize};
use oribi_pool::{Memory, PooledRequest, RequestState};
use oribi_stats::scoreboard::RunningRequest;
use oribi_stats::scoreboard::running::OwnDeadline;
use std::io;
use std::time::Duration;

/// The error if the requests cannot be listed, because apps are not watched.
const UNKNOWN: &str = "the requests in a server are only known with edges (--edge on) or with a deadline for apps, such as \
                       --request-warning: otherwise each worker would have to publish each request";

/// The number of bytes of a request that are copied at first. The heads of most requests are shorter.
const FIRST_READ: usize = 4096;

/// Returns the requests for all apps in the pools of all edges. `processes` are the workers that may have taken requests.
///
/// # Errors
/// The memory of an edge cannot be read.
pub(super) fn in_pools(apps: &[AppPools<'_>], processes: &[ProcessReport]) -> Result<Requests, String> {
    let failed = |error: io::Error| format!("the memory of an edge cannot be read: {error}");
    let mut found = Vec::new();
    for app in apps {
        for (edge, memory) in app.pools.iter().enumerate() {
            let of_pool = memory.inspect().map_err(failed)?.into_iter();
            found.extend(of_pool.map(|pooled| (app, memory, edge, pooled)));
        }
    }
    found.sort_by_key(|(.., pooled)| (pooled.since, position(pooled)));
    let now = monotonic();
    let (mut listed, mut ended) = (Vec::new(), 0);
    for (app, memory, edge, pooled) in &found {
        if listed.len() == MOST_REQUESTS {
            break;
        }
        match about(memory, pooled).map_err(failed)? {
            Some(about) => listed.push(report(pooled, *edge, about, app, processes, now)),
            // The request has ended in the meantime, or the memory contains no valid request.
            None => ended += 1,
        }
    }
    let more = found.len() - listed.len() - ended;
    Ok(Requests { requests: listed, more })
}

/// Returns the requests that workers with connections of their own are running. `processes` are these workers.
///
/// # Errors
/// The apps are not watched.
pub(super) fn in_workers(
    running: &[RunningRequest],
    settings: &Settings,
    processes: &[ProcessReport],
) -> Result<Requests, String> {
    if settings.watched_threads() == 0 {
        return Err(UNKNOWN.to_owned());
    }
    let mut running: Vec<&RunningRequest> = running.iter().collect();
    running.sort_by_key(|listed| std::cmp::Reverse(listed.age));
    let all = AppDeadlines::of(settings);
    let report = |listed: &&RunningRequest| {
        let deadlines = match listed.deadline {
            OwnDeadline::None => all,
            OwnDeadline::Never => all.moved(None),
            OwnDeadline::After(time) => all.moved(Some(time)),
        };
        let interrupted = listed.quiet.is_some_and(|quiet| quiet >= deadlines.timeout);
        let next = if interrupted { deadlines.kill } else { deadlines.timeout };
        let state = match (listed.quiet, interrupted) {
            (None, _) => "sending",
            (Some(_), true) => "interrupted",
            (Some(_), false) => "running",
        };
        let About { method, target, client } = About::of_text(&listed.text.0, listed.text.1);
        let (worker, generation) = worker(listed.pid, processes);
        Request {
            state: state.into(),
            edge: None,
            position: None,
            method,
            target,
            client,
            age: listed.age.into(),
            quiet: listed.quiet.map(Seconds::from),
            deadline: listed.quiet.and_then(|quiet| after(next, quiet)).map(Seconds::from),
            pid: Some(listed.pid),
            worker,
            generation,
            app: None,
        }
    };
    let listed: Vec<Request> = running.iter().take(MOST_REQUESTS).map(report).collect();
    let more = running.len() - listed.len();
    Ok(Requests { requests: listed, more })
}

/// Returns the number of requests in the pools of all edges. Pools that cannot be read are not counted.
pub(super) fn traffic_in_pools(apps: &[AppPools<'_>]) -> Traffic {
    let pools = apps.iter().flat_map(|app| &app.pools);
    let (mut queued, mut running, mut oldest) = (0, 0, None::<Duration>);
    for pooled in pools.filter_map(|memory| memory.inspect().ok()).flatten() {
        if matches!(pooled.state, RequestState::Queued(_)) {
            queued += 1;
            oldest = Some(oldest.map_or(pooled.since, |before| before.min(pooled.since)));
        } else {
            running += 1;
        }
    }
    let waited = oldest.map_or(Duration::ZERO, |since| monotonic().saturating_sub(since));
    Traffic { queue: Some((queued, waited)), running: Some(running) }
}

/// Returns the number of requests where workers have connections of their own, and run `running` requests.
pub(super) fn traffic_in_workers(running: usize, settings: &Settings) -> Traffic {
    Traffic { queue: None, running: (settings.watched_threads() > 0).then_some(running) }
}

fn position(pooled: &PooledRequest) -> Option<usize> {
    if let RequestState::Queued(before) = pooled.state { Some(before + 1) } else { None }
}

/// Returns the summary of a request. `None` if the request has ended, or is invalid.
fn about(memory: &Memory, pooled: &PooledRequest) -> io::Result<Option<About>> {
    let Some(mut bytes) = memory.look_at(pooled, FIRST_READ)? else { return Ok(None) };
    match size_for_summary(&bytes) {
        Ok(size) if size > bytes.len() => match memory.look_at(pooled, size)? {
            Some(more) => bytes = more,
            None => return Ok(None),
        },
        Ok(_) => {}
        Err(Malformed) => return Ok(None),
    }
    Ok(summarize(&bytes).ok().map(|summary| About::of(&summary)))
}

fn report(
    pooled: &PooledRequest,
    edge: usize,
    about: About,
    AppPools { settings, name, .. }: &AppPools<'_>,
    processes: &[ProcessReport],
    now: Duration,
) -> Request {
    let age = now.saturating_sub(pooled.since);
    let (state, pid) = match pooled.state {
        RequestState::Queued(_) => ("queued", None),
        RequestState::Taken { process, begun, paused, .. } => {
            let state = match (pooled.orders.gone, pooled.orders.interrupted, paused, begun) {
                (true, ..) => "abandoned",
                (_, true, ..) => "interrupted",
                (_, _, true, _) => "sending",
                (_, _, _, true) => "answering",
                _ => "running",
            };
            (state, process)
        }
    };
    let taken = matches!(pooled.state, RequestState::Taken { .. });
    let quiet = taken.then(|| now.saturating_sub(pooled.progress.unwrap_or(pooled.since)).min(age));
    let deadline = match state {
        "queued" => after(settings.queue_timeout, age),
        // While the app waits for its client, its deadline does not run.
        "sending" => None,
        _ => {
            let all = AppDeadlines::of(settings);
            let AppDeadlines { timeout, kill, .. } = pooled.own_deadline.map_or(all, |own_deadline| all.moved(own_deadline));
            // The edge counts from the moment when it saw that a worker has the request.
            let passed = pooled.progress.map_or(Duration::ZERO, |progress| now.saturating_sub(progress));
            after(if state == "interrupted" { kill } else { timeout }, passed)
        }
    };
    let About { method, target, client } = about;
    let (worker, generation) = pid.map_or((None, None), |pid| worker(pid, processes));
    Request {
        state: state.into(),
        edge: Some(edge + 1),
        position: position(pooled),
        method,
        target,
        client,
        age: age.into(),
        quiet: quiet.map(Seconds::from),
        deadline: deadline.map(Seconds::from),
        pid,
        worker,
        generation,
        app: name.map(str::to_owned),
    }
}

/// Returns the rest of `time` after `passed`; zero if `time` is over. `None` if `time` stands for no limit.
fn after(time: Duration, passed: Duration) -> Option<Duration> {
    (time < Timeouts::NEVER).then(|| time.saturating_sub(passed))
}

/// Returns the number and the generation of the worker with this process id; `None` if there is no such worker.
fn worker(pid: u32, processes: &[ProcessReport]) -> (Option<usize>, Option<u64>) {
    let known = processes.iter().find(|process| process.kind == "worker" && process.row.pid == pid);
    known.map_or((None, None), |process| (Some(process.row.number), process.generation))
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_host::{self as host, Content, Endpoint};
    use oribi_ipc::slot::encode_request;
    use oribi_message::{HeadLayout, RequestHead};
    use oribi_pool::{Edge, Shape, Worker};
    use oribi_proto::h1;
    use oribi_stats::scoreboard::{Connections, Row};

    const SHAPE: Shape = Shape { slots: 1000, request_bytes: 16_384, workers: 2, areas: 2, area_bytes: 512 };

    fn submit(edge: &mut Edge, target: &str, cookie: usize) {
        let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\nCookie: {}\r\n\r\n", "x".repeat(cookie));
        let mut layout = HeadLayout::default();
        h1::Machine::new().handle_input(head.as_bytes(), &mut layout, &h1::Limits::default());
        let request = host::Request {
            head: RequestHead::new(head.as_bytes(), &layout),
            content: Content::None,
            trailers: None,
            remote: Endpoint { address: b"192.0.2.7", port: b"4711" },
            server: Endpoint { address: b"localhost", port: b"80" },
            forwarded_port: false,
            chosen_name: false,
            https: false,
            underscores: false,
            gateway: None,
        };
        let mut reserved = edge.reserve().expect("a slot");
        let size = encode_request(&request, &[], edge.room(&mut reserved)).expect("room");
        let _ = edge.submit(reserved, size);
    }

    #[test]
    fn the_oldest_are_told_and_the_others_counted() {
        let memory = Memory::new(SHAPE).expect("memory");
        let mut edge = Edge::new(&memory).expect("memory");
        let mut taker = Worker::attach(&memory, 1).expect("a place");
        edge.arrivals();
        edge.set_time(monotonic());
        // The end of a long head is found at its place.
        submit(&mut edge, "/long", 10_000);
        let taken = taker.take().expect("it waits");
        for number in 0..MOST_REQUESTS + 4 {
            submit(&mut edge, &format!("/{number}"), 1);
        }
        let own = std::process::id();
        let gauges = Connections::default();
        let age = Duration::ZERO;
        let row = Row { number: 5, pid: own, state: "ready", age, connections: 0, idle: 0, requests: 0, gauges };
        let processes = [ProcessReport { kind: "worker", app: None, generation: Some(3), row }];
        let settings = Settings::default();
        let apps = [AppPools { name: None, settings: &settings, pools: vec![memory] }];
        let found = in_pools(&apps, &processes).expect("it can be read");
        assert_eq!((found.requests.len(), found.more), (MOST_REQUESTS, 5));
        let first = &found.requests[0];
        assert_eq!((&first.state[..], &first.target[..], &first.client[..]), ("running", "/long", "192.0.2.7:4711"));
        assert_eq!((first.pid, first.worker, first.generation), (Some(own), Some(5), Some(3)));
        assert_eq!(found.requests[1].position, Some(1));
        assert_eq!((&found.requests[9].target[..], found.requests[9].position), ("/8", Some(9)));
        assert!(first.age < Seconds(600.0) && first.quiet <= Some(first.age) && first.deadline.is_none());
        let unknown = &in_pools(&apps, &[]).expect("it can be read").requests[0];
        assert_eq!((unknown.pid, unknown.worker, unknown.generation), (Some(own), None, None));
        taker.finish(taken);
    }

    #[test]
    fn deadlines_are_those_of_the_queue_of_the_settings_and_of_the_app() {
        let memory = Memory::new(SHAPE).expect("memory");
        let mut edge = Edge::new(&memory).expect("memory");
        let mut worker = Worker::attach(&memory, 0).expect("a place");
        let second = Duration::from_secs(1);
        let mut settings = Settings { queue_timeout: second * 500, ..Settings::default() };
        settings.timeouts.request = second * 600;
        let apps = [AppPools { name: None, settings: &settings, pools: vec![memory] }];
        let left = |apps: &[AppPools<'_>]| {
            let found = in_pools(apps, &[]).expect("it can be read");
            found.requests[0].deadline.map(|left| left.0.ceil() as u64 / 100 * 100)
        };
        edge.set_time(monotonic());
        submit(&mut edge, "/", 1);
        assert!(left(&apps).is_some_and(|left| (400..=500).contains(&left)));
        let mut taken = worker.take().expect("it waits");
        assert_eq!(left(&apps), Some(600), "nobody has seen that it was taken");
        worker.deadline(&mut taken, Some(second * 9000)).expect("room");
        let collect = |edge: &mut Edge| {
            edge.gather();
            while edge.next(&mut Vec::new()).is_some() {}
        };
        collect(&mut edge);
        assert!(left(&apps).is_some_and(|left| (8900..=9000).contains(&left)));
        worker.deadline(&mut taken, None).expect("room");
        collect(&mut edge);
        assert_eq!(left(&apps), None);
        worker.finish(taken);
    }

    #[test]
    fn what_is_no_request_is_left_out() {
        let memory = Memory::new(SHAPE).expect("memory");
        let mut edge = Edge::new(&memory).expect("memory");
        for bytes in [&[][..], &[0; 50], &[0xff; 200], &[1; 16_000]] {
            let mut reserved = edge.reserve().expect("a slot");
            edge.room(&mut reserved)[..bytes.len()].copy_from_slice(bytes);
            let _ = edge.submit(reserved, bytes.len());
        }
        let settings = Settings::default();
        let apps = [AppPools { name: None, settings: &settings, pools: vec![memory] }];
        let found = in_pools(&apps, &[]).expect("it can be read");
        assert_eq!((found.requests.len(), found.more), (0, 0), "{:?}", found.requests);
    }
}
