//! What others do to a served folder while it is served.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt};
use pushdowndb_contract::wire::RouteEvent;
use pushdowndb_node::{Gateway, Limits, Node, NodeConfig, Storage, start};
use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};
use url::Url;

use crate::fragment::{events, fragment, request, split};
use crate::wire;
use crate::world::{BUCKET, builder, client};

async fn gateway(dir: &Path) -> Node {
    gateway_with(dir, Limits::default()).await
}

async fn gateway_with(dir: &Path, limits: Limits) -> Node {
    let gateway = Gateway { bucket: Some(BUCKET.to_owned()), ..Gateway::new(Url::from_file_path(dir).unwrap()) };
    start(NodeConfig { limits, ..NodeConfig::new(Storage::Gateway(gateway)) }).await.unwrap()
}

/// For a while, a folder and a link out of the served one swap their places without pause;
/// meanwhile it is read, written, listed and deleted through.
#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_is_swapped_in_at_any_moment_leads_nowhere() {
    const WHILE: Duration = Duration::from_secs(4);
    let outer = tempfile::tempdir().unwrap();
    let (dir, outside) = (outer.path().join("served"), outer.path().join("outside"));
    for folder in [&dir.join("sub"), &outside] {
        fs::create_dir_all(folder).unwrap();
    }
    fs::write(dir.join("sub/k"), "inside").unwrap();
    for name in ["k", "gone"] {
        fs::write(outside.join(name), "outside").unwrap();
    }
    symlink(&outside, dir.join("link")).unwrap();
    let node = gateway(&dir).await;
    let retry = object_store::RetryConfig { max_retries: 0, ..Default::default() };
    let front = builder(&node, BUCKET).with_retry(retry).build().unwrap();

    let stop = Arc::new(AtomicBool::new(false));
    let swapping = std::thread::spawn({
        let (stop, dir) = (Arc::clone(&stop), dir.clone());
        move || {
            let mut swaps = 0_u32;
            while !stop.load(Relaxed) {
                renameat_with(CWD, dir.join("sub"), CWD, dir.join("link"), RenameFlags::EXCHANGE).unwrap();
                swaps += 1;
            }
            swaps
        }
    });
    let (since, mut inside, mut rounds) = (Instant::now(), 0, 0);
    while since.elapsed() < WHILE {
        rounds += 1;
        if let Ok(got) = front.get(&Key::from("sub/k")).await
            && let Ok(bytes) = got.bytes().await
        {
            assert_eq!(bytes, "inside", "round {rounds}");
            inside += 1;
        }
        let name = format!("sub/new-{}", rounds % 8);
        let _ = front.put(&Key::from(name), "written".into()).await;
        let _ = front.put(&Key::from("sub/made/deep"), "written".into()).await;
        let _ = front.delete(&Key::from("sub/gone")).await;
        if let Ok(listed) = front.list_with_delimiter(Some(&Key::from("sub"))).await {
            assert!(listed.objects.iter().all(|object| !object.location.as_ref().ends_with("gone")), "{listed:?}");
        }
        let left: Vec<_> = fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(left.len() == 2 && left.iter().all(|name| name == "k" || name == "gone"), "round {rounds}: {left:?}");
        assert_eq!(fs::read_to_string(outside.join("k")).unwrap(), "outside");
    }
    stop.store(true, Relaxed);
    let swaps = swapping.join().unwrap();
    assert!(inside > 10 && swaps > 1000, "{inside} of {rounds} reads found the file while it moved {swaps} times");
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pipes_sockets_and_devices_are_no_objects_and_hold_nobody() {
    let outer = tempfile::tempdir().unwrap();
    let dir = outer.path().join("served");
    fs::create_dir(&dir).unwrap();
    mknodat(CWD, dir.join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(dir.join("socket")).unwrap();
    symlink("pipe", dir.join("to-pipe")).unwrap();
    symlink("/dev/zero", dir.join("to-device")).unwrap();
    fs::write(dir.join("file"), "text").unwrap();
    let all = Limits { peer_share_percent: 100, peer_unproven_percent: 100, ..Limits::default() };
    let node = gateway_with(&dir, all).await;
    // More than there are threads for blocking work, all at once: each keeps its connection until
    // it was answered.
    let reads: Vec<_> = (0..600)
        .map(|number| {
            let name = ["pipe", "socket", "to-pipe", "to-device"][number % 4];
            wire::send(&node, "GET", &format!("/{BUCKET}/{name}"), "")
        })
        .collect();
    for mut read in reads {
        read.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut head = [0; 12];
        read.read_exact(&mut head).unwrap();
        assert_eq!(&head, b"HTTP/1.1 404");
    }
    let front = client(&node, BUCKET);
    assert_eq!(front.get(&Key::from("file")).await.unwrap().bytes().await.unwrap(), "text");
    let listed = front.list_with_delimiter(None).await.unwrap();
    assert_eq!(listed.objects.iter().map(|object| object.location.as_ref()).collect::<Vec<_>>(), ["file"]);
    // Neither replaced nor removed.
    assert!(front.put(&Key::from("pipe"), "x".into()).await.is_err());
    front.delete(&Key::from("pipe")).await.unwrap();
    assert!(dir.join("pipe").exists());
    tokio::time::timeout(Duration::from_secs(30), node.shutdown()).await.unwrap();
}

/// A table with `id` in every row; of one size for every digit.
fn table(id: u8) -> String {
    let row = format!("{id},{}\n", "x".repeat(40));
    format!("id,name\n{}", row.repeat(20_000))
}

/// How many batches the rows after 1 come in, and how many bytes were passed over because of what
/// was known of them.
fn rows_after_one(node: &Node, key: &str) -> (usize, u64) {
    let events = events(node, &request(fragment(), vec![split(key, table(1).len())]));
    let failed = events.iter().find(|event| matches!(event, RouteEvent::SplitFailed { .. }));
    assert!(failed.is_none(), "{failed:?}");
    let batches = events.iter().filter(|event| matches!(event, RouteEvent::Batch { .. })).count();
    let passed_over = events.iter().find_map(|event| match event {
        RouteEvent::Stats(stats) => Some(stats.bytes_pruned),
        _ => None,
    });
    (batches, passed_over.unwrap())
}

fn run(program: &str, args: &[&OsStr]) {
    assert!(Command::new(program).args(args).status().unwrap().success(), "{program}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_rewritten_as_if_it_were_not_is_another_version() {
    let outer = tempfile::tempdir().unwrap();
    let dir = outer.path().join("served");
    fs::create_dir(&dir).unwrap();
    let old = outer.path().join("old");
    fs::write(&old, table(1)).unwrap();
    let other = outer.path().join("other");
    fs::write(&other, table(2)).unwrap();
    run("touch", &["-r".as_ref(), old.as_ref(), other.as_ref()]);
    let ways = ["cp", "touch", "write"];
    for way in ways {
        run("cp", &["-p".as_ref(), old.as_ref(), dir.join(way).as_ref()]);
    }
    let node = gateway(&dir).await;
    let front = client(&node, BUCKET);

    // Right after the write nothing is learned of it: a second write in the same tick of the clock
    // would not show.
    assert_eq!(rows_after_one(&node, "cp"), (0, 0));
    assert_eq!(rows_after_one(&node, "cp"), (0, 0));
    tokio::time::sleep(Duration::from_millis(3100)).await;
    let mut etags = Vec::new();
    for way in ways {
        assert_eq!(rows_after_one(&node, way).0, 0);
        // Now it is: the values rule the whole table out.
        assert!(rows_after_one(&node, way).1 > 0, "{way}");
        etags.push(front.head(&Key::from(way)).await.unwrap().e_tag);
    }
    run("cp", &["-p".as_ref(), other.as_ref(), dir.join("cp").as_ref()]);
    fs::write(dir.join("touch"), table(2)).unwrap();
    run("touch", &["-r".as_ref(), old.as_ref(), dir.join("touch").as_ref()]);
    let file = fs::File::options().write(true).open(dir.join("write")).unwrap();
    std::io::Write::write_all(&mut &file, table(2).as_bytes()).unwrap();
    file.set_modified(fs::metadata(&old).unwrap().modified().unwrap()).unwrap();
    for (way, before) in ways.into_iter().zip(etags) {
        let metadata = [dir.join(way), old.clone()].map(|file| fs::metadata(file).unwrap());
        let [now, then] = metadata.map(|metadata| (metadata.len(), metadata.modified().unwrap()));
        assert_eq!(now, then, "{way}");
        assert_ne!(front.head(&Key::from(way)).await.unwrap().e_tag, before, "{way}");
        assert!(rows_after_one(&node, way).0 > 0, "{way}: rows of the version before");
    }
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_in_the_middle_of_a_read_fails_it_and_a_removal_does_not() {
    let outer = tempfile::tempdir().unwrap();
    let dir = outer.path().join("served");
    fs::create_dir(&dir).unwrap();
    let node = gateway(&dir).await;
    const SIZE: usize = 64 << 20;
    for (name, is_whole) in [("changed", false), ("removed", true), ("replaced", true)] {
        let path = dir.join(name);
        fs::write(&path, vec![1; SIZE]).unwrap();
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        let mut read = wire::send(&node, "GET", &format!("/{BUCKET}/{name}"), "");
        let mut start = vec![0; 4096];
        read.read_exact(&mut start).unwrap();
        match name {
            "changed" => {
                let file = fs::File::options().write(true).open(&path).unwrap();
                std::io::Write::write_all(&mut &file, &vec![2; SIZE]).unwrap();
                file.set_modified(modified).unwrap();
            }
            "removed" => fs::remove_file(&path).unwrap(),
            _ => {
                fs::write(dir.join("next"), vec![2; SIZE]).unwrap();
                fs::rename(dir.join("next"), &path).unwrap();
            }
        }
        let mut rest = Vec::new();
        // A body that is broken off ends before its length, or with an error.
        drop(read.read_to_end(&mut rest));
        let all = [start, rest].concat();
        let body = all.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
        let body = &all[body..];
        assert_eq!(body.len() == SIZE, is_whole, "{name}: {} bytes", body.len());
        assert!(!is_whole || body.iter().all(|byte| *byte == 1), "{name}: bytes of another version");
    }
    node.shutdown().await;
}
