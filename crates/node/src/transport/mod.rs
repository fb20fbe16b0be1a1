//! Connections: sockets, TLS, and limits on slow peers.

mod socket;
mod stall;

pub(crate) use socket::{ConnectionState, Socket};
pub(crate) use stall::{PeerStalled, StallLimits, TimedBody};
