//! `generate` into a folder, read back through the statements it wrote.

use crate::run;

#[test]
fn every_format_gives_the_same_answers() {
    let mut answers = Vec::new();
    for (format, parts) in [("csv", "1"), ("csv", "3"), ("parquet", "2"), ("json", "1")] {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("tpch");
        let place = place.to_str().unwrap();
        let done = run(["generate", "tpch", "--scale", "0.001", "--format", format, "--parts", parts, "--to", place]);
        assert_eq!(done.ok(), "");
        assert!(done.stderr().contains("8,695 rows"), "{}", done.stderr());
        let q6 = "../../sql/tpch/q06.sql";
        let schema = format!("{place}/schema.sql");
        let count = "SELECT count(*) AS n, max(l_shipdate) AS last FROM lineitem, orders WHERE l_orderkey = o_orderkey";
        answers.push(run(["--format", "csv", "-f", &schema, "-c", count, "-f", q6]).ok());
    }
    assert!(answers[0].starts_with("n,last\n6005,1998-"), "{}", answers[0]);
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
}

#[test]
fn data_that_is_there_is_not_mixed_with_new() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().to_str().unwrap();
    let args = ["generate", "tpch", "--scale", "0.001", "--to", place];
    run(args).ok();
    assert!(run(args).fails(5).contains("overwrite"));
    run(args.into_iter().chain(["--overwrite"])).ok();
    run(["generate", "tpch", "--scale", "-1", "--to", place]).fails(2);
    run(["generate", "tpch", "--to", "ftp://there"]).fails(7);
}

#[test]
fn tables_of_the_papers_other_experiments() {
    let dir = tempfile::tempdir().unwrap();
    for (what, query, rows) in [
        ("groups", "SELECT count(DISTINCT g5), (SELECT max(z13) FROM skewed) < 100 FROM groups", "32,true"),
        ("floats", "SELECT count(*), max(c19) < 1 FROM floats_20", "14285,true"),
    ] {
        let place = dir.path().join(what);
        let place = place.to_str().unwrap();
        run(["generate", what, "--scale", "0.001", "--format", "parquet", "--to", place]).ok();
        let schema = format!("{place}/schema.sql");
        let answer = run(["--format", "csv", "-f", &schema, "-c", query]).ok();
        assert_eq!(answer.lines().last(), Some(rows), "{what}");
    }
}
