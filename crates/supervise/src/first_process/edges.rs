//! The edges of the first process: their start, their end, and their requests about workers.

use super::super::edges::{Drained, Edges, ForkedEdge};
use super::super::server::fork_from;
use super::super::title::Title;
use super::super::workforce::Finish;
use super::FirstProcess;
use oribi_edge::parent_link::WorkerRequest;

impl FirstProcess<'_> {
    /// Starts the edges that are missing.
    pub(super) fn keep_edges(&mut self) {
        let server = &mut self.server;
        // While the previous server serves, clients must not wait at these edges until the app can serve; and edges of this server do not
        // wait long for those of the previous one.
        let serves = self.workforce.is_complete() || !server.succession.is_not_ready();
        if let Some(edges) = server.edges.as_mut().filter(|_| serves)
            && let Some(forked) = edges.keep_running(|| fork_from(server.runtime))
        {
            self.become_edge(forked);
        }
    }

    /// While the edges finish: stops the workforce when all edges have ended.
    pub(super) fn drain_edges(&mut self) {
        let server = &mut self.server;
        let ended = match &mut server.edges {
            Some(edges) => edges.finish_up(&server.listeners, || fork_from(server.runtime)),
            None => (Drained::Done { cut: false }, None),
        };
        match ended {
            (_, Some(forked)) => self.become_edge(forked),
            (Drained::NotYet, None) => {}
            (Drained::Done { cut }, None) => {
                self.workforce.stop(server, Finish::AfterEdges);
                server.note_cut(cut);
            }
        }
    }

    /// In a new edge: closes the descriptors of the first process, and runs the edge.
    fn become_edge(&mut self, forked: ForkedEdge) -> ! {
        // If an edge kept the sockets to molds, the molds would not notice the death of the master.
        self.workforce.release();
        let server = &mut self.server;
        server.release();
        let Some(plan) = server.edges.take().map(Edges::into_plan) else { std::process::exit(1) };
        let (settings, runtime) = (server.settings, server.runtime);
        let set_title = |role: &str| Title { role, generation: None, state: "" }.show(settings, runtime);
        let listeners = server.take_listeners();
        forked.run_and_exit(settings, listeners, plan, &server.privileges, &mut server.signals, set_title)
    }

    /// Handles the requests of edges about workers.
    pub(super) fn handle_edge_requests(&mut self) {
        let requests: Vec<WorkerRequest> = self.server.edges.iter().flat_map(Edges::requests).collect();
        requests.into_iter().for_each(|request| self.workforce.handle_request(&self.server, request));
    }
}
