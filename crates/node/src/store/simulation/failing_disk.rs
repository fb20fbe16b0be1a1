//! The disk fills up or fails at each change in turn.
//!
//! For every action of a client and every N, the N-th change of the disk during the action fails.
//! The client gets a clear error and finds the complete old state or, if the index may have been
//! written, the complete new one, also while the disk is full. Afterwards the store works as usual.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use parking_lot::Mutex;
use rand::SeedableRng;
use rand::rngs::StdRng;
use s3s::S3Error;

use super::client::{Action, BUCKET, Client, Model, View, view};
use super::image::Tree;
use super::{Unsynced, folder, no_leftovers, open, read, runtime, write};
use crate::store::disk::{Change, Disk};
use crate::store::{BucketSettings, Grant, LocalStore, Store, StoreError};

/// A disk with an injected fault.
#[derive(Debug)]
struct FailingDisk {
    fault: Fault,
    /// Number of changes that succeed before the fault.
    left: AtomicI64,
    failed: AtomicBool,
    /// Whether a sync failed.
    lost: AtomicBool,
    files: Mutex<HashMap<PathBuf, Blocks>>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fault {
    /// From that change on there is no space until the repair. Changes that need no space succeed.
    Full,
    /// Like `Full`, but on a copy-on-write file system: changes of the index need space too, so
    /// that it cannot even be reopened.
    FullAnywhere,
    /// One change fails.
    Once,
}

/// The blocks of a file that have space on the disk; the others are holes.
#[derive(Debug)]
struct Blocks(HashSet<u64>);

impl Blocks {
    const BYTES: usize = 4096;

    /// The blocks of an existing file, in which blocks of zeros count as holes.
    fn of(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap();
        let written = bytes.chunks(Self::BYTES).enumerate().filter(|(_, block)| block.iter().any(|byte| *byte != 0));
        Self(written.map(|(block, _)| block as u64).collect())
    }

    fn touched(at: u64, bytes: &[u8]) -> Range<u64> {
        let size = Self::BYTES as u64;
        at / size..(at + bytes.len() as u64).div_ceil(size)
    }
}

impl FailingDisk {
    fn new(fault: Fault) -> Self {
        let left = AtomicI64::new(i64::MAX);
        Self { fault, left, failed: AtomicBool::default(), lost: AtomicBool::default(), files: Mutex::default() }
    }

    fn fail_after(&self, changes: i64) {
        self.left.store(changes, Ordering::SeqCst);
    }

    fn repair(&self) {
        self.fail_after(i64::MAX);
    }

    fn takes_space(&self, change: Change<'_>) -> bool {
        match change {
            Change::MakeFolder(_) | Change::Create(_) | Change::Rename { .. } | Change::Link { .. } => true,
            Change::Write { file, at, bytes } => {
                let mut files = self.files.lock();
                let blocks = files.entry(file.path().to_owned()).or_insert_with(|| Blocks::of(file.path()));
                Blocks::touched(at, bytes).any(|block| !blocks.0.contains(&block))
            }
            // Extending a file leaves a hole.
            Change::Resize { .. } | Change::SyncFolder(_) | Change::Sync(_) | Change::Remove(_) => false,
        }
    }
}

impl Disk for FailingDisk {
    fn apply(&self, change: Change<'_>) -> io::Result<()> {
        let counts = match self.fault {
            Fault::Full => self.takes_space(change),
            Fault::FullAnywhere => self.takes_space(change) || matches!(change, Change::Write { .. }),
            Fault::Once => true,
        };
        if counts {
            let left = self.left.fetch_sub(1, Ordering::SeqCst);
            let (fails, kind) = match self.fault {
                Fault::Full | Fault::FullAnywhere => (left <= 0, io::ErrorKind::StorageFull),
                Fault::Once => (left == 0, io::ErrorKind::Other),
            };
            if fails {
                self.failed.store(true, Ordering::SeqCst);
                if matches!(change, Change::Sync(_) | Change::SyncFolder(_)) {
                    self.lost.store(true, Ordering::SeqCst);
                }
                // Writes half of the bytes, as a disk does that runs out of space.
                if let Change::Write { file, at, bytes } = change {
                    Change::Write { file, at, bytes: &bytes[..bytes.len() / 2] }.apply()?;
                }
                return Err(kind.into());
            }
        }
        if let Change::Write { file, at, bytes } = change
            && let Some(blocks) = self.files.lock().get_mut(file.path())
        {
            blocks.0.extend(Blocks::touched(at, bytes));
        }
        Unsynced.apply(change)
    }
}

/// An initial store: an object from a PUT, an object from parts, an upload in progress.
struct Fixture {
    tree: Tree,
    client: Client,
}

impl Fixture {
    fn new() -> Self {
        let root = folder();
        let mut client = Client::new("c/", StdRng::seed_from_u64(1));
        let upload = |name: &str, stamp| (format!("c/{name}"), stamp);
        runtime().block_on(async {
            let store = open(root.path(), Arc::new(Unsynced)).unwrap();
            store.create_bucket(BUCKET, BucketSettings::default(), Grant::node()).await.unwrap();
            let mut fixed = vec![
                Action::Put { key: "c/old".to_owned(), stamp: 2 },
                Action::CreateUpload { key: "c/parts".to_owned(), stamp: 3 },
                Action::PutPart { upload: upload("parts", 3), number: 1, stamp: 4 },
                Action::PutPart { upload: upload("parts", 3), number: 2, stamp: 5 },
                Action::Complete(upload("parts", 3)),
                Action::CreateUpload { key: "c/old".to_owned(), stamp: 6 },
                Action::PutPart { upload: upload("old", 6), number: 1, stamp: 7 },
            ];
            for action in fixed.drain(..) {
                client.act(&store, &action).await.unwrap();
                client.model = action.on(&client.model);
            }
        });
        Self { tree: read(root.path()), client }
    }

    fn actions() -> Vec<Action> {
        let key = |name: &str| format!("c/{name}");
        vec![
            Action::Put { key: key("new"), stamp: 8 },
            Action::Put { key: key("old"), stamp: 9 },
            Action::Copy { from: key("old"), to: key("new") },
            Action::Copy { from: key("parts"), to: key("old") },
            Action::Delete(vec![key("old"), key("parts")]),
            Action::CreateUpload { key: key("new"), stamp: 10 },
            Action::PutPart { upload: (key("old"), 6), number: 1, stamp: 11 },
            Action::PutPart { upload: (key("old"), 6), number: 2, stamp: 12 },
            Action::Complete((key("old"), 6)),
            Action::Abort((key("old"), 6)),
        ]
    }
}

#[test]
fn a_full_disk_is_a_clean_error() {
    each_change_fails(Fault::Full);
    each_change_fails(Fault::FullAnywhere);
}

#[test]
fn a_failing_disk_is_a_clean_error() {
    each_change_fails(Fault::Once);
}

fn each_change_fails(fault: Fault) {
    let mut fixture = Fixture::new();
    let runtime = runtime();
    let mut faults = 0;
    for action in Fixture::actions() {
        for changes in 0.. {
            assert!(changes < 200, "{action:?} never gets through");
            let root = folder();
            write(&fixture.tree, root.path());
            let disk = Arc::new(FailingDisk::new(fault));
            let failing = Failing { fixture: &mut fixture, disk: Arc::clone(&disk), action: &action };
            runtime
                .block_on(failing.check(root.path(), changes))
                .unwrap_or_else(|problem| panic!("{fault:?} at change {changes} of {action:?}: {problem}"));
            if !disk.failed.load(Ordering::SeqCst) {
                break;
            }
            faults += 1;
        }
    }
    println!("{fault:?}: {faults} faults");
    assert!(faults > 10, "{faults}");
}

/// One action on a failing disk.
struct Failing<'a> {
    fixture: &'a mut Fixture,
    disk: Arc<FailingDisk>,
    action: &'a Action,
}

impl Failing<'_> {
    async fn check(self, root: &Path, changes: i64) -> Result<(), String> {
        let text = |error: StoreError| error.to_string();
        let (before, after) = (&self.fixture.client.model.clone(), self.action.on(&self.fixture.client.model));
        let store = open(root, Arc::clone(&self.disk) as _).map_err(|error| format!("it does not open: {error}"))?;
        self.disk.fail_after(changes);
        let done = self.fixture.client.act(&store, self.action).await;
        let acknowledged = done.is_ok();
        if let Err(error) = done {
            self.is_clear(error)?;
        }
        let mut found = view(&store).await;
        if self.disk.fault == Fault::FullAnywhere && matches!(found, Err(StoreError::Full)) {
            self.disk.repair();
            found = view(&store).await;
        }
        let found = found.map_err(|error| format!("nothing can be read: {error}"))?;
        let mut state = self.state(&found, before, &after, acknowledged)?;
        self.disk.repair();
        let lost = self.disk.lost.load(Ordering::SeqCst);
        if lost {
            self.has_stopped(&store, state).await?;
        } else {
            self.goes_on(&store, state).await?;
        }
        // Reopening decides which state the index is in.
        drop(store);
        let store = open(root, Arc::new(Unsynced)).map_err(|error| format!("it does not open again: {error}"))?;
        let again = view(&store).await.map_err(text)?;
        if lost {
            state = self.state(&again, before, &after, acknowledged)?;
            self.goes_on(&store, state).await?;
        }
        if again != state.view() {
            return Err(format!("after a restart there is {again:#?}"));
        }
        no_leftovers(root, again.files()).map(drop)
    }

    /// Returns the model that `found` matches: `after`, or `before` if the action was not
    /// acknowledged.
    fn state<'m>(
        &self,
        found: &View,
        before: &'m Model,
        after: &'m Model,
        acknowledged: bool,
    ) -> Result<&'m Model, String> {
        if *found == after.view() {
            return Ok(after);
        }
        if !acknowledged && *found == before.view() {
            return Ok(before);
        }
        Err(format!("acknowledged: {acknowledged}, and then there is {found:#?}"))
    }

    /// Checks that the error has the HTTP status for this fault.
    fn is_clear(&self, error: StoreError) -> Result<(), String> {
        let answer = S3Error::from(error);
        let status = answer.status_code().or_else(|| answer.code().status_code()).map(|status| status.as_u16());
        let wanted = match self.disk.fault {
            _ if self.disk.lost.load(Ordering::SeqCst) => 503,
            Fault::Full | Fault::FullAnywhere => 507,
            Fault::Once => 500,
        };
        if status == Some(wanted) { Ok(()) } else { Err(format!("the answer is {status:?} {answer:?}")) }
    }

    /// Checks that nothing more is written, and that reads return the last state.
    async fn has_stopped(&self, store: &LocalStore, state: &Model) -> Result<(), String> {
        if !store.has_stopped() {
            return Err("it does not know that the disk lost a write".to_owned());
        }
        let mut client = Client::new("c/", StdRng::seed_from_u64(0));
        client.model = state.clone();
        for action in [
            Action::Put { key: "c/after".to_owned(), stamp: 13 },
            Action::Delete(state.view().objects.into_keys().collect()),
        ] {
            match client.act(store, &action).await {
                Err(StoreError::Stopped) => {}
                done => return Err(format!("then {action:?} gives {done:?}")),
            }
        }
        let found = view(store).await.map_err(|error| error.to_string())?;
        if found == state.view() { Ok(()) } else { Err(format!("then there is {found:#?}")) }
    }

    async fn goes_on(&self, store: &LocalStore, state: &Model) -> Result<(), String> {
        let mut client = Client::new("c/", StdRng::seed_from_u64(0));
        client.model = state.clone();
        for action in [
            Action::Put { key: "c/after".to_owned(), stamp: 13 },
            Action::Copy { from: "c/after".to_owned(), to: "c/again".to_owned() },
            Action::Delete(vec!["c/after".to_owned(), "c/again".to_owned()]),
        ] {
            let after = action.on(&client.model);
            client.act(store, &action).await.map_err(|error| format!("then {action:?} fails: {error}"))?;
            let found = view(store).await.map_err(|error| error.to_string())?;
            if found != after.view() {
                return Err(format!("then {action:?} makes {found:#?}"));
            }
            client.model = after;
        }
        Ok(())
    }
}
