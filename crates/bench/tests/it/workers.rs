//! The experiment of workers, small and without shares of cores. Answers and bytes are those of any
//! machine.

use std::fs;

use super::{program, run};

#[test]
fn workers_answer_as_one_process_and_read_as_much() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().canonicalize().unwrap();
    let (place, program) = (out.to_str().unwrap(), program());
    let args = ["workers", "--no-shares", "--scale", "0.01", "--runs", "1", "--only", "1,2", "--only", "q01,q03"];
    // Also that all answers are equal.
    let table = run(args.into_iter().chain(["--out", place, "--program", program.to_str().unwrap()])).ok();
    assert!(table.contains("2 workers, s") && table.contains("q03"), "{table}");
    let mut written = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path());
    let record = written.find(|path| path.to_string_lossy().ends_with("-workers.csv")).unwrap();
    let text = fs::read_to_string(record).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().skip(2).map(|line| line.split(',').collect()).collect();
    let of = |workers: &str, query: &str, column: usize| -> f64 {
        let row = rows.iter().find(|row| row[0] == workers && row[1] == query).unwrap_or_else(|| panic!("{text}"));
        row[column].parse().unwrap()
    };
    for query in ["q01", "q03"] {
        assert_eq!(of("1", query, 7), 0.0, "no worker runs beside one process: {text}");
        assert!(of("2", query, 7) > 0.0, "the workers did nothing: {text}");
        let (one, two) = (of("1", query, 8), of("2", query, 8));
        assert!(one > 500_000.0 && two < 1.1 * one + 20_000.0, "bytes of {query}: {one} and {two}");
    }
}
