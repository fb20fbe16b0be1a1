//! The files of `deploy/`: the systemd unit under its own filters, and the health check of the
//! container.

use std::path::Path;
use std::process::Command;

use pushdowndb_testkit::program::isolate;

use crate::run;
use crate::serve::Served;

const UNIT: &str = "../../deploy/pushdowndb.service";

/// The node of the unit: its own command, filters and limits, with a store and ports of the test's.
fn serve_as_the_unit_does(store: &Path) -> Served {
    let program = env!("CARGO_BIN_EXE_pushdowndb");
    let mut command = Command::new("python3");
    isolate(&mut command).args(["../../deploy/run_unit.py", UNIT, "--strict", "--program", program]);
    let store = format!("/var/lib/pushdowndb/store={}", store.display());
    let replaced = [store.as_str(), "0.0.0.0:9000=127.0.0.1:0", "127.0.0.1:9001=127.0.0.1:0"];
    command.args(replaced.iter().flat_map(|pair| ["--replace", pair]));
    Served::run(command)
}

/// A node that makes a call outside the filter is killed here, not only refused it.
#[test]
fn a_node_works_under_the_filters_of_its_systemd_unit() {
    let dir = tempfile::tempdir().unwrap();
    let node = serve_as_the_unit_does(&dir.path().join("store"));
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.id())).unwrap();
    for set in ["NoNewPrivs:\t1", "Seccomp:\t2"] {
        assert!(status.contains(set), "the filter is in force: {status}");
    }

    let generate = ["generate", "tpch", "--scale", "0.001", "--parts", "2", "--to", "s3://bench/tpch"];
    node.client(&[&generate[..], &["--create-bucket"]].concat()).ok();
    let mut answers = Vec::new();
    for level in ["none", "select", "fragment"] {
        let level = format!("pushdown.level={level}");
        let args =
            ["--set", &level, "--format", "csv", "-f", "s3://bench/tpch/schema.sql", "-f", "../../sql/tpch/q06.sql"];
        answers.push(node.client(&args).ok());
    }
    assert!(answers[0].lines().count() == 2 && answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    node.signal("-HUP");
    node.client(&["-c", "SELECT count(*) FROM 's3://bench/tpch/nation/'"]).ok();
    let log = node.stop("-TERM");
    log.ok();
    assert!(log.stderr().contains("stopping"), "{}", log.stderr());
}

#[test]
fn systemd_understands_the_unit() {
    let unit = std::fs::read_to_string(UNIT).unwrap();
    assert!(unit.contains("ExecStart=/usr/local/bin/pushdowndb serve "));
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("pushdowndb.service");
    std::fs::write(&copy, unit.replace("/usr/local/bin/pushdowndb", env!("CARGO_BIN_EXE_pushdowndb"))).unwrap();
    // Without systemd the test above still reads every line of the unit.
    let Ok(verified) = Command::new("systemd-analyze").arg("verify").arg(&copy).output() else { return };
    assert!(verified.status.success() && verified.stderr.is_empty(), "{}", String::from_utf8_lossy(&verified.stderr));
}

#[test]
fn the_health_check_of_the_container_tells_a_node_that_serves_from_none() {
    let container = std::fs::read_to_string("../../deploy/Containerfile").unwrap();
    assert!(container.contains("\nHEALTHCHECK ") && container.contains("\"/usr/local/bin/pushdowndb\", \"health\""));
    let dir = tempfile::tempdir().unwrap();
    let node = Served::start(&["--store", dir.path().to_str().unwrap()]);
    let address = node.endpoint.strip_prefix("http://").unwrap().to_owned();
    assert_eq!(run(["health", "--at", &address]).ok(), "ok\n");
    assert_eq!(run(["health", "--ready", "--at", &address]).ok(), "ready\n");
    node.stop("-TERM").ok();
    assert!(run(["health", "--at", &address]).fails(9).contains(&address));
    run(["health", "--at", "nowhere"]).fails(2);
}

/// The build context is the whole checkout: the image gets the listed files only, and all that are
/// compiled in.
#[test]
fn the_container_is_built_from_sources_alone() {
    let ignored = std::fs::read_to_string("../../.dockerignore").unwrap();
    let mut rules = ignored.lines().filter(|line| !line.starts_with('#'));
    assert_eq!(rules.next(), Some("*"));
    let taken: Vec<&str> = rules.filter_map(|rule| rule.strip_prefix('!')).collect();
    let manifest = std::fs::read_to_string("../../Cargo.toml").unwrap();
    assert!(manifest.contains("members = [\"crates/*\", \"examples\", \"fuzz\"]"), "the members of the workspace");
    let mut needed = ["Cargo.toml", "Cargo.lock", "crates", "examples", "fuzz"].map(str::to_owned).to_vec();
    needed.extend(compiled_in(Path::new("..")));
    for place in needed {
        assert!(taken.contains(&place.as_str()), "{place} is compiled and not in {taken:?}");
    }
}

/// The folders outside `crates` that sources there take text from, but in tests.
fn compiled_in(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() && !matches!(entry.file_name().to_str(), Some("tests" | "target" | "benches")) {
            found.extend(compiled_in(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let included = code.split("include_str!(\"").chain(code.split("include_bytes!(\"")).skip(1);
            // Steps up from the file to the root of the repository.
            let to_root = "../".repeat(path.components().count() - 1);
            let outside = included.filter_map(|rest| rest.strip_prefix(&to_root)?.split(['/', '"']).next());
            found.extend(outside.map(str::to_owned));
        }
    }
    found
}

#[test]
fn the_container_has_few_rights_and_known_bases() {
    let container = std::fs::read_to_string("../../deploy/Containerfile").unwrap();
    for line in container.lines().filter(|line| line.starts_with("FROM ")) {
        let tag = line.split_whitespace().nth(1).and_then(|image| image.rsplit_once(':')).unwrap().1;
        let numbers = tag.split(['.', '-']).filter(|part| part.parse::<u32>().is_ok()).count();
        assert!(numbers >= 2, "{line}: a tag that names one version");
    }
    assert!(container.contains("\nUSER 10001\n"));
    let command = container.split("\nCMD [").nth(1).unwrap().split(']').next().unwrap().replace("\\\n", "");
    let arguments: Vec<String> = serde_json::from_str(&format!("[{command}]")).unwrap();
    assert!(arguments.windows(2).any(|pair| pair == ["--admin-listen", "127.0.0.1:9001"]), "{arguments:?}");
    run(arguments.iter().map(String::as_str).chain(["--help"])).ok();
}
