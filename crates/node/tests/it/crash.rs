//! The node is killed at random moments, again and again, while clients write.
//!
//! After each start everything that a client was told is there, byte for byte and with its
//! metadata. What was under way happened as a whole or not at all, listings show nothing else, and
//! no file on disk is nobody's.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path as FilePath;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use futures::future::join_all;
use object_store::ObjectStore;
use object_store::aws::AmazonS3;
use object_store::path::Path;
use pushdowndb_testkit::seed::{number_from, seed};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::child::Child;
use crate::history::{Hot, Known, Writer};

const KILLS: u64 = 200;
const WRITERS: u64 = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_kill_9() {
    let seed = seed();
    let kills = number_from("PUSHDOWNDB_KILLS").unwrap_or(KILLS);
    let mut random = StdRng::seed_from_u64(seed);
    let dir = tempfile::tempdir().unwrap();
    let mut writers: Vec<Writer> = (0..WRITERS).map(|name| Writer::new(name, random.random())).collect();
    let hot = Hot::default();
    let began = Instant::now();
    for kill in 0..=kills {
        let mut child = Child::serve(dir.path());
        let client = child.client();
        nothing_half_done(dir.path());
        join_all(writers.iter_mut().map(|writer| writer.check(&client))).await;
        hot.check(&client).await;
        let files = listing(&client, &writers, &hot).await + parts(&writers);
        only_these_data_files(dir.path(), files).await;
        if kill == kills {
            break;
        }
        let wait = Duration::from_millis(random.random_range(5..200));
        let killed = AtomicBool::new(false);
        let killer = async {
            tokio::time::sleep(wait).await;
            killed.store(true, Ordering::SeqCst);
            child.kill();
        };
        tokio::join!(killer, join_all(writers.iter_mut().map(|writer| writer.write(&client, &hot, &killed))));
    }
    let done: u64 = writers.iter().map(|writer| writer.acknowledged).sum();
    println!("{kills} kills, {done} writes acknowledged, {:.1?}", began.elapsed());
    assert!(done > kills, "the load was too small to show anything: {done} writes in {kills} lives");
}

/// Drafts are cleared before the node serves.
fn nothing_half_done(dir: &FilePath) {
    let drafts: Vec<_> = fs::read_dir(dir.join("store/tmp")).unwrap().map(|draft| draft.unwrap().path()).collect();
    assert!(drafts.is_empty(), "left behind: {drafts:?}");
}

/// Data files that nothing names go away soon after the start.
async fn only_these_data_files(dir: &FilePath, named: usize) {
    let count = || -> usize {
        let folders = fs::read_dir(dir.join("store/data")).unwrap();
        folders.map(|folder| fs::read_dir(folder.unwrap().path()).unwrap().count()).sum()
    };
    let patience = Instant::now();
    while count() != named {
        assert!(patience.elapsed() < Duration::from_secs(10), "{} data files, {named} are named", count());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What is listed is what is known, no more and no less; gives how many files that takes.
async fn listing(client: &AmazonS3, writers: &[Writer], hot: &Hot) -> usize {
    let listed: Vec<_> = client.list(None).try_collect().await.unwrap();
    let listed: BTreeMap<Path, (u64, Option<String>)> =
        listed.into_iter().map(|meta| (meta.location, (meta.size, meta.e_tag))).collect();
    let known: BTreeMap<Path, Known> = writers.iter().flat_map(Writer::known).chain(hot.known()).collect();
    let seen = |known: &Known| (known.version.body().len() as u64, known.etag.clone());
    let seen: BTreeMap<_, _> = known.iter().map(|(path, known)| (path.clone(), seen(known))).collect();
    assert_eq!(listed, seen);
    known.values().map(|known| known.version.files()).sum()
}

fn parts(writers: &[Writer]) -> usize {
    writers.iter().map(Writer::pending_parts).sum()
}
