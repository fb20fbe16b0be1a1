//! Who may take what is scarce: connections, requests under way and turns to scan.
//!
//! Until a request is authenticated it takes nothing but its connection, for some seconds ([`Connections`]). Then it takes one
//! of the places for requests, of which its key and the address of its peer have a share each ([`Shares`]): one key that is
//! slow, or one machine that asks for everything, leaves places for others.

mod connections;
mod shares;
mod ticket;
mod turns;

pub(crate) use connections::{Connection, Connections, Phase, Refused};
pub(crate) use shares::{Share, Shares};
pub(crate) use ticket::{Admission, Requester, Ticket};
pub(crate) use turns::{Turns, WorkTurn};
