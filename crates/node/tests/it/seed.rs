//! Where the chance of a test comes from: given, to repeat a run, or fresh and printed.

use std::time::{SystemTime, UNIX_EPOCH};

/// `PUSHDOWNDB_SEED`, or a fresh one.
pub fn seed() -> u64 {
    let fresh = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    let seed = number_from("PUSHDOWNDB_SEED").unwrap_or_else(fresh);
    println!("repeat with PUSHDOWNDB_SEED={seed}");
    seed
}

/// The number in an environment variable.
pub fn number_from(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}
