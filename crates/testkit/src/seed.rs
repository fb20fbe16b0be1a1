//! Seeds and counts of randomized tests.

use std::time::{SystemTime, UNIX_EPOCH};

/// The variable that repeats a run.
pub const SEED: &str = "PUSHDOWNDB_SEED";

/// Returns the seed of [`SEED`], or else a fresh one, and prints it.
pub fn seed() -> u64 {
    let seed = number_from(SEED).unwrap_or_else(fresh);
    println!("repeat with {SEED}={seed}");
    seed
}

/// Returns a seed of the clock.
pub fn fresh() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_millis() as u64
}

/// Returns the number in an environment variable, if it is set.
pub fn number_from(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

/// Returns the value of an environment variable as a script takes it, `default` if it is not set.
pub fn text_from(variable: &str, default: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| default.to_owned())
}
