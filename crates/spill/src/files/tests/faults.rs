//! Each fault leads to one clear error, and leaves no data behind.

use std::sync::atomic::Ordering::SeqCst;

use datafusion_common::DataFusionError;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;

/// Returns the error of reading `file`, with all of its causes.
async fn read_error(file: &Arc<dyn SpillFile>) -> String {
    read(file).await.unwrap_err().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_wrong_bit_anywhere_is_an_error_before_a_byte_of_the_part_is_given_out() {
    let mut rng = StdRng::seed_from_u64(4);
    for encrypt in [false, true] {
        let (folder, store) = (tempfile::tempdir().unwrap(), TestStore::new());
        let process = process(folder.path(), 3050);
        let options = QueryOptions { disk: true, encrypt, ..remote_only(&store, 1000) };
        let query = QuerySpill::new(&process, &options).unwrap();
        let content = random_bytes(&mut rng, 6500);
        let file = write(&query, &content).unwrap();
        query.uploads_done().await;
        let local = files(folder.path()).into_iter().find(|path| path.metadata().unwrap().len() > 2000).unwrap();
        let stored = [1000, 1016][usize::from(encrypt)];
        for part in 0..3 {
            let right = std::fs::read(&local).unwrap();
            let mut wrong = right.clone();
            wrong[part * stored + rng.random_range(0..stored)] ^= 1 << rng.random_range(0..8);
            std::fs::write(&local, wrong).unwrap();
            let mut stream = file.read_stream().unwrap();
            let mut got = Vec::new();
            let error = loop {
                match stream.next().await.unwrap() {
                    Ok(chunk) => got.extend_from_slice(&chunk),
                    Err(error) => break error.to_string(),
                }
            };
            assert_eq!(got, content[..part * 1000]);
            assert!(error.contains("was damaged") && error.contains("run the query again"), "{error}");
            assert!(error.contains(local.to_str().unwrap()) && error.contains("file 0 (test)"), "{error}");
            assert!(stream.next().await.is_none());
            std::fs::write(&local, right).unwrap();
        }
        let parts: Vec<_> = keys(&*store.inner).await.into_iter().filter(|key| !key.ends_with(".meta")).collect();
        assert_eq!(parts.len(), 4);
        for key in &parts {
            let bit = rng.random_range(0..1 << 20);
            flip_bit(&*store.inner, key, bit).await;
            let error = read_error(&file).await;
            assert!(error.contains(key) && error.contains("its CRC32C is"), "{error}");
            flip_bit(&*store.inner, key, bit).await;
        }
        assert!(read(&file).await.unwrap() == content);
        // Parts that are swapped, truncated, or deleted.
        let (first, second) = (Path::from(parts[0].as_str()), Path::from(parts[1].as_str()));
        store.inner.copy(&first, &second).await.unwrap();
        assert!(read_error(&file).await.contains("its CRC32C is"));
        store.inner.put(&second, vec![0; 999].into()).await.unwrap();
        assert!(read_error(&file).await.contains("it has 999 bytes instead of"));
        store.inner.delete(&second).await.unwrap();
        assert!(read_error(&file).await.contains("run the query again"));
        std::fs::write(&local, "").unwrap();
        assert!(read_error(&file).await.contains(local.to_str().unwrap()));
        std::fs::remove_file(&local).unwrap();
        assert!(read_error(&file).await.contains("run the query again"));
        drop((file, query));
        process.settle().await;
        assert_eq!(keys(&*store.inner).await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_full_disk_without_a_store_says_which_settings_to_raise() {
    let folder = tempfile::tempdir().unwrap();
    let quota = process(folder.path(), 1500);
    let reserve = SpillProcess::new(DiskOptions {
        folder: folder.path().to_owned(),
        quota_bytes: 0,
        reserve_bytes: Some(u64::MAX / 2),
    });
    // A file where the folder should be.
    std::fs::write(folder.path().join("taken"), "").unwrap();
    let no_folder = process(&folder.path().join("taken"), 0);
    for (process, why) in [(quota, "1000 bytes of the 1500 bytes"), (reserve, "bytes free"), (no_folder, "no folder")] {
        let options = QueryOptions { part_bytes: 1000, ..QueryOptions::default() };
        let query = QuerySpill::new(&process, &options).unwrap();
        let file = query.create_temp_file("ExternalSorter").unwrap();
        let mut writer = file.open_writer().unwrap();
        let error = writer.write_all(&[1; 5000]).unwrap_err();
        // The error is converted as in DataFusion, which looks for the kind of the root.
        let error = DataFusionError::from(arrow::error::ArrowError::from(error));
        assert!(matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)), "{error:?}");
        let text = error.to_string();
        let settings = ["pushdown.spill_disk_bytes", "pushdown.spill_location", "pushdown.memory"];
        assert!(settings.iter().all(|setting| text.contains(setting)), "{text}");
        assert!(text.contains(why) && text.contains("ExternalSorter"), "{text}");
        assert!(writer.finish().is_err());
        assert!(read(&file).await.is_err());
        drop((writer, file, query));
        assert_eq!(process.disk_bytes(), 0);
    }
    let process = process(folder.path(), 0);
    let query = QuerySpill::new(&process, &QueryOptions { disk: false, ..QueryOptions::default() }).unwrap();
    let Err(error) = query.create_temp_file("sorting") else { panic!("a file without a tier") };
    assert!(matches!(error, DataFusionError::ResourcesExhausted(_)), "{error}");
}

#[tokio::test]
async fn a_disk_that_fails_is_replaced_by_the_store() {
    let (folder, store) = (tempfile::tempdir().unwrap(), TestStore::new());
    let process = process(folder.path(), 0);
    let options = QueryOptions { disk: true, ..remote_only(&store, 1000) };
    let query = QuerySpill::new(&process, &options).unwrap();
    let file = query.create_temp_file("test").unwrap();
    let mut writer = file.open_writer().unwrap();
    writer.write_all(&[1; 1500]).unwrap();
    // Without the folder the file cannot be opened: further parts are uploaded.
    let node_folder = files(folder.path())[0].parent().unwrap().to_owned();
    let away = folder.path().join("away");
    std::fs::rename(&node_folder, &away).unwrap();
    writer.write_all(&[2; 1500]).unwrap();
    writer.finish().unwrap();
    query.uploads_done().await;
    assert_eq!((process.disk_bytes(), query.usage().remote_bytes_written), (1000, 2000));
    std::fs::rename(&away, &node_folder).unwrap();
    assert_eq!(read(&file).await.unwrap(), [vec![1; 1500], vec![2; 1500]].concat());

    // A file to which every write fails with ENOSPC.
    let full = node_folder.join(format!("{}_1", query.query().simple()));
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    let on_full = write(&query, &[3; 2500]).unwrap();
    query.uploads_done().await;
    assert_eq!((process.disk_bytes(), query.usage().remote_bytes_written), (1000, 4500));
    assert_eq!(read(&on_full).await.unwrap(), [3; 2500]);
    let alone = QuerySpill::new(&process, &QueryOptions { part_bytes: 1000, ..QueryOptions::default() }).unwrap();
    std::os::unix::fs::symlink("/dev/full", node_folder.join(format!("{}_0", alone.query().simple()))).unwrap();
    let Err(error) = write(&alone, &[4; 2500]) else { panic!("written to a full disk") };
    assert!(error.to_string().contains("the disk is full"), "{error}");
    drop((writer, file, on_full, query, alone));
    process.settle().await;
    assert_eq!(process.disk_bytes(), 0);
    assert_eq!((keys(&*store.inner).await.len(), files(folder.path()).len()), (0, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_that_is_refused_is_an_error_of_the_next_write_finish_and_read() {
    for refused in ["/2", ".meta"] {
        let (folder, store) = (tempfile::tempdir().unwrap(), TestStore::new());
        *store.refused.lock() = Some(refused);
        let process = process(folder.path(), 0);
        let query = QuerySpill::new(&process, &remote_only(&store, 1000)).unwrap();
        let file = query.create_temp_file("test").unwrap();
        let mut writer = file.open_writer().unwrap();
        writer.write_all(&[1; 3000]).unwrap();
        // A reader that waits for more bytes gets the error, too.
        let reader = tokio::spawn({
            let file = file.clone();
            async move { read(&file).await }
        });
        query.uploads_done().await;
        let error = writer.write(&[1]).unwrap_err().to_string();
        assert!(error.contains("the store refuses") && error.contains("file 0 (test)"), "{error}");
        assert!(writer.flush().is_err() && writer.finish().is_err());
        assert!(reader.await.unwrap().unwrap_err().to_string().contains("the store refuses"));
        assert!(read_error(&file).await.contains("the store refuses"));
        // Other files are not affected once the store works again.
        *store.refused.lock() = None;
        let other = write(&query, &[2; 2000]).unwrap();
        assert_eq!(read(&other).await.unwrap(), [2; 2000]);
        drop((writer, file, other, query));
        process.settle().await;
        assert_eq!(keys(&*store.inner).await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_writer_that_does_not_finish_is_an_error_for_readers() {
    let (folder, store) = (tempfile::tempdir().unwrap(), TestStore::new());
    let process = process(folder.path(), 0);
    let query = QuerySpill::new(&process, &remote_only(&store, 1000)).unwrap();
    let file = query.create_temp_file("test").unwrap();
    let mut writer = file.open_writer().unwrap();
    writer.write_all(&[1; 500]).unwrap();
    let mut stream = file.read_stream().unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap(), &[1; 500][..]);
    assert!(futures::poll!(stream.next()).is_pending());
    drop(writer);
    let error = stream.next().await.unwrap().unwrap_err().to_string();
    assert!(error.contains("ended before it finished"), "{error}");
}

#[tokio::test]
async fn what_cannot_be_deleted_at_the_end_is_deleted_by_the_next_process() {
    let (folder, store) = (tempfile::tempdir().unwrap(), TestStore::new());
    let process = process(folder.path(), 0);
    let query = QuerySpill::new(&process, &remote_only(&store, 1000)).unwrap();
    let file = write(&query, &[1; 3000]).unwrap();
    store.refuses_deletes.store(true, SeqCst);
    drop((file, query));
    process.settle().await;
    assert_eq!(keys(&*store.inner).await.len(), 4, "the manifest stays with its parts");
    let root = folder.path().join("pushdowndb-spill");
    let lock = root.join(process.node().simple().to_string()).join("lock");
    drop(process);
    // The folder stays with the copy of the manifest, but is unlocked.
    while std::fs::File::open(&lock).unwrap().try_lock().is_err() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    store.refuses_deletes.store(false, SeqCst);
    let next = super::process(folder.path(), 0);
    let query = QuerySpill::new(&next, &remote_only(&store, 1000)).unwrap();
    let file = write(&query, &[1; 1000]).unwrap();
    query.uploads_done().await;
    next.settle().await;
    assert_eq!(keys(&*store.inner).await.len(), 2, "of the living query");
    drop((file, query));
    next.settle().await;
    assert_eq!(keys(&*store.inner).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_random_fault_ends_in_the_right_bytes_or_an_error_and_leaves_nothing() {
    const ENDINGS: [&str; 6] = ["/0", "/1", "/3", "/7", "/64", ".meta"];
    let mut failed = 0;
    for seed in 0..100 {
        let mut rng = StdRng::seed_from_u64(seed);
        let (folder, store) = (tempfile::tempdir().unwrap(), TestStore::new());
        *store.refused.lock() = Some(ENDINGS[rng.random_range(0..ENDINGS.len())]);
        let process = process(folder.path(), rng.random_range(1..5000));
        let options = QueryOptions {
            disk: rng.random(),
            buffer_bytes: [0, 1 << 20][rng.random_range(0..2)],
            encrypt: rng.random(),
            ..remote_only(&store, rng.random_range(10..1000))
        };
        let query = QuerySpill::new(&process, &options).unwrap();
        for _ in 0..3 {
            let size = rng.random_range(0..20_000);
            let content = random_bytes(&mut rng, size);
            let file = query.create_temp_file("test").unwrap();
            let mut writer = file.open_writer().unwrap();
            let written = content.chunks(997).try_for_each(|piece| writer.write_all(piece));
            let finished = writer.finish();
            assert!(written.is_ok() || finished.is_err(), "seed {seed}");
            query.uploads_done().await;
            match read(&file).await {
                Ok(bytes) => assert!(finished.is_ok() && bytes == content, "seed {seed}"),
                Err(error) => {
                    assert!(error.to_string().contains("the store refuses"), "seed {seed}: {error}");
                    failed += 1;
                }
            }
        }
        drop(query);
        process.settle().await;
        assert_eq!(keys(&*store.inner).await, Vec::<String>::new(), "seed {seed}");
        assert_eq!(process.disk_bytes(), 0);
        assert!(files(folder.path()).iter().all(|path| path.ends_with("lock")), "seed {seed}");
    }
    assert!((50..250).contains(&failed), "{failed} of 300 files failed");
}
