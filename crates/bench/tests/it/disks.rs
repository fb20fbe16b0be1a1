//! The experiment of disks, small and over the loopback. Bytes and answers are those of any machine.

use std::collections::HashMap;
use std::fs;

use super::{program, run};

/// The figures of the record by disks, query, series and column.
fn figures(record: &str) -> HashMap<[String; 4], f64> {
    let mut lines = record.lines().skip_while(|line| line.starts_with('#'));
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    let mut figures = HashMap::new();
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        for (name, cell) in head.iter().zip(&cells).skip(4) {
            let key = [cells[0], cells[2], cells[3], name].map(str::to_owned);
            figures.insert(key, cell.parse().unwrap());
        }
    }
    figures
}

#[test]
fn active_disks_send_answers_and_all_ways_agree() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().canonicalize().unwrap();
    let (place, program) = (out.to_str().unwrap(), program());
    let args = ["disks", "--loopback", "--scale", "0.01", "--runs", "1", "--only", "1,4,skewed", "--only"];
    let more = ["select,aggregate,join", "--out", place, "--program", program.to_str().unwrap()];
    // Also that all answers are equal.
    let table = run(args.into_iter().chain(more)).ok();
    assert!(table.contains("MB over the bus"), "{table}");
    let mut written = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path());
    let record = written.find(|path| path.to_string_lossy().ends_with("-disks.csv")).unwrap();
    let text = fs::read_to_string(&record).unwrap();
    let figures = figures(&text);
    let of =
        |disks: &str, query: &str, series: &str, name: &str| figures[&[disks, query, series, name].map(str::to_owned)];
    for disks in ["1", "4", "skewed"] {
        for (query, share) in [("select", 0.15), ("aggregate", 0.03), ("join", 0.15)] {
            let (all, some) = (of(disks, query, "traditional", "bytes"), of(disks, query, "active", "bytes"));
            assert!(all > 7e6, "lineitem is read: {all} on {disks}");
            assert!(some < share * all, "{query} on {disks}: {some} of {all}");
        }
    }
    // More disks send no more of rows, and of groups as many as there are disks.
    let (one, four) = (of("1", "select", "active", "bytes"), of("4", "select", "active", "bytes"));
    assert!(four < 1.2 * one + 100_000.0, "{one} and {four}");
    let simulated = run(["disks", "--simulate", record.to_str().unwrap()]).ok();
    assert!(simulated.contains("1000") && simulated.contains("coordinator"), "{simulated}");
}
