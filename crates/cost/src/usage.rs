//! What a query did, in numbers: a snapshot of a meter, or an estimate made before the query runs.

use std::ops::AddAssign;

use serde::Serialize;
use serde_json::{Value, json};

use crate::{Bill, RequestKind};

/// Requests sent to storage, by kind.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Requests {
    /// Reads of an object or a range of it.
    pub get: u64,
    /// Questions about one object.
    pub head: u64,
    /// Pages of a listing.
    pub list: u64,
    /// Writes: PUT, and each request of a multipart upload.
    pub put: u64,
    /// Deletions.
    pub delete: u64,
    /// S3 Select requests.
    pub select: u64,
    /// Fragments sent to our own node.
    pub fragment: u64,
}

impl Requests {
    /// All of them.
    pub fn total(&self) -> u64 {
        RequestKind::ALL.iter().map(|kind| self.of(*kind)).sum()
    }

    /// The number of requests of one kind.
    pub fn of(&self, kind: RequestKind) -> u64 {
        match kind {
            RequestKind::Get => self.get,
            RequestKind::Head => self.head,
            RequestKind::List => self.list,
            RequestKind::Put => self.put,
            RequestKind::Delete => self.delete,
            RequestKind::Select => self.select,
            RequestKind::Fragment => self.fragment,
        }
    }
}

impl AddAssign for Requests {
    fn add_assign(&mut self, other: Self) {
        let Self { get, head, list, put, delete, select, fragment } = other;
        self.get += get;
        self.head += head;
        self.list += list;
        self.put += put;
        self.delete += delete;
        self.select += select;
        self.fragment += fragment;
    }
}

/// What a query did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// Seconds from start to the last row.
    pub wall_s: f64,
    /// CPU seconds of the engine.
    pub cpu_s: f64,
    /// CPU seconds that storage spent on fragments. S3 Select is charged by bytes scanned instead.
    pub storage_cpu_s: f64,
    /// Rows in the result.
    pub rows: u64,
    /// Bytes that storage read to answer S3 Select requests and fragments, as it reports them.
    pub bytes_scanned: u64,
    /// Bytes that storage returned as results of S3 Select requests and fragments, as it reports them.
    pub bytes_returned: u64,
    /// The part of `bytes_scanned` that fragments read; it is paid by `storage_cpu_s`.
    pub bytes_scanned_by_fragments: u64,
    /// The part of `bytes_returned` that fragments returned; it is paid by `storage_cpu_s`.
    pub bytes_returned_by_fragments: u64,
    /// Bytes over the network, both ways.
    pub bytes_network: u64,
    /// The part of `bytes_network` that went to storage; it is free of egress charges.
    pub bytes_sent: u64,
    /// Requests sent to storage.
    pub requests: Requests,
    /// Those that got no answer, not all of it, or one that asks to come back.
    pub requests_failed: u64,
    /// How often something was read plainly because storage failed at it.
    pub fall_backs: u64,
    /// What was pushed into storage, and where a query fell back and why.
    pub strategies: Vec<String>,
    /// How many cores the engine had for the query.
    pub cores: f64,
}

/// The object that `--stats json` prints: counters, then dollars.
pub fn to_json(usage: &Usage, bill: &Bill) -> Value {
    json!({
        "wall_s": usage.wall_s,
        "cpu_s": usage.cpu_s,
        "storage_cpu_s": usage.storage_cpu_s,
        "rows": usage.rows,
        "bytes_scanned": usage.bytes_scanned,
        "bytes_returned": usage.bytes_returned,
        "bytes_network": usage.bytes_network,
        "requests": usage.requests,
        "cost_usd": {
            "compute": bill.compute,
            "request": bill.request,
            "scan": bill.scan,
            "transfer": bill.transfer,
            "storage_compute": bill.storage_compute,
            "total": bill.total(),
        },
        "strategies": usage.strategies,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_the_documented_fields() {
        let usage = Usage {
            rows: 3,
            requests: Requests { get: 2, select: 1, ..Requests::default() },
            strategies: vec!["filter at storage".into()],
            ..Usage::default()
        };
        let bill = Bill { scan: 0.5, transfer: 0.25, ..Bill::default() };
        let value = to_json(&usage, &bill);
        let fields: Vec<_> = value.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
        let mut expected = vec![
            "wall_s",
            "cpu_s",
            "storage_cpu_s",
            "rows",
            "bytes_scanned",
            "bytes_returned",
            "bytes_network",
            "requests",
            "cost_usd",
            "strategies",
        ];
        expected.sort_unstable();
        let mut fields = fields;
        fields.sort_unstable();
        assert_eq!(fields, expected);
        assert_eq!(value["requests"]["get"], 2);
        assert_eq!(value["requests"]["select"], 1);
        assert_eq!(value["cost_usd"]["total"], 0.75);
        assert_eq!(value["strategies"][0], "filter at storage");
        assert_eq!(usage.requests.total(), 3);
    }
}
