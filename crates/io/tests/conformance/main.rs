//! The promises of a backend, tested on every backend: see `oribi_io::Backend`.

mod networks;
mod properties;
mod sharing;

#[cfg(feature = "libevent")]
use networks::LibeventByPoll;
use networks::{Chosen, Simulated, Tcp, Unix};
#[cfg(feature = "libevent")]
use oribi_io::Libevent;
use oribi_io::{Epoll, Uring};

/// Makes a list of properties, for the network of the module that names the list.
macro_rules! properties {
    ($($(#[$words:meta])* $list:ident of $module:ident { $($property:ident)* })*) => {$(
        $(#[$words])*
        macro_rules! $list {
            () => {$(
                #[test]
                fn $property() {
                    $module::$property::<Network>();
                }
            )*};
        }
    )*};
}

properties! {
    /// The promises that every backend keeps.
    promises of properties {
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

    /// Each change of a socket is reported once.
    changes of properties {
        news_come_once
    }

    /// Like `changes`, where the system reports states.
    #[cfg(feature = "libevent")]
    states of properties {
        whoever_does_not_receive_is_told_once
    }

    /// Another thread can wait instead of the backend.
    waiter of properties {
        news_reach_the_waiter_or_the_backend
    }

    /// No other thread can wait.
    #[cfg(feature = "libevent")]
    no_waiter of properties {
        a_waiter_is_refused
    }

    /// The backend has descriptors to give away.
    gifts of properties {
        nothing_is_reported_of_a_connection_that_was_given_away
        a_connection_that_was_given_away_notices_that_its_peer_has_vanished
    }

    /// A doorbell is watched beside the pipe.
    doorbells of properties {
        doorbells_are_reported_once_for_each_ring
    }

    /// Several backends share a listener.
    sharing of sharing {
        a_stopped_lane_leaves_nothing_behind
        nobody_told_is_nobody_waiting
    }
}

/// Makes a module for each network, with the tests of its lists.
macro_rules! networks {
    ($($(#[$condition:meta])? $name:ident: $network:ty => $($list:ident)*;)*) => {$(
        $(#[$condition])?
        mod $name {
            use super::*;

            type Network = $network;

            $($list! {})*
        }
    )*};
}

networks! {
    sim: Simulated => promises changes waiter;
    epoll_tcp: Tcp<Epoll> => promises changes waiter gifts doorbells sharing;
    epoll_unix: Unix<Epoll> => promises changes waiter sharing;
    uring_tcp: Tcp<Uring> => promises changes waiter gifts doorbells sharing;
    uring_unix: Unix<Uring> => promises changes waiter sharing;
    uring_tcp_one_ahead: Tcp<Uring, 1> => sharing;
    uring_tcp_ahead: Tcp<Uring, 4> => promises changes waiter;
    uring_unix_ahead: Unix<Uring, 1> => promises changes waiter gifts;
    #[cfg(feature = "libevent")]
    libevent_tcp: Tcp<Libevent> => promises changes no_waiter gifts sharing;
    #[cfg(feature = "libevent")]
    libevent_unix: Unix<Libevent> => promises changes no_waiter;
    #[cfg(feature = "libevent")]
    libevent_by_poll_tcp: Tcp<LibeventByPoll> => promises states sharing;
    #[cfg(feature = "libevent")]
    libevent_by_poll_unix: Unix<LibeventByPoll> => promises states gifts;
    chosen_epoll: Tcp<Chosen<0>> => promises changes waiter gifts doorbells sharing;
    chosen_uring: Tcp<Chosen<1>, 4> => promises changes waiter gifts doorbells;
    #[cfg(feature = "libevent")]
    chosen_libevent: Tcp<Chosen<2>> => promises changes no_waiter gifts sharing;
}
