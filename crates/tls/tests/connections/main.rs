//! Encrypted connections over the backends of this machine, with rustls's own client at the other end.

mod certificates;
mod clients;
mod ends;
mod handshakes;
mod pair;
mod passing;
mod proof;

use pair::{Kernel, Pair, Peer};

/// Runs a test over each backend.
macro_rules! over_each_backend {
    ($($module:ident::$test:ident)*) => {
        mod epoll {
            $(#[test] fn $test() { crate::$module::$test::<oribi_io::Epoll>(); })*
        }
        mod uring {
            $(#[test] fn $test() { crate::$module::$test::<oribi_io::Uring>(); })*
        }
    };
}

over_each_backend! {
    passing::a_request_and_its_response
    passing::large_content_passes_in_both_directions_and_waits_for_the_reader
    passing::gathered_pieces_are_one_record
    passing::files_are_sent_from_their_offset
    passing::a_host_that_takes_the_connection_reads_and_writes_plain_bytes
    ends::an_end_that_comes_with_the_last_bytes_is_told
    ends::an_end_without_a_word_is_a_break
    ends::ends_are_said_and_cuts_are_not
    ends::changes_of_keys_are_answered_as_long_as_they_are_few
    handshakes::each_byte_may_come_alone
    handshakes::clear_text_may_come_first
    handshakes::what_is_no_handshake_is_refused
    handshakes::sessions_are_resumed_at_every_lane
    handshakes::the_protocol_is_agreed_on
    handshakes::the_name_chooses_the_certificate
    handshakes::certificates_are_exchanged_while_connections_stay
    clients::clients_show_certificates
    clients::a_session_is_resumed_only_under_its_own_rules
    clients::suites_are_chosen
    clients::what_is_stapled_is_sent
    proof::an_authority_is_shown_its_proof_and_nothing_else_happens
    proof::who_asks_for_proof_that_there_is_none_of_is_refused
    proof::who_speaks_http_as_well_is_no_authority
    proof::a_client_that_is_refused_is_not_taken_for_another
}
