//! `check`: a store that is well, one that is damaged, one that is none.

use std::fs;
use std::path::{Path, PathBuf};

use crate::run;
use crate::serve::Served;

fn largest(folder: &Path) -> PathBuf {
    let folders = fs::read_dir(folder).unwrap();
    let files = folders.flat_map(|folder| fs::read_dir(folder.unwrap().path()).unwrap());
    files.map(|file| file.unwrap().path()).max_by_key(|file| fs::metadata(file).unwrap().len()).unwrap()
}

#[test]
fn damage_is_named_and_the_exit_code_tells() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let check = || run(["check", "--store", store.to_str().unwrap()]);
    check().fails(2);
    let node = Served::start(&["--store", store.to_str().unwrap(), "--scrub-rate", "0", "--verify-interval", "0"]);
    let place = ["--to", "s3://bench/tpch", "--create-bucket"];
    node.client(&[&["generate", "tpch", "--scale", "0.001"][..], &place].concat()).ok();
    assert!(check().fails(2).contains("another node"), "it is in use");
    node.stop("-TERM").ok();
    let found = check().ok();
    assert!(found.contains("9 objects") && found.contains("no damage"), "{found}");

    let file = largest(&store.join("data"));
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    let damaged = check();
    assert!(damaged.fails(1).contains("1 damaged"), "{}", damaged.stderr());
    let line = damaged.stdout();
    assert!(line.starts_with("damaged: s3://bench/tpch/lineitem") && line.contains("bytes"), "{line}");
}
