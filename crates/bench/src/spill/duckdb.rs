//! DuckDB with the same limits, threads and files, in a process of its own.

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::answer::Answer;
use super::data::TABLES;
use super::measure::{Measured, Work};
use crate::contestant::process::why_failed;

/// The script that runs a query.
const SCRIPT: &str = include_str!("../../../../experiments/spill.py");

/// The input of the script.
#[derive(Debug, Serialize)]
struct Task<'a> {
    sql: &'a str,
    /// The column to sum, and whether the order of rows counts.
    column: &'a str,
    in_order: bool,
    memory: u64,
    threads: usize,
    tables: [&'static str; 3],
    /// The folder with the tables, and the folder to spill to.
    data: String,
    folder: String,
}

/// The output of the script.
#[derive(Debug, Deserialize)]
struct Said {
    cpu_s: f64,
    wall_s: f64,
    answer: Answer,
}

/// The version of DuckDB. An error says why Python cannot run it.
pub fn version() -> Result<String> {
    let mut python = Command::new("python3");
    let output = python.args(["-c", SCRIPT, "version"]).stdin(Stdio::null()).output().context("python3")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}", stderr.trim().lines().last().unwrap_or("python3 failed"));
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Runs the query of `work`.
pub fn run(work: &Work) -> Result<Measured> {
    let task = Task {
        sql: work.query.sql,
        column: work.query.checked.column,
        in_order: work.query.checked.in_order,
        memory: work.memory,
        threads: work.threads,
        tables: TABLES,
        data: work.tables.display().to_string(),
        folder: work.disk.join("duckdb").display().to_string(),
    };
    let mut python = Command::new("python3");
    python.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = python.spawn().context("python3")?;
    let mut stdin = child.stdin.take().context("a process without stdin")?;
    // A process that fails at once may not read all the input; its error is reported below.
    let written = stdin.write_all(&serde_json::to_vec(&task)?);
    drop(stdin);
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "{}", why_failed(&output));
    written?;
    let Said { cpu_s, wall_s, answer } = serde_json::from_slice(&output.stdout).context("what the script said")?;
    Ok(Measured { wall_s, cpu_s, answer, spilled: None })
}
