//! Memory in which the kernel writes the peer address of an accepted connection.
#![allow(unsafe_code)]

use crate::Peer;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Room for one address, which must not move while an armed accept may write to it.
#[repr(C)]
pub(super) struct Address {
    bytes: libc::sockaddr_storage,
    size: libc::socklen_t,
}

impl Default for Address {
    fn default() -> Self {
        // SAFETY: zeroes are a valid address: one without a family.
        Self { bytes: unsafe { std::mem::zeroed() }, size: 0 }
    }
}

impl Address {
    /// Clears the room for the next address, and returns its pointers.
    ///
    /// # Safety
    /// `place` must be valid for writes and used by nothing else.
    pub(super) unsafe fn clear(place: *mut Self) -> (*mut libc::sockaddr, *mut libc::socklen_t) {
        let cleared = Self { size: size_of::<libc::sockaddr_storage>() as libc::socklen_t, ..Self::default() };
        // SAFETY: by the contract of this function.
        unsafe {
            place.write(cleared);
            ((&raw mut (*place).bytes).cast(), &raw mut (*place).size)
        }
    }

    /// The peer, in the form of the backend.
    pub(super) fn peer(&self) -> Peer {
        let bytes = &raw const self.bytes;
        match i32::from(self.bytes.ss_family) {
            libc::AF_INET => {
                // SAFETY: an address of this family has this layout; there is room for every layout, with the right alignment.
                let address = unsafe { &*bytes.cast::<libc::sockaddr_in>() };
                let (host, port) = (address.sin_addr.s_addr.to_ne_bytes(), u16::from_be(address.sin_port));
                Peer::Internet(SocketAddr::V4(SocketAddrV4::new(host.into(), port)))
            }
            libc::AF_INET6 => {
                // SAFETY: as above.
                let address = unsafe { &*bytes.cast::<libc::sockaddr_in6>() };
                let (host, port) = (Ipv6Addr::from(address.sin6_addr.s6_addr), u16::from_be(address.sin6_port));
                Peer::Internet(SocketAddr::V6(SocketAddrV6::new(host, port, address.sin6_flowinfo, address.sin6_scope_id)))
            }
            _ => Peer::Local,
        }
    }
}
