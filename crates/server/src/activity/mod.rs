//! The current activity of the server: sessions, running and waiting queries, and counters.
//!
//! ```text
//! sessions   the list of sessions: what each runs, and how to stop it
//! admission  which queries run and which wait
//! run        one query from its start to its line in the log
//! counters   what the metrics show
//! ```

pub(crate) mod admission;
pub(crate) mod counters;
pub(crate) mod run;
pub(crate) mod sessions;
