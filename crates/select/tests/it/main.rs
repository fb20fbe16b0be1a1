//! The dialect from end to end, without a server.

mod same_rows;
mod statements;
