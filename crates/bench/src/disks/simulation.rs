//! Predicts the effect of more nodes: a model of one query over N nodes, with the rates of a
//! record.
//!
//! ```text
//! disks        bytes of a node ÷ rate of its disk
//! bus          (objects × bytes of an answer without rows + bytes of rows) ÷ rate of the uplink
//! coordinator  (start + requests × CPU of a request + bytes of rows × CPU of a byte) ÷ cores
//! listing      pages of 1000 objects of a node × latency, or bytes of a manifest ÷ rate of the uplink
//! seconds      listing + the slowest of disks, bus and coordinator
//! dollars      the engine's machine, requests, and the storage's CPU time, by the price book `paper`
//! ```
//!
//! The query that returns the fewest bytes shows the cost of an object apart from rows: its bytes
//! and, from the growth with the number of nodes, the CPU time of a request. The additional CPU
//! time of another query is attributed to its rows, with at least the time per byte of the
//! traditional series.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use pushdowndb_cost::{PriceBook, Requests, Usage};

use super::results::{Cell, Figures, Results};
use crate::record::aligned;

/// The numbers of nodes to predict.
const NODES: [u64; 3] = [10, 100, 1000];

/// Bytes of the table on each node, of an object, and scanned by one request.
const NODE_BYTES: f64 = 10e9;
const OBJECT_BYTES: f64 = 64e6;
const REQUEST_BYTES: f64 = 64e6;

/// The rate of a current disk, which one core scans as fast as it reads (docs/measurements.md); the
/// uplink of the engine, 10 Gb/s; the cores of the engine.
const DISK_BYTES_PER_S: f64 = 1e9;
const UPLINK_BYTES_PER_S: f64 = 1.25e9;
const CORES: f64 = 16.0;

/// The number of objects of a table in the record, and a difference of CPU seconds that counts as
/// noise.
const PARTS: f64 = 64.0;
const NOISE_S: f64 = 0.03;

/// The number of objects and the duration of a page of a listing, and the bytes of an object in a
/// manifest.
const PAGE_OBJECTS: f64 = 1000.0;
const PAGE_S: f64 = 0.03;
const MANIFEST_BYTES: f64 = 150.0;

/// What a record shows about one query.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Measured {
    /// Bytes of rows returned per byte of the table, and other bytes returned per object.
    returned: f64,
    object_bytes: f64,
    /// CPU seconds of the engine: fixed, per request, and per byte of rows.
    start_s: f64,
    request_s: f64,
    byte_s: f64,
    /// CPU seconds of storage per byte of the table.
    storage_s: f64,
}

/// The time of each stage of a query over many nodes, in seconds.
#[derive(Clone, Copy, Debug)]
struct Stages {
    disks: f64,
    bus: f64,
    coordinator: f64,
    listing: f64,
}

impl Stages {
    fn of(measured: Measured, nodes: f64) -> Self {
        let (bytes, returned) = (nodes * NODE_BYTES, nodes * NODE_BYTES * measured.returned);
        let answers = returned + bytes / OBJECT_BYTES * measured.object_bytes;
        let cpu_s = measured.start_s + bytes / REQUEST_BYTES * measured.request_s + returned * measured.byte_s;
        let objects = NODE_BYTES / OBJECT_BYTES;
        Self {
            disks: NODE_BYTES / DISK_BYTES_PER_S,
            bus: answers / UPLINK_BYTES_PER_S,
            coordinator: cpu_s / CORES,
            // All nodes are listed concurrently.
            listing: (objects / PAGE_OBJECTS).ceil() * PAGE_S + objects * nodes * MANIFEST_BYTES / UPLINK_BYTES_PER_S,
        }
    }

    fn seconds(&self) -> f64 {
        self.listing + self.disks.max(self.bus).max(self.coordinator)
    }

    fn slowest(&self) -> &'static str {
        let all =
            [(self.disks, "disks"), (self.bus, "bus"), (self.coordinator, "coordinator"), (self.listing, "listing")];
        all.into_iter().max_by(|(a, _), (b, _)| a.total_cmp(b)).map_or("", |(_, name)| name)
    }
}

/// Formats a table for each query of the record.
pub fn tables(record: &Results) -> Result<String> {
    let all = record.figures();
    let mut queries: Vec<&str> = Vec::new();
    for (cell, _) in &all {
        if !queries.contains(&cell.query.as_str()) {
            queries.push(&cell.query);
        }
    }
    let book = PriceBook::named_or_path("paper")?;
    let base = Base::of(&all).context("the record has both ways of no number of disks")?;
    let mut text = String::new();
    for query in queries {
        let Ok(measured) = measured(&all, query, base) else { continue };
        let head =
            ["nodes", "TB", "disks", "bus", "coordinator", "listing", "seconds", "slowest", "of linear", "dollars"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for nodes in NODES {
            let stages = Stages::of(measured, nodes as f64);
            let bytes = nodes as f64 * NODE_BYTES;
            let usage = Usage {
                wall_s: stages.seconds(),
                cores: CORES,
                bytes_network: (bytes * measured.returned) as u64,
                storage_cpu_s: bytes * measured.storage_s,
                requests: Requests {
                    fragment: (bytes / REQUEST_BYTES) as u64,
                    list: (nodes as f64 * NODE_BYTES / OBJECT_BYTES / PAGE_OBJECTS).ceil() as u64,
                    ..Requests::default()
                },
                ..Usage::default()
            };
            let linear = Stages::of(measured, 1.0).seconds() / stages.seconds();
            let mut row = vec![nodes.to_string(), format!("{:.1}", bytes / 1e12)];
            row.extend(
                [stages.disks, stages.bus, stages.coordinator, stages.listing, stages.seconds()]
                    .map(|s| format!("{s:.2}")),
            );
            row.extend([
                stages.slowest().to_owned(),
                format!("{linear:.2}"),
                format!("{:.2}", book.bill(&usage).total()),
            ]);
            rows.push(row);
        }
        let _ = writeln!(
            text,
            "{query}: rows of {:.3} % of the bytes are returned\n\n{}",
            measured.returned * 100.0,
            aligned(&rows)
        );
    }
    Ok(text)
}

/// The figures of the active series on even disks, with the number of nodes.
fn active<'a>(all: &'a [(Cell, Figures)], query: &str) -> Vec<(f64, &'a Figures)> {
    let of = all
        .iter()
        .filter(|(cell, _)| cell.query == query && cell.series == "active" && cell.disks == cell.nodes.to_string());
    of.map(|(cell, figures)| (cell.nodes as f64, figures)).collect()
}

/// The cost of the query that returns the fewest bytes.
#[derive(Clone, Copy, Debug)]
struct Base {
    bytes: f64,
    engine_cpu_s: f64,
    start_s: f64,
    request_s: f64,
    /// CPU seconds per byte that the traditional series reads.
    byte_s: f64,
}

impl Base {
    fn of(all: &[(Cell, Figures)]) -> Option<Self> {
        let is_even = |cell: &Cell| cell.disks == cell.nodes.to_string();
        let most = all.iter().filter(|(cell, _)| is_even(cell)).map(|(cell, _)| cell.nodes).max()?;
        let on_most = |series: &str| {
            let of = all.iter().filter(|(cell, _)| cell.series == series && is_even(cell) && cell.nodes == most);
            of.min_by(|(_, a), (_, b)| a.bytes.total_cmp(&b.bytes)).cloned()
        };
        let ((cell, least), (_, plain)) = (on_most("active")?, on_most("traditional")?);
        let points: Vec<_> = active(all, &cell.query).iter().map(|(_, f)| (f.requests, f.engine_cpu_s)).collect();
        let (start_s, request_s) = line(&points);
        let byte_s = ((plain.engine_cpu_s - least.engine_cpu_s) / plain.bytes).max(0.0);
        Some(Self { bytes: least.bytes, engine_cpu_s: least.engine_cpu_s, start_s, request_s, byte_s })
    }
}

fn measured(all: &[(Cell, Figures)], query: &str, base: Base) -> Result<Measured> {
    let active = active(all, query);
    let (_, last) = active.last().context("no measurement of the active way")?;
    let traditional = all.iter().find(|(cell, _)| cell.query == query && cell.series == "traditional");
    let table = traditional.map(|(_, figures)| figures.bytes).context("no measurement of the traditional way")?;
    let rows = (last.bytes - base.bytes).max(0.0);
    let more_s = last.engine_cpu_s - base.engine_cpu_s;
    let byte_s = if more_s > NOISE_S && rows > 0.0 { (more_s / rows).max(base.byte_s) } else { base.byte_s };
    Ok(Measured {
        returned: rows / table,
        object_bytes: base.bytes / PARTS,
        start_s: base.start_s,
        request_s: base.request_s,
        byte_s,
        storage_s: last.storage_cpu_s / table,
    })
}

/// Fits a line to these points by least squares. Returns its value at 0 and its slope, neither of
/// them below 0.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let count = points.len().max(1) as f64;
    let mean = |value: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(value).sum::<f64>() / count;
    let (x, y) = (mean(&|(x, _)| *x), mean(&|(_, y)| *y));
    let spread = mean(&|(a, _)| (a - x) * (a - x));
    let slope = if spread > 0.0 { (mean(&|(a, b)| (a - x) * (b - y)) / spread).max(0.0) } else { 0.0 };
    ((y - slope * x).max(0.0), slope)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_stage_bounds_a_query() {
        let (at_0, slope) = line(&[(1.0, 3.0), (2.0, 5.0), (4.0, 9.0)]);
        assert!((at_0 - 1.0).abs() < 1e-9 && (slope - 2.0).abs() < 1e-9);
        assert_eq!(line(&[(1.0, 3.0), (1.0, 5.0)]), (4.0, 0.0));
        let measured = Measured {
            returned: 0.04,
            object_bytes: 1000.0,
            start_s: 0.1,
            request_s: 1e-3,
            byte_s: 1e-9,
            storage_s: 1e-9,
        };
        let few = Stages::of(measured, 10.0);
        assert_eq!(few.slowest(), "disks");
        let many = Stages::of(measured, 1000.0);
        assert_eq!(many.slowest(), "bus");
        let answers = 1000.0 * NODE_BYTES * (0.04 + 1000.0 / OBJECT_BYTES);
        assert!((many.bus - answers / UPLINK_BYTES_PER_S).abs() < 1e-6);
        assert!(many.seconds() > 20.0 * few.seconds());
        let aggregate = Stages::of(Measured { returned: 0.0, ..measured }, 1000.0);
        assert_eq!(aggregate.slowest(), "disks", "{aggregate:?}");
    }
}
