//! `serve --log-format json`: every line of stderr is a JSON object.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::serve::Served;
use pushdowndb_testkit::program::Outcome;

use crate::pushdowndb;

const TLS: &str = "../node/tests/it/tls";

/// The messages of a log in which every line must be a record.
fn messages(log: &str) -> Vec<String> {
    let record = |line: &str| -> Value {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("a line that is not JSON, {error}: {line}\n{log}"))
    };
    let message = |record: Value| {
        assert!(["timestamp", "level", "target"].iter().all(|field| record[field].is_string()), "{record}");
        record["message"].as_str().unwrap_or_default().to_owned()
    };
    log.lines().map(record).map(message).collect()
}

fn holds(messages: &[String], texts: &[&str]) -> bool {
    texts.iter().all(|text| messages.iter().any(|message| message.contains(text)))
}

/// Returns the stderr of a node that cannot start, and checks its exit code.
fn refused(args: &[&str], code: i32) -> Vec<String> {
    let done = Outcome(pushdowndb(["serve", "--log-format", "json"].iter().chain(args)).output().unwrap());
    let messages = messages(&done.fails(code));
    assert!(!messages.is_empty(), "{args:?}");
    messages
}

#[test]
fn a_node_that_runs_is_reloaded_and_stops() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (store, keys, certificate, key) = (path("store"), path("keys.toml"), path("c.pem"), path("k.pem"));
    let pair = tls_pair();
    let write = |keys_text: &str, certificate_text: &[u8]| {
        fs::write(&keys, keys_text).unwrap();
        fs::write(&certificate, certificate_text).unwrap();
    };
    let good = "[[key]]\naccess_key_id = \"a\"\nsecret_access_key = \"secret-of-a\"\n";
    write(good, &pair.0);
    fs::write(&key, &pair.1).unwrap();
    let args = ["--store", &store, "--credentials", &keys, "--tls-cert", &certificate, "--tls-key", &key];
    let more = ["--log-format", "json", "--log", "debug", "--admin-listen", "127.0.0.1:0"];
    let mut node = Served::start(&[&args[..], &more].concat());
    let mut lines = node.stderr();
    let mut log = String::new();
    let mut until = |text: &str| {
        for line in lines.by_ref() {
            log.push_str(&line);
            log.push('\n');
            if line.contains(text) {
                return;
            }
        }
        panic!("no {text} in {log}");
    };
    until("metrics: on http://");
    write("[[key]]\naccess_key_id = \"a\"\n", b"no certificate");
    node.signal("-HUP");
    until("credentials: the old ones stay in use");
    write(good, &pair.0);
    node.signal("-HUP");
    until("credentials: read again");
    node.stop("-TERM").ok();
    log.extend(lines.map(|line| line + "\n"));
    let messages = messages(&log);
    let told = ["metrics: on", "certificate: the old one stays", "certificate: read again", "stopping:"];
    assert!(holds(&messages, &told), "{messages:#?}");
}

#[test]
fn a_node_that_cannot_start_says_so_in_json() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let store = path("store");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    assert!(holds(&refused(&["--store", &store, "--listen", &address], 2), &[&address]));

    let (file, keys) = (path("file"), path("keys.toml"));
    fs::write(&file, "no folder").unwrap();
    let listen = ["--listen", "127.0.0.1:0"];
    let done =
        Outcome(pushdowndb(["serve", "--log-format=json", "--store", &file].iter().chain(&listen)).output().unwrap());
    assert!(done.code() != 0 && !messages(&done.stderr()).is_empty());
    fs::write(&keys, "[[key]]\naccess_key_id = 7\n").unwrap();
    assert!(holds(&refused(&[&listen[..], &["--store", &store, "--credentials", &keys]].concat(), 2), &["keys.toml"]));
    let tls = ["--store", &store, "--tls-cert", &file, "--tls-key", &file];
    assert!(holds(&refused(&[&tls[..], &listen].concat(), 2), &["must hold PEM"]));
    assert!(holds(&refused(&["--store", &store, "--max-requests", "0"], 2), &["--max-requests"]));
    assert!(holds(&refused(&["--store", &store, "--no-such-flag"], 2), &["--no-such-flag"]));
    assert!(holds(&refused(&[], 2), &["--store"]));
    let mut half = pushdowndb(["serve", "--log-format", "json", "--store", &store]);
    let half = Outcome(half.env("PUSHDOWNDB_ACCESS_KEY_ID", "a").output().unwrap());
    assert!(holds(&messages(&half.fails(2)), &["both"]));
}

fn tls_pair() -> (Vec<u8>, Vec<u8>) {
    let read = |name: &str| fs::read(Path::new(TLS).join(name)).unwrap();
    (read("first.pem"), read("first.key"))
}
