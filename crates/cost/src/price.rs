//! Price books: the cost of a query in dollars.
//!
//! The model is that of Section II-B of the PushdownDB paper: compute time, requests, bytes scanned
//! and bytes returned by S3 Select. If data leaves the region, every received byte has a price too.
//! Fragments are charged by storage CPU time. A gigabyte is 10⁹ bytes.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::LazyLock;

use pushdowndb_contract::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::requests::RequestKind;
use crate::usage::Usage;

/// The built-in books, by name.
const SHIPPED: [(&str, &str); 3] = [
    ("aws", include_str!("../prices/aws.toml")),
    ("paper", include_str!("../prices/paper.toml")),
    ("paper-egress", include_str!("../prices/paper-egress.toml")),
];

const GB: f64 = 1e9;

/// Prices of storage and compute. In TOML every field must be given, so that nothing is free by
/// mistake.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PriceBook {
    /// The source of the prices.
    pub description: String,
    /// Dollars per hour of the machine that runs the engine.
    pub instance_usd_per_hour: f64,
    /// Cores of that machine: a query pays for the cores it had.
    pub instance_cores: f64,
    /// Dollars per 1000 GET requests.
    pub get_usd_per_1000: f64,
    /// Dollars per 1000 HEAD requests.
    pub head_usd_per_1000: f64,
    /// Dollars per 1000 LIST requests.
    pub list_usd_per_1000: f64,
    /// Dollars per 1000 PUT requests and parts of uploads.
    pub put_usd_per_1000: f64,
    /// Dollars per 1000 DELETE requests.
    pub delete_usd_per_1000: f64,
    /// Dollars per 1000 S3 Select requests.
    pub select_usd_per_1000: f64,
    /// Dollars per 1000 fragments.
    pub fragment_usd_per_1000: f64,
    /// Dollars per GB that S3 Select scans.
    pub scan_usd_per_gb: f64,
    /// Dollars per GB that S3 Select returns.
    pub return_usd_per_gb: f64,
    /// Dollars per GB received from storage, zero within a region.
    pub egress_usd_per_gb: f64,
    /// Dollars per hour of a storage core, for fragments.
    pub storage_core_usd_per_hour: f64,
}

impl PriceBook {
    /// Returns the names of the built-in books.
    pub fn shipped() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|(name, _)| *name)
    }

    /// Returns a built-in book by its `name`, or reads one by the path of a TOML file.
    pub fn named_or_path(name: &str) -> Result<Self> {
        // Planning needs the book for every scan.
        static PARSED: LazyLock<Vec<(&str, Result<PriceBook>)>> =
            LazyLock::new(|| SHIPPED.iter().map(|(name, text)| (*name, PriceBook::from_toml(text))).collect());
        if let Some((_, book)) = PARSED.iter().find(|(shipped, _)| *shipped == name) {
            return book.as_ref().cloned().map_err(|e| Error::invalid(format!("price book '{name}': {e}")));
        }
        let text = std::fs::read_to_string(Path::new(name)).map_err(|e| {
            let mut known = String::new();
            for (shipped, _) in SHIPPED {
                let _ = write!(known, "'{shipped}', ");
            }
            Error::new(
                ErrorKind::NotFound,
                format!("price book '{name}': neither a shipped one ({known}or the path of a TOML file)"),
            )
            .with_source(e)
        })?;
        Self::from_toml(&text).map_err(|e| e.context(format!("price book '{name}'")))
    }

    /// Parses a price book in TOML. Returns an error if a price is negative or not finite.
    pub fn from_toml(text: &str) -> Result<Self> {
        let book: Self = toml::from_str(text).map_err(|e| Error::invalid(e.to_string().trim_end().to_owned()))?;
        for (name, value) in book.prices() {
            if !value.is_finite() || value < 0.0 {
                return Err(Error::invalid(format!("{name} = {value}: a price is a number that is not negative")));
            }
        }
        if book.instance_cores < 1.0 {
            return Err(Error::invalid(format!("instance_cores = {}: at least 1", book.instance_cores)));
        }
        Ok(book)
    }

    /// Returns dollars per 1000 requests of this `kind`.
    pub fn usd_per_1000(&self, kind: RequestKind) -> f64 {
        match kind {
            RequestKind::Get => self.get_usd_per_1000,
            RequestKind::Head => self.head_usd_per_1000,
            RequestKind::List => self.list_usd_per_1000,
            RequestKind::Put => self.put_usd_per_1000,
            RequestKind::Delete => self.delete_usd_per_1000,
            RequestKind::Select => self.select_usd_per_1000,
            RequestKind::Fragment => self.fragment_usd_per_1000,
        }
    }

    /// Computes the cost of a usage. A query on more cores than the instance has pays for the whole
    /// instance.
    pub fn bill(&self, usage: &Usage) -> Bill {
        let share = (usage.cores / self.instance_cores).clamp(0.0, 1.0);
        let received = usage.bytes_network.saturating_sub(usage.bytes_sent);
        let scanned = usage.bytes_scanned.saturating_sub(usage.bytes_scanned_by_fragments);
        let returned = usage.bytes_returned.saturating_sub(usage.bytes_returned_by_fragments);
        Bill {
            compute: usage.wall_s / 3600.0 * self.instance_usd_per_hour * share,
            request: RequestKind::ALL
                .iter()
                .map(|kind| usage.requests.of(*kind) as f64 / 1000.0 * self.usd_per_1000(*kind))
                .sum(),
            scan: scanned as f64 / GB * self.scan_usd_per_gb,
            transfer: returned as f64 / GB * self.return_usd_per_gb + received as f64 / GB * self.egress_usd_per_gb,
            storage_compute: usage.storage_cpu_s / 3600.0 * self.storage_core_usd_per_hour,
        }
    }

    fn prices(&self) -> [(&'static str, f64); 13] {
        [
            ("instance_usd_per_hour", self.instance_usd_per_hour),
            ("instance_cores", self.instance_cores),
            ("get_usd_per_1000", self.get_usd_per_1000),
            ("head_usd_per_1000", self.head_usd_per_1000),
            ("list_usd_per_1000", self.list_usd_per_1000),
            ("put_usd_per_1000", self.put_usd_per_1000),
            ("delete_usd_per_1000", self.delete_usd_per_1000),
            ("select_usd_per_1000", self.select_usd_per_1000),
            ("fragment_usd_per_1000", self.fragment_usd_per_1000),
            ("scan_usd_per_gb", self.scan_usd_per_gb),
            ("return_usd_per_gb", self.return_usd_per_gb),
            ("egress_usd_per_gb", self.egress_usd_per_gb),
            ("storage_core_usd_per_hour", self.storage_core_usd_per_hour),
        ]
    }
}

/// The cost of a query in dollars, by item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Bill {
    /// The engine's machine, for the duration of the query.
    pub compute: f64,
    /// Requests.
    pub request: f64,
    /// Bytes that S3 Select scanned.
    pub scan: f64,
    /// Bytes that S3 Select returned, and bytes that left the region.
    pub transfer: f64,
    /// Storage CPU time of fragments.
    pub storage_compute: f64,
}

impl Bill {
    /// Returns the items with their dollars.
    pub fn items(&self) -> [(&'static str, f64); 5] {
        [
            ("compute", self.compute),
            ("requests", self.request),
            ("scan", self.scan),
            ("transfer", self.transfer),
            ("storage compute", self.storage_compute),
        ]
    }

    /// Returns the sum of all items.
    pub fn total(&self) -> f64 {
        self.compute + self.request + self.scan + self.transfer + self.storage_compute
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Requests;

    fn book(name: &str) -> PriceBook {
        PriceBook::named_or_path(name).unwrap()
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 0.02 * b.abs()
    }

    /// For lineitem at scale 1, the scan price of one pass exceeds the price of the core that reads
    /// it.
    #[test]
    fn one_pass_over_lineitem() {
        let pushed = Usage { bytes_scanned: 753_862_072, ..Usage::default() };
        let local = Usage { wall_s: 19.0, cores: 1.0, ..Usage::default() };
        assert!(close(book("paper").bill(&pushed).scan, 0.0015));
        assert!(close(book("paper").bill(&local).compute, 0.00035));
        assert_eq!(book("paper").bill(&pushed).total(), book("paper").bill(&pushed).scan);
    }

    #[test]
    fn each_component_has_its_price() {
        let usage = Usage {
            wall_s: 3600.0,
            storage_cpu_s: 3600.0,
            bytes_scanned: 10_000_000_000,
            bytes_returned: 10_000_000_000,
            bytes_network: 11_000_000_000,
            bytes_sent: 1_000_000_000,
            requests: Requests { get: 1000, select: 1000, head: 1000, put: 1000, list: 1000, ..Requests::default() },
            cores: 32.0,
            ..Usage::default()
        };
        let bill = book("paper").bill(&usage);
        assert!(close(bill.compute, 2.128));
        assert!(close(bill.request, 0.0008), "the paper counts GET and Select only");
        assert!(close(bill.scan, 0.02));
        assert!(close(bill.transfer, 0.007));
        assert!(close(bill.storage_compute, 2.128 / 32.0));
        assert!(close(bill.items().iter().map(|(_, amount)| amount).sum(), bill.total()));
        let far = book("paper-egress").bill(&usage);
        assert!(close(far.transfer, 0.907), "sent bytes are free");
        assert_eq!((far.compute, far.request, far.scan), (bill.compute, bill.request, bill.scan));
    }

    #[test]
    fn more_cores_than_the_instance_has_cost_no_more() {
        let usage = |cores| Usage { wall_s: 10.0, cores, ..Usage::default() };
        assert_eq!(book("paper").bill(&usage(64.0)), book("paper").bill(&usage(32.0)));
    }

    #[test]
    fn every_shipped_book_reads() {
        assert_eq!(PriceBook::shipped().map(book).count(), 3);
    }

    #[test]
    fn bad_books_say_what_is_wrong() {
        let text = toml::to_string(&book("paper")).unwrap();
        assert!(PriceBook::from_toml(&text).is_ok());
        let negative = text.replace("scan_usd_per_gb = 0.002", "scan_usd_per_gb = -1.0");
        assert!(PriceBook::from_toml(&negative).unwrap_err().to_string().contains("scan_usd_per_gb = -1"));
        let unknown = format!("{text}\nlunch = 1.0\n");
        assert!(PriceBook::from_toml(&unknown).unwrap_err().to_string().contains("lunch"));
        let missing = PriceBook::named_or_path("no-such-book").unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        assert!(missing.to_string().contains("'paper'"), "{missing}");
    }
}
