//! The promises of a backend, tested on every backend: see `oribi_io::Backend`.

mod networks;
mod properties;
mod sharing;

#[cfg(feature = "libevent")]
use networks::LibeventByPoll;
use networks::{Simulated, Tcp, Unix};
#[cfg(feature = "libevent")]
use oribi_io::Libevent;
use oribi_io::{Epoll, Uring};

/// Makes a test of each property for a network.
macro_rules! conformance {
    ($name:ident, $network:ty: $($property:ident)*) => { conformance!($name, $network, properties: $($property)*); };
    ($name:ident, $network:ty, $module:ident: $($property:ident)*) => {
        mod $name {
            use super::*;
            $(
                #[test]
                fn $property() {
                    $module::$property::<$network>();
                }
            )*
        }
    };
}

macro_rules! every_network {
    ($($property:ident)*) => {
        conformance!(epoll_tcp, Tcp<Epoll>: $($property)*);
        conformance!(epoll_unix, Unix<Epoll>: $($property)*);
        conformance!(uring_tcp, Tcp<Uring>: $($property)*);
        conformance!(uring_unix, Unix<Uring>: $($property)*);
        conformance!(uring_tcp_ahead, Tcp<Uring, 4>: $($property)*);
        conformance!(uring_unix_ahead, Unix<Uring, 1>: $($property)*);
        conformance!(sim, Simulated: $($property)*);
    };
}

/// Makes the tests for networks that break one of the promises and declare it.
macro_rules! those_that_break_a_promise {
    ($($property:ident)*) => {
        #[cfg(feature = "libevent")]
        conformance!(libevent_tcp, Tcp<Libevent>: $($property)*);
        #[cfg(feature = "libevent")]
        conformance!(libevent_unix, Unix<Libevent>: $($property)*);
        #[cfg(feature = "libevent")]
        conformance!(libevent_by_poll_tcp, Tcp<LibeventByPoll>: $($property)*);
        #[cfg(feature = "libevent")]
        conformance!(libevent_by_poll_unix, Unix<LibeventByPoll>: $($property)*);
    };
}

/// The promises that every backend keeps.
macro_rules! every_backend {
    ($($property:ident)*) => {
        every_network! { $($property)* news_come_once news_reach_the_waiter_or_the_backend }
        those_that_break_a_promise! { $($property)* }
    };
}

every_backend! {
    accepting
    a_wait_of_no_time_ends
    nothing_is_reported_before_open
    tokens_come_back
    opening_can_be_put_off
    last_words_leave_with_the_end
    a_short_receive_is_short
    an_exact_receive_is_exact
    content_then_end
    an_end_that_comes_with_the_first_content_is_told
    a_reset_is_broken
    a_half_closed_peer_can_be_answered
    a_full_socket_is_reported_when_there_is_room
    gathered_buffers_arrive_in_order
    gathered_buffers_are_sent_as_far_as_there_is_room
    files_are_sent_from_their_offset
    a_file_that_ends_early_says_so
    a_file_waits_for_room
    wakes_come_once_for_each_write
    listening_can_be_interrupted
    an_ended_side_is_seen_and_the_other_goes_on
    an_aborted_connection_never_ends_cleanly
    a_guarded_connection_ends_cleanly_only_when_it_is_not_guarded_any_more
    closing_ends
    sending_to_one_who_is_gone_breaks
    clocks_do_not_go_back
}

// If libevent polls by epoll, it also reports all events. It never has a waiter.
#[cfg(feature = "libevent")]
conformance!(libevent_edges_tcp, Tcp<Libevent>: news_come_once a_waiter_is_refused);
#[cfg(feature = "libevent")]
conformance!(libevent_edges_unix, Unix<Libevent>: news_come_once a_waiter_is_refused);
#[cfg(feature = "libevent")]
conformance!(libevent_states_tcp, Tcp<LibeventByPoll>: whoever_does_not_receive_is_told_once);
#[cfg(feature = "libevent")]
conformance!(libevent_states_unix, Unix<LibeventByPoll>: whoever_does_not_receive_is_told_once);

/// The promises of backends that have descriptors to give away.
macro_rules! every_kernel {
    ($($property:ident)*) => {
        conformance!(epoll_given_away, Tcp<Epoll>: $($property)*);
        conformance!(uring_given_away, Tcp<Uring>: $($property)*);
        conformance!(uring_unix_given_away, Unix<Uring, 1>: $($property)*);
        #[cfg(feature = "libevent")]
        conformance!(libevent_given_away, Tcp<Libevent>: $($property)*);
        #[cfg(feature = "libevent")]
        conformance!(libevent_by_poll_given_away, Unix<LibeventByPoll>: $($property)*);
    };
}

every_kernel! {
    nothing_is_reported_of_a_connection_that_was_given_away
}

conformance!(epoll_doorbells, Tcp<Epoll>: doorbells_are_reported_once_for_each_ring);
conformance!(uring_doorbells, Tcp<Uring>: doorbells_are_reported_once_for_each_ring);

/// The promises of backends that can share a listener.
macro_rules! shared {
    ($($property:ident)*) => {
        conformance!(epoll_tcp_shared, Tcp<Epoll>, sharing: $($property)*);
        conformance!(epoll_unix_shared, Unix<Epoll>, sharing: $($property)*);
        conformance!(uring_tcp_shared, Tcp<Uring>, sharing: $($property)*);
        conformance!(uring_unix_shared, Unix<Uring>, sharing: $($property)*);
        conformance!(uring_tcp_ahead_shared, Tcp<Uring, 1>, sharing: $($property)*);
        #[cfg(feature = "libevent")]
        conformance!(libevent_tcp_shared, Tcp<Libevent>, sharing: $($property)*);
        #[cfg(feature = "libevent")]
        conformance!(libevent_by_poll_tcp_shared, Tcp<LibeventByPoll>, sharing: $($property)*);
    };
}

shared! { a_stopped_lane_leaves_nothing_behind nobody_told_is_nobody_waiting }
