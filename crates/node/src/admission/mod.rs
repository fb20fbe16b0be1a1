//! Admission control: connections, requests in progress, work permits and memory.
//!
//! Until a request is authenticated it uses only its connection, for a few seconds
//! ([`Connections`]). Then it takes one of the request slots, of which its key and its peer address
//! have a share each ([`Shares`]): one slow key, or one machine that sends everything, leaves slots
//! for others.

mod connections;
mod memory;
mod shares;
mod ticket;
mod work_permits;

pub(crate) use connections::{Connection, Connections, Phase, Refused};
pub(crate) use memory::{NodeMemory, ScanMemory, fit_to_memory, min_memory_bytes};
pub(crate) use shares::{Share, Shares};
pub(crate) use ticket::{Admission, Requester, Ticket};
pub(crate) use work_permits::{WorkPermit, WorkPermits};
