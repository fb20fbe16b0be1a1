//! The shell from a pipe: the same statements and commands as on a terminal.

use std::io::Write;
use std::process::Stdio;

use pushdowndb_testkit::program::Outcome;

use crate::pushdowndb;

pub fn shell(input: &str, catalog: Option<&str>) -> Outcome {
    let args = catalog.into_iter().flat_map(|file| ["--catalog", file]);
    let mut child =
        pushdowndb(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It may leave before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    Outcome(child.wait_with_output().unwrap())
}

#[test]
fn statements_span_lines_and_commands_end_with_theirs() {
    let done = shell("\\format csv\nSELECT 1\n  AS a;\n\\x off\nSELECT 'x;y' AS b -- no; end\n;\nSELECT 3 AS c", None);
    assert_eq!(done.ok(), "a\n1\nb\nx;y\nc\n3\n");
}

#[test]
fn leaving_ends_it() {
    for leave in ["\\q", "quit", "exit;"] {
        assert_eq!(shell(&format!("\\format csv\n{leave}\nSELECT 1;\n"), None).ok(), "");
    }
}

#[test]
fn an_error_in_a_pipe_ends_it_with_its_code() {
    let done = shell("\\format csv\nSELECT nope;\nSELECT 1;\n", None);
    done.fails(2);
    assert_eq!(done.stdout(), "");
    assert!(shell("\\nonsense\n", None).fails(2).contains("\\?"));
}

#[test]
fn help_timing_and_statistics_stay_off_stdout() {
    let done = shell("\\?\n\\timing on\n\\stats\n\\format csv\nSELECT 1 AS a;\n", None);
    assert_eq!(done.ok(), "a\n1\n");
    for expected in ["\\timing", "time: ", "cost      $"] {
        assert!(done.stderr().contains(expected), "{expected} in\n{}", done.stderr());
    }
}

#[test]
fn tables_are_listed_described_and_remembered() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("t.csv");
    std::fs::write(&data, "k,name\n1,one\n2,two\n").unwrap();
    let catalog = dir.path().join("catalog.sql");
    let catalog = catalog.to_str().unwrap();
    let declare = format!(
        "CREATE EXTERNAL TABLE words (k BIGINT, name VARCHAR) STORED AS CSV LOCATION '{}' OPTIONS ('format.has_header' 'true');\n",
        data.display()
    );
    let done =
        shell(&format!("{declare}\\dt\n\\format csv\n\\d words\nSELECT sum(k) AS s FROM words;\n"), Some(catalog));
    let printed = done.ok();
    for expected in ["words", "k     BIGINT", "name  VARCHAR", "s\n3\n"] {
        assert!(printed.contains(expected), "{expected} in\n{printed}");
    }
    let tomorrow = shell("\\format csv\nSELECT name FROM words WHERE k = 2;\n", Some(catalog));
    assert_eq!(tomorrow.ok(), "name\ntwo\n");
}

#[test]
fn results_go_to_files_and_back() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("out.csv");
    let script = dir.path().join("script.sql");
    std::fs::write(&script, "SELECT 2 AS b;").unwrap();
    let input = format!("\\format csv\n\\o {}\nSELECT 1 AS a;\n\\o\n\\i {}\n", file.display(), script.display());
    assert_eq!(shell(&input, None).ok(), "b\n2\n");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "a\n1\n");
}

#[test]
fn settings_are_listed_and_changed() {
    let done = shell("\\set pushdown.level none\n\\set\n", None);
    assert!(done.ok().contains("pushdown.level = none"), "{}", done.stdout());
    shell("\\set pushdown.level everything\n", None).fails(2);
}

#[test]
fn views_and_tables_are_there_tomorrow() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("t.csv");
    std::fs::write(&data, "k,name\n1,one\n2,two\n").unwrap();
    let catalog = dir.path().join("catalog.sql");
    let catalog = catalog.to_str().unwrap();
    let make = format!(
        "CREATE VIEW words AS FROM '{}';\nCREATE VIEW longer AS SELECT k + 10 AS k FROM words;\n\
         CREATE TABLE m (a INT DEFAULT 7, b VARCHAR NOT NULL);\nINSERT INTO m (b) VALUES ('x'), ('y');\n\
         CREATE TABLE c AS SELECT name FROM words;\n",
        data.display()
    );
    shell(&make, Some(catalog)).ok();
    let listed = shell("\\dt\n", Some(catalog)).ok();
    let names: Vec<_> =
        listed.lines().map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(names, ["c table", "longer view", "m table", "words view"]);
    let tomorrow = "\\format csv\nSELECT sum(k) AS s FROM longer;\nDELETE FROM m WHERE b = 'x';\n\
                    INSERT INTO m (b) VALUES ('z');\nSELECT * FROM m ORDER BY b;\nSELECT count(*) AS n FROM c;\n";
    assert_eq!(shell(tomorrow, Some(catalog)).ok(), "s\n23\ncount\n1\ncount\n1\na,b\n7,y\n7,z\nn\n2\n");
    // The same in a script with commands, which sees what became of the table.
    let script = dir.path().join("script.sql");
    std::fs::write(&script, "\\format csv\nSELECT count(*) AS n FROM m;\n\\d m\nDROP TABLE m;\nDROP VIEW longer;\n")
        .unwrap();
    let done = crate::run(["--catalog", catalog, "-f", script.to_str().unwrap()]);
    assert_eq!(done.ok(), "n\n2\na  INT\nb  VARCHAR  NOT NULL\n");
    assert_eq!(shell("\\dt\n", Some(catalog)).ok().lines().count(), 2);
    shell("SELECT * FROM m;\n", Some(catalog)).fails(2);
    assert!(std::fs::read_dir(dir.path().join("catalog.tables")).unwrap().count() == 1, "the rows of c alone");
}

#[test]
fn a_script_with_commands_parses_as_a_whole_first() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("script.sql");
    std::fs::write(&script, "\\format csv\nSELECT 1 AS a;\n\\x off\nSELECT 'open").unwrap();
    let done = crate::run(["-f", script.to_str().unwrap()]);
    assert!(done.fails(2).contains("script.sql:4:"), "{}", done.stderr());
    assert_eq!(done.stdout(), "");
    std::fs::write(&script, "SELECT 1 AS a;\n\\format csv\n\nSELECT nope;").unwrap();
    assert!(crate::run(["-f", script.to_str().unwrap()]).fails(2).contains("script.sql:4:"));
}
