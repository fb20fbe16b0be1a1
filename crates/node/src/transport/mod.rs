//! Connections: sockets, TLS, and limits on slow peers.

mod socket;
mod stall;
mod tls;

pub(crate) use socket::{ConnectionState, Socket};
pub(crate) use stall::{PeerStalled, StallLimits, TimedBody};
pub(crate) use tls::Tls;
