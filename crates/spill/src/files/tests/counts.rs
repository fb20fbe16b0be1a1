//! Requests are counted exactly, and memory is bounded.

use std::sync::atomic::Ordering::SeqCst;

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::*;

#[tokio::test]
async fn a_query_puts_each_part_and_few_manifests_and_lists_nothing() {
    let (folder, store) = (tempfile::tempdir().unwrap(), TestStore::new());
    let process = process(folder.path(), 0);
    let query = QuerySpill::new(&process, &remote_only(&store, 1000)).unwrap();
    let content = random_bytes(&mut StdRng::seed_from_u64(1), 70_500);
    let file = write(&query, &content).unwrap();
    query.uploads_done().await;
    // 71 parts, the manifest with the bound 64, and the one with 128.
    assert_eq!(store.requests(), [73, 0, 0, 0]);
    let name = format!("{}_{}", process.node().simple(), query.query().simple());
    assert_eq!(store.put_keys.lock()[0], format!("tmp/spill/{name}.meta"));
    let manifests: Vec<_> = store.put_keys.lock().iter().map(|key| key.ends_with(".meta")).collect();
    let second = manifests.iter().skip(1).position(|is_manifest| *is_manifest).unwrap() + 1;
    // No part at or above the bound is uploaded before the manifest that allows it.
    assert!(store.put_keys.lock()[..second].iter().all(|key| !key.ends_with("/64")));

    assert_eq!(read(&file).await.unwrap(), content);
    assert_eq!(store.requests(), [73, 71, 0, 0]);
    let (again, beside) = tokio::join!(read(&file), read(&file));
    assert_eq!((again.unwrap(), beside.unwrap()), (content.clone(), content));
    assert_eq!(store.requests(), [73, 3 * 71, 0, 0]);
    let usage = query.usage();
    assert_eq!((usage.files, usage.parts_written, usage.parts_read), (1, 71, 3 * 71));
    assert_eq!((usage.remote_bytes_written, usage.remote_bytes_read), (70_500, 3 * 70_500));
    assert_eq!((usage.puts, usage.gets, usage.deletes, usage.disk_bytes_written), (73, 213, 0, 0));
    assert_eq!(files(folder.path()).len(), 2, "the lock and the copy of the manifest");

    let meter = query.meter();
    drop((file, query));
    process.settle().await;
    // One request for the parts, then one for the manifest.
    assert_eq!(store.requests(), [73, 213, 0, 2]);
    assert_eq!(store.deleted_keys.lock().len(), 72);
    assert!(store.deleted_keys.lock().last().unwrap().ends_with(".meta"));
    assert_eq!(meter.usage().deletes, 2);
    assert_eq!(keys(&*store.inner).await, Vec::<String>::new());
    assert_eq!(files(folder.path()).len(), 1, "the lock");
}

#[tokio::test]
async fn a_query_that_does_not_spill_makes_nothing() {
    let (folder, store) = (tempfile::tempdir().unwrap(), TestStore::new());
    let process = process(folder.path(), 0);
    let options = QueryOptions { remote: Some(remote(&store)), ..QueryOptions::default() };
    let query = QuerySpill::new(&process, &options).unwrap();
    let file = query.create_temp_file("empty").unwrap();
    assert_eq!(read(&file).await.unwrap(), b"");
    let mut writer = file.open_writer().unwrap();
    writer.write_all(&[1; 1000]).unwrap();
    assert!(file.open_writer().is_err(), "one writer at a time");
    drop((writer, file, query));
    process.settle().await;
    assert_eq!(store.requests(), [0; 4]);
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
}

#[tokio::test]
async fn small_files_stay_in_memory_within_a_bound_when_there_is_no_disk() {
    let (folder, store) = (tempfile::tempdir().unwrap(), TestStore::new());
    let process = process(folder.path(), 0);
    let options = QueryOptions { buffer_bytes: 4000, ..remote_only(&store, 8000) };
    let query = QuerySpill::new(&process, &options).unwrap();
    // A fourth of the buffers holds one file of 999 bytes; a file of 1000 bytes is large enough for
    // an upload.
    let kept = [write(&query, &[1; 999]).unwrap()];
    assert_eq!(store.requests(), [0; 4]);
    let uploaded = [write(&query, &[2; 999]).unwrap(), write(&query, &[3; 1000]).unwrap()];
    query.uploads_done().await;
    assert_eq!(store.requests(), [3, 0, 0, 0]);
    assert_eq!(read(&kept[0]).await.unwrap(), [1; 999]);
    assert_eq!(read(&uploaded[0]).await.unwrap(), [2; 999]);
    assert_eq!(store.requests(), [3, 1, 0, 0]);
    drop(kept);
    let kept = write(&query, &[4; 999]).unwrap();
    query.uploads_done().await;
    assert_eq!(store.requests(), [3, 1, 0, 0]);
    assert_eq!(read(&kept).await.unwrap(), [4; 999]);
}

#[tokio::test]
async fn parts_of_dropped_files_are_deleted_in_batches_while_the_query_runs() {
    let (folder, store) = (tempfile::tempdir().unwrap(), TestStore::new());
    let process = process(folder.path(), 0);
    let query = QuerySpill::new(&process, &remote_only(&store, 10)).unwrap();
    let first = write(&query, &[1; 9_990]).unwrap();
    query.uploads_done().await;
    drop(first);
    assert_eq!(store.deletes.load(SeqCst), 0, "999 parts wait for one more");
    let second = write(&query, &[2; 20]).unwrap();
    query.uploads_done().await;
    drop(second);
    while store.deletes.load(SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    drop(query);
    process.settle().await;
    // One request for a thousand parts, one for the last part, and one for the manifest.
    assert_eq!(store.deletes.load(SeqCst), 3);
    assert_eq!(keys(&*store.inner).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_disk_is_filled_first_and_what_it_does_not_take_is_uploaded() {
    let (folder, store) = (tempfile::tempdir().unwrap(), TestStore::new());
    let process = process(folder.path(), 2500);
    let options = QueryOptions { disk: true, ..remote_only(&store, 1000) };
    let query = QuerySpill::new(&process, &options).unwrap();
    let content = random_bytes(&mut StdRng::seed_from_u64(2), 6000);
    let file = write(&query, &content).unwrap();
    query.uploads_done().await;
    assert_eq!((process.disk_bytes(), query.usage().remote_bytes_written), (2000, 4000));
    assert_eq!(read(&file).await.unwrap(), content);
    assert_eq!((query.usage().disk_bytes_read, query.usage().remote_bytes_read), (2000, 4000));
    // The space of a dropped file is used again.
    drop(file);
    assert_eq!(process.disk_bytes(), 0);
    let other = write(&query, &content[..1500]).unwrap();
    assert_eq!(process.disk_bytes(), 1500);
    assert_eq!(read(&other).await.unwrap(), &content[..1500]);
    let mode = std::os::unix::fs::PermissionsExt::mode;
    for path in files(folder.path()) {
        assert_eq!(mode(&path.metadata().unwrap().permissions()) & 0o077, 0, "{}", path.display());
        let folder = path.parent().unwrap();
        assert_eq!(mode(&folder.metadata().unwrap().permissions()) & 0o777, 0o700, "{}", folder.display());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_waits_for_uploads_rather_than_hold_more_parts() {
    let (folder, store) = (tempfile::tempdir().unwrap(), TestStore::new());
    let process = process(folder.path(), 0);
    let query = QuerySpill::new(&process, &QueryOptions { uploads: 2, ..remote_only(&store, 1000) }).unwrap();
    store.close();
    let content = random_bytes(&mut StdRng::seed_from_u64(3), 10_000);
    let file = query.create_temp_file("slow").unwrap();
    let (mut writer, writes) = (file.open_writer().unwrap(), content.clone());
    // The writer runs on a thread of the runtime, as operators do.
    let written = tokio::spawn(async move {
        writer.write_all(&writes).unwrap();
        writer.finish().unwrap();
    });
    while store.puts.load(SeqCst) < 3 || file.size() < Some(3000) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // Bytes that are being uploaded are read from memory.
    let mut stream = file.read_stream().unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap(), &content[..1000]);
    assert_eq!(stream.next().await.unwrap().unwrap(), &content[1000..2000]);
    assert!(!written.is_finished());
    assert_eq!(file.size(), Some(3000));
    store.open();
    written.await.unwrap();
    assert_eq!(read(&file).await.unwrap(), content);
    assert_eq!(store.most_under_way.load(SeqCst), 2);
    assert!(query.usage().write_wait > Duration::ZERO);
}

#[tokio::test]
async fn many_writers_hold_no_more_than_the_buffers_and_a_short_part_each() {
    const WRITERS: usize = 50;
    let (folder, store) = (tempfile::tempdir().unwrap(), TestStore::new());
    // The minimum size of a part is 100 bytes on the disk, and 200 in the store.
    for (disk, least) in [(true, 100), (false, 200)] {
        let process = process(folder.path(), 0);
        let options = QueryOptions { disk, buffer_bytes: 1000, ..remote_only(&store, 1600) };
        let query = QuerySpill::new(&process, &options).unwrap();
        let files: Vec<_> = (0..WRITERS).map(|_| query.create_temp_file("test").unwrap()).collect();
        let mut writers: Vec<_> = files.iter().map(|file| file.open_writer().unwrap()).collect();
        let mut written = 0;
        for _ in 0..60 {
            for writer in &mut writers {
                writer.write_all(&[5; 30]).unwrap();
                written += 30;
                query.uploads_done().await;
                let usage = query.usage();
                let held = written - usage.disk_bytes_written - usage.remote_bytes_written;
                assert!(held <= 1000 + (WRITERS * least) as u64, "{held}");
            }
        }
        writers.iter_mut().for_each(|writer| writer.finish().unwrap());
        for file in &files {
            assert_eq!(read(file).await.unwrap(), [5; 1800]);
        }
        assert_eq!((query.usage().remote_bytes_written > 0, query.usage().disk_bytes_written > 0), (!disk, disk));
    }
}

#[tokio::test]
async fn readers_read_no_more_ahead_than_the_buffers_allow() {
    for (buffer_bytes, gets) in [(1 << 20, 9), (2500, 5), (0, 3)] {
        let (folder, store) = (tempfile::tempdir().unwrap(), TestStore::new());
        let process = process(folder.path(), 0);
        let query = QuerySpill::new(&process, &QueryOptions { buffer_bytes, ..remote_only(&store, 1000) }).unwrap();
        let file = write(&query, &[6; 5000]).unwrap();
        query.uploads_done().await;
        let mut streams: Vec<_> = (0..3).map(|_| file.read_stream().unwrap()).collect();
        for stream in &mut streams {
            assert_eq!(stream.next().await.unwrap().unwrap(), &[6; 1000][..]);
        }
        while store.gets.load(SeqCst) < gets {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(store.gets.load(SeqCst), gets, "a part for each reader, and those ahead");
        for stream in streams {
            let rest: Vec<_> = stream.try_collect().await.unwrap();
            assert_eq!(rest.concat(), [6; 4000]);
        }
        assert_eq!(store.gets.load(SeqCst), 15);
    }
}
