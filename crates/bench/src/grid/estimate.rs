//! Estimates of the time of a cell, for `--estimate` and `--budget`, corrected by measurements so
//! far.

use super::definition::{Condition, Data, Series};
use crate::contestant::{DataFormat, Kind};

/// The size of each table as CSV at scale 1 in MB, and the size of Parquet relative to CSV.
const TABLES: [(&str, f64); 13] = [
    ("lineitem", 773.0),
    ("orders", 171.0),
    ("partsupp", 118.0),
    ("customer", 24.0),
    ("part", 24.0),
    ("supplier", 1.4),
    ("nation", 0.0),
    ("region", 0.0),
    ("groups", 690.0),
    ("skewed", 680.0),
    ("floats_1", 100.0),
    ("floats_10", 1000.0),
    ("floats_20", 2000.0),
];
const PARQUET_SHARE: f64 = 0.35;

/// MB per second that one core reads, without and with pushdown.
const ENGINE_MB_PER_S: f64 = 250.0;
const STORAGE_MB_PER_S: f64 = 700.0;

/// Minimum seconds: starting a process, and the requests of a short query.
const LEAST_S: f64 = 0.4;

/// Estimates the seconds of one measurement.
pub fn seconds(data: Data, scale: f64, condition: &Condition, format: DataFormat, series: &Series, sql: &str) -> f64 {
    let words: Vec<String> =
        sql.to_lowercase().split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_owned).collect();
    let tables = data.set().tables();
    let known = TABLES.iter().filter(|(name, _)| tables.contains(name) && words.iter().any(|word| word == name));
    let csv: f64 = known.map(|(_, mb)| mb * scale).sum();
    let mb = if format == DataFormat::Parquet { csv * PARQUET_SHARE } else { csv };
    let plain = series.kind != Kind::Engine || series.settings.get("level").is_some_and(|level| level == "none");
    let link = if condition.mb_per_s == 0 { f64::INFINITY } else { f64::from(condition.mb_per_s) };
    // Measurements take longer under trouble.
    let factor = if condition.trouble.is_some() { 2.0 } else { 1.0 };
    LEAST_S + factor * if plain { mb / link.min(ENGINE_MB_PER_S) } else { mb / STORAGE_MB_PER_S + mb / 20.0 / link }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/measurements.md: a pass over lineitem takes 19.5 s at 40 MB/s, a pushed-down aggregate
    /// 1 s.
    #[test]
    fn a_pass_over_lineitem() {
        let series = |level| toml::from_str(&format!("name = 'x'\nsettings = {{ level = '{level}' }}")).unwrap();
        let condition = Condition { name: "40".into(), mb_per_s: 40, trouble: None, distance: None };
        let of =
            |level| seconds(Data::Tpch, 1.0, &condition, DataFormat::Csv, &series(level), "SELECT 1 FROM lineitem;");
        assert!((of("none") - 19.5).abs() < 1.0, "{}", of("none"));
        assert!(of("fragment") < 4.0);
    }
}
