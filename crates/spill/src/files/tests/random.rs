//! Random files in all tiers, read while they are written.

use std::sync::atomic::Ordering::SeqCst;

use object_store::local::LocalFileSystem;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use tokio::task::JoinSet;

use super::*;

const CASES: u64 = 80;

fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap())
}

/// Runs `PUSHDOWNDB_CASES` cases (default 80). `PUSHDOWNDB_SEED` runs a single case again.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_reader_gets_what_was_written_and_nothing_is_left() {
    let seeds = match number_from("PUSHDOWNDB_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number_from("PUSHDOWNDB_CASES").unwrap_or(CASES),
    };
    for seed in seeds {
        let mut rng = StdRng::seed_from_u64(seed);
        let (folder, bucket) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let store = match rng.random_bool(0.8) {
            true => TestStore::new(),
            false => TestStore::over(Arc::new(LocalFileSystem::new_with_prefix(bucket.path()).unwrap())),
        };
        let (disk, is_remote) = *[(true, false), (false, true), (true, true)].choose(&mut rng).unwrap();
        let quota = if is_remote && rng.random_bool(0.7) { rng.random_range(1..20_000) } else { 0 };
        let process = process(folder.path(), quota);
        let options = QueryOptions {
            disk,
            remote: is_remote.then(|| remote(&store)),
            part_bytes: rng.random_range(1..3000),
            uploads: rng.random_range(1..5),
            buffer_bytes: *[0, 5000, 1 << 20].choose(&mut rng).unwrap(),
            encrypt: rng.random_bool(0.5),
            ..QueryOptions::default()
        };
        let query = QuerySpill::new(&process, &options).unwrap();
        let mut tasks = JoinSet::new();
        let mut all_bytes = 0;
        for _ in 0..rng.random_range(1..5) {
            let most = *[10, 2000, 50_000].choose(&mut rng).unwrap();
            let size = rng.random_range(0..most);
            let content = Arc::new(random_bytes(&mut rng, size));
            all_bytes += content.len() as u64;
            start_file(&query, content, &mut rng, &mut tasks);
        }
        while let Some(result) = tasks.join_next().await {
            result.unwrap_or_else(|error| panic!("seed {seed}: {error}; {options:?}"));
        }
        let usage = query.usage();
        let stored = usage.disk_bytes_written + usage.remote_bytes_written;
        let tags = if options.encrypt { 16 * usage.parts_written } else { 0 };
        assert!(stored <= all_bytes + tags, "seed {seed}: {usage:?}");
        assert!(quota == 0 || process.disk_bytes() <= quota, "seed {seed}");
        assert!(store.most_under_way.load(SeqCst) <= options.uploads);

        let meter = query.meter();
        drop(query);
        process.settle().await;
        assert_eq!(process.disk_bytes(), 0, "seed {seed}");
        // Reads ahead of a stopped reader may be counted by the meter and not yet by the store.
        while meter.usage().gets != store.gets.load(SeqCst) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let usage = meter.usage();
        assert_eq!([usage.puts, usage.gets, 0, usage.deletes], store.requests(), "seed {seed}");
        assert_eq!(keys(&*store.inner).await, Vec::<String>::new(), "seed {seed}");
        let left: Vec<_> = files(folder.path()).into_iter().filter(|path| !path.ends_with("lock")).collect();
        assert!(left.is_empty(), "seed {seed}: {left:?}");
        drop(process);
        let root = folder.path().join("pushdowndb-spill");
        if root.exists() {
            is_emptied(&root).await;
        }
    }
}

/// Writes `content` to a new file in random pieces, with readers during and after the writing.
fn start_file(query: &QuerySpill, content: Arc<Vec<u8>>, rng: &mut StdRng, tasks: &mut JoinSet<()>) {
    let file = query.create_temp_file("random").unwrap();
    let mut writer = file.open_writer().unwrap();
    for _ in 0..rng.random_range(0..4) {
        let (file, content) = (file.clone(), content.clone());
        let stops_at = rng.random_bool(0.2).then(|| rng.random_range(0..=content.len()));
        let starts_late = rng.random_bool(0.5);
        tasks.spawn(async move {
            if starts_late {
                tokio::task::yield_now().await;
            }
            let mut stream = file.read_stream().unwrap();
            let mut got = Vec::new();
            // Only the stream keeps the file alive.
            drop(file);
            while let Some(chunk) = stream.next().await {
                let chunk = chunk.unwrap();
                assert!(!chunk.is_empty());
                got.extend_from_slice(&chunk);
                if stops_at.is_some_and(|stop| got.len() >= stop) {
                    assert_eq!(got, content[..got.len()]);
                    return;
                }
            }
            assert!(got == *content, "{} bytes are not the {} that were written", got.len(), content.len());
        });
    }
    let (seed, is_read_again) = (rng.random(), rng.random_bool(0.7));
    tasks.spawn(async move {
        let mut rng = StdRng::seed_from_u64(seed);
        let size = content.len() as u64;
        let written = tokio::task::spawn_blocking(move || {
            let mut rest = &content[..];
            while !rest.is_empty() {
                let most = *[1, 100, 9000].choose(&mut rng).unwrap();
                let (piece, after) = rest.split_at(rng.random_range(0..=most).min(rest.len()));
                writer.write_all(piece).unwrap();
                if rng.random_bool(0.3) {
                    writer.flush().unwrap();
                }
                rest = after;
            }
            writer.finish().unwrap();
            content
        });
        let content = written.await.unwrap();
        assert_eq!(file.size(), Some(size));
        if is_read_again {
            assert!(read(&file).await.unwrap() == *content);
        }
    });
}
