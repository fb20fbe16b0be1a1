//! Measuring a piece of work of this process.

use std::time::Instant;

use anyhow::Result;

use super::answer::Answer;
use super::process;
use super::task::Measured;

/// Measures `work`. Its result is converted by `answer` afterwards, which is not measured.
pub async fn measured<T>(
    work: impl Future<Output = Result<T>>,
    answer: impl FnOnce(T) -> Result<Answer>,
) -> Result<Measured> {
    let (cpu, wall) = (process::own_cpu()?, Instant::now());
    let done = work.await?;
    let (cpu_s, wall_s) = (process::own_cpu()? - cpu, wall.elapsed().as_secs_f64());
    let peak_bytes = process::peak_bytes("self");
    Ok(Measured { cpu_s, wall_s, peak_bytes, answer: answer(done)?, traffic: None })
}
