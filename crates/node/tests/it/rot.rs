//! A bit that changed on the disk, as clients meet it: every request that needs it fails, and
//! nothing else does.

use std::fs;
use std::path::{Path as FilePath, PathBuf};
use std::time::Duration;

use object_store::ObjectStoreExt;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use pushdowndb_contract::ErrorKind;
use pushdowndb_contract::wire::{RangesRequest, Request, RouteEvent};
use pushdowndb_node::{NodeConfig, check, start};

use crate::fragment::{events_until_failure, fragment, outcome, request, split};
use crate::wire;
use crate::world::{BUCKET, World, client, raw};

/// The data file of this size, or a little more: checksums lie behind the bytes.
fn data_file(dir: &FilePath, size: usize) -> PathBuf {
    let folders = fs::read_dir(dir.join("store/data")).unwrap();
    let mut files = folders.flat_map(|folder| fs::read_dir(folder.unwrap().path()).unwrap());
    files
        .find_map(|file| {
            let path = file.unwrap().path();
            let length = fs::metadata(&path).unwrap().len() as usize;
            (size..size + size / 1000 + 1).contains(&length).then_some(path)
        })
        .unwrap()
}

fn flip(file: &FilePath, at: usize) {
    let mut bytes = fs::read(file).unwrap();
    bytes[at] ^= 8;
    fs::write(file, bytes).unwrap();
}

fn csv(rows: usize) -> String {
    let rows = (0..rows).map(|row| format!("{row},name {row:06}\n"));
    std::iter::once("id,name\n".to_owned()).chain(rows).collect()
}

fn metric(node: &pushdowndb_node::Node, name: &str) -> Option<u64> {
    let text = raw(node, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let line = text.lines().find(|line| line.starts_with(&format!("pushdowndb_{name} ")))?;
    line.split(' ').nth(1)?.parse::<f64>().ok().map(|value| value as u64)
}

fn every_time(limits: &mut pushdowndb_node::Limits) {
    limits.verify_interval = Duration::ZERO;
    limits.scrub_bytes = 0;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_rots_is_never_served_copied_or_scanned() {
    let world = World::with(every_time).await;
    let (node, client) = (&world.node, world.client());
    let text = csv(15_000);
    client.put(&Path::from("rows.csv"), text.clone().into()).await.unwrap();
    let upload = client.create_multipart(&Path::from("new")).await.unwrap();
    let file = data_file(world.dir.path(), text.len());
    let place = text.len() - 50_000;

    let get = |range: std::ops::Range<usize>| {
        let range = format!("bytes={}-{}", range.start, range.end - 1);
        wire::rest(wire::send_with(node, "GET", "/things/rows.csv", &[("range", range.as_str())]))
    };
    let put = |target: &str, headers: &[(&str, &str)]| {
        let source = [("x-amz-copy-source", "/things/rows.csv")];
        wire::rest(wire::send_with(node, "PUT", target, &[&source, headers].concat()))
    };
    let part_copy = format!("/things/new?partNumber=1&uploadId={upload}");
    let count = wire::select_csv("USE", "SELECT COUNT(*), MAX(name) FROM s3object");
    let select = || wire::rest(wire::send(node, "POST", "/things/rows.csv?select&select-type=2", &count));
    let rows = request(fragment(), vec![split("rows.csv", text.len())]);
    // One range is streamed, several are read together.
    let ranges = [1, 2].map(|count| {
        let (object, ranges) = (split("rows.csv", text.len()), vec![place as u64 - 20..place as u64 + 20; count]);
        Request::Ranges(RangesRequest { object, ranges }).to_bytes().unwrap()
    });

    let all_is_well = || {
        assert!(wire::rest(wire::send(node, "GET", "/things/rows.csv", "")).ends_with(&text));
        assert!(get(place..place + 9).ends_with(&text[place..place + 9]));
        for answer in [put("/things/copy", &[]), put("/things/copy", &[("x-amz-checksum-algorithm", "SHA256")])] {
            assert!(answer.contains("<CopyObjectResult"), "{answer}");
        }
        assert!(put(&part_copy, &[]).contains("<CopyPartResult"));
        assert!(select().contains("15000,name 014999"), "{}", select());
        assert_eq!(outcome(node, &rows).1, []);
        ranges.iter().for_each(|ranges| assert_eq!(outcome(node, ranges).1, []));
    };
    all_is_well();
    assert_eq!(metric(node, "objects_damaged_total"), Some(0));

    flip(&file, place);
    let is_damage = |answer: &str| {
        assert!(answer.contains("500 Internal Server Error") && answer.contains("InternalError"), "{answer}");
        assert!(answer.contains("s3://things/rows.csv is damaged"), "{answer}");
    };
    is_damage(&wire::rest(wire::send(node, "GET", "/things/rows.csv", "")));
    is_damage(&get(place..place + 1));
    // In the same block, and in others.
    is_damage(&get(place - 1000..place - 900));
    assert!(get(0..1000).ends_with(&text[..1000]));
    is_damage(&put("/things/copy", &[]));
    is_damage(&put("/things/copy", &[("x-amz-checksum-algorithm", "SHA256")]));
    is_damage(&put("/things/rows.csv", &[("x-amz-metadata-directive", "REPLACE")]));
    is_damage(&put(&part_copy, &[]));
    let selected = select();
    assert!(selected.contains("is damaged") && !selected.contains("15000"), "{selected}");
    assert_eq!(outcome(node, &rows).1, [(0, ErrorKind::Corrupt)]);
    for ranges in &ranges {
        let events = events_until_failure(node, ranges);
        let failed = matches!(events.as_slice(), [RouteEvent::Failed(failure)] if failure.kind == ErrorKind::Corrupt);
        assert!(failed, "{events:?}");
    }
    assert_eq!(metric(node, "objects_damaged_total"), Some(1));
    assert!(metric(node, "damaged_reads_total").unwrap() >= 9);

    flip(&file, place);
    all_is_well();
    world.node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_under_way_is_cut_off_at_the_damage() {
    let world = World::with(every_time).await;
    let text = csv(200_000);
    world.client().put(&Path::from("rows.csv"), text.clone().into()).await.unwrap();
    let place = text.len() - 70_000;
    flip(&data_file(world.dir.path(), text.len()), place);
    let answer = wire::rest(wire::send(&world.node, "GET", "/things/rows.csv", ""));
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200") && head.contains(&format!("content-length: {}", text.len())), "{head}");
    assert!(body.len() < place && text.starts_with(body), "{} bytes", body.len());
    world.node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_verified_lately_is_not_compared_again() {
    let world = World::with(|limits| limits.scrub_bytes = 0).await;
    let text = csv(15_000);
    world.client().put(&Path::from("rows.csv"), text.clone().into()).await.unwrap();
    let get = || wire::rest(wire::send(&world.node, "GET", "/things/rows.csv", ""));
    assert!(get().ends_with(&text));
    flip(&data_file(world.dir.path(), text.len()), 1000);
    assert!(get().starts_with("HTTP/1.1 200"), "within ten minutes");
    let world = world.restart().await;
    let answer = wire::rest(wire::send(&world.node, "GET", "/things/rows.csv", ""));
    assert!(answer.contains("is damaged"), "{answer}");
    world.node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_scrub_finds_what_nobody_reads() {
    let world = World::with(|limits| limits.scrub_bytes = 0).await;
    world.client().put(&Path::from("rows.csv"), csv(15_000).into()).await.unwrap();
    world.client().put(&Path::from("other"), "well".into()).await.unwrap();
    world.node.shutdown().await;
    flip(&data_file(world.dir.path(), csv(15_000).len()), 1000);
    let mut config = NodeConfig::store(world.dir.path().join("store"));
    config.limits.scrub_bytes = 1 << 30;
    let node = start(config).await.unwrap();
    let mut tries = 0;
    while metric(&node, "objects_damaged_total") != Some(1) || metric(&node, "scrub_last_pass_seconds") == Some(0) {
        tries += 1;
        assert!(tries < 1000, "the scrub finds nothing");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(metric(&node, "scrubbed_bytes_total").unwrap() >= 4);
    assert_eq!(client(&node, BUCKET).get(&Path::from("other")).await.unwrap().bytes().await.unwrap(), "well");
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_names_what_is_damaged() {
    let world = World::with(|limits| limits.scrub_bytes = 0).await;
    let (client, text) = (world.client(), csv(15_000));
    for key in ["rows.csv", "small"] {
        let text = if key == "small" { "little".to_owned() } else { text.clone() };
        client.put(&Path::from(key), text.into()).await.unwrap();
    }
    let parts = Path::from("parts");
    let upload = client.create_multipart(&parts).await.unwrap();
    client.put_part(&parts, &upload, 0, csv(10_000).into()).await.unwrap();
    let store = world.dir.path().join("store");
    let in_use = check(&store, &mut |_| {}).unwrap_err();
    assert!(in_use.to_string().contains("another node"), "{in_use}");
    world.node.shutdown().await;

    let mut shown = 0;
    let report = check(&store, &mut |progress| shown = shown.max(progress.objects)).unwrap();
    assert_eq!((report.objects, report.damaged.len(), shown), (2, 0, 2), "{report:?}");
    assert!(report.bytes > (text.len() + csv(10_000).len()) as u64);
    flip(&data_file(world.dir.path(), text.len()), 100_000);
    flip(&data_file(world.dir.path(), csv(10_000).len()), 100);
    fs::remove_file(data_file(world.dir.path(), "little".len())).unwrap();
    let damaged = check(&store, &mut |_| {}).unwrap().damaged;
    let [rows, small, part] = damaged.as_slice() else { panic!("{damaged:?}") };
    assert_eq!((rows.0.as_str(), small.0.as_str()), ("s3://things/rows.csv", "s3://things/small"));
    assert!(rows.1.contains("bytes 65536 to 131072") && small.1.contains("missing"), "{damaged:?}");
    assert!(part.0.contains("part 1 of the upload"), "{damaged:?}");
    assert!(check(world.dir.path(), &mut |_| {}).unwrap_err().to_string().contains("no store"));
}
