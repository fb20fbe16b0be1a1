//! A usage and its bill as JSON.

use serde_json::{Value, json};

use crate::price::Bill;
use crate::usage::Usage;

/// Returns the object that `--stats json` prints: counters, then dollars.
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
        "spill": usage.spill,
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
    use crate::Requests;

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
            "spill",
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
