//! The power fails after every single change of the disk.
//!
//! A run of clients is recorded. For every prefix of the record, the disk is reconstructed as a
//! power loss may leave it (see `image`) and a store is opened on it. Every client must find its
//! last acknowledged state, or the one that its change in progress leads to; no file may be left
//! over. A later run starts on what a crash left, so that recovery is recorded and interrupted as
//! well.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use futures::future::join_all;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::client::{Action, BUCKET, Client, Model, View, view};
use super::image::{Crash, Image, Tree};
use super::recorder::{Note, Recorder, Step};
use super::{Names, Unsynced, folder, no_leftovers, open, runtime, seed, write, write_over};
use crate::store::{BucketSettings, Grant, LocalStore, Store, StoreError};

/// The number of concurrent clients in each run.
const RUNS: [usize; 3] = [1, 1, 3];
/// The number of actions per run, divided among its clients.
const ACTIONS: usize = 36;
const THREADS: usize = 2;

#[test]
fn a_loss_of_power_at_any_moment_keeps_what_was_acknowledged() {
    let began = Instant::now();
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let mut tree = Tree::new();
    for (number, clients) in RUNS.into_iter().enumerate() {
        let run = Run::record(number, &tree, clients, &mut random);
        let crashes = run.check(random.random()).unwrap_or_else(|problem| panic!("{problem}"));
        println!("run {number}: {} changes, {crashes} crashes, {:.1?}", run.steps.len(), began.elapsed());
        let cut = random.random_range(run.steps.len() / 2..run.steps.len());
        let mut image = Image::new(&run.before);
        run.steps.iter().take(cut).for_each(|step| image.apply(step));
        tree = image.after(&mut Crash::Chance(Box::new(StdRng::seed_from_u64(random.random()))));
    }
}

/// Proves that the test above detects a missing sync.
#[test]
fn a_sync_that_is_left_out_is_noticed() {
    let mut random = StdRng::seed_from_u64(seed());
    let in_data = |path: &Path| path.parent() == Some(Path::new("store/data"));
    let mut check = |what: &str, is_left_out: &dyn Fn(&Step) -> bool| {
        let mut run = Run::record(0, &Tree::new(), 1, &mut random);
        let before = run.steps.len();
        run.steps.retain(|step| !is_left_out(step));
        assert!(run.steps.len() < before, "{what}");
        assert!(run.check(random.random()).is_err(), "nobody misses a sync of {what}");
    };
    check("the bytes of data files", &|step| matches!(step, Step::Sync(path) if path.starts_with("store/tmp")));
    check("the names of data files", &|step| matches!(step, Step::SyncFolder(path) if in_data(path)));
    check("the bytes of the index", &|step| matches!(step, Step::Sync(path) if path.ends_with("index.redb")));
    check("the name of the index", &|step| matches!(step, Step::SyncFolder(path) if path.ends_with("store")));
}

/// A recorded run, and what clients may find.
struct Run {
    number: usize,
    before: Tree,
    steps: Vec<Step>,
    /// What the clients of earlier runs find.
    old: View,
    /// What each client of this run finds after each of its changes.
    states: Vec<Vec<View>>,
}

fn prefix(run: usize, client: usize) -> String {
    format!("{run}.{client}/")
}

impl Run {
    fn record(number: usize, before: &Tree, clients: usize, random: &mut StdRng) -> Self {
        let root = folder();
        write(before, root.path());
        let recorder = Arc::new(Recorder::new(root.path()));
        let (old, states) = runtime().block_on(async {
            let store = open(root.path(), Arc::clone(&recorder) as _).expect("a store");
            let old = view(&store).await.unwrap();
            match store.create_bucket(BUCKET, BucketSettings::default(), Grant::node()).await {
                Ok(()) | Err(StoreError::BucketExists(_)) => {}
                Err(error) => panic!("{error}"),
            }
            let running = (0..clients).map(|name| {
                let client = Client::new(prefix(number, name), StdRng::seed_from_u64(random.random()));
                act(&store, &recorder, name, client, ACTIONS / clients)
            });
            (old, join_all(running).await)
        });
        Self { number, before: before.clone(), steps: recorder.take(), old, states }
    }

    /// Crashes after every step. Returns the number of crashes.
    fn check(&self, seed: u64) -> Result<usize, String> {
        thread::scope(|scope| {
            let parts: Vec<_> = (0..THREADS).map(|part| scope.spawn(move || self.check_part(part, seed))).collect();
            parts.into_iter().map(|part| part.join().expect("a part that ends")).sum()
        })
    }

    fn check_part(&self, part: usize, seed: u64) -> Result<usize, String> {
        let runtime = runtime();
        let mut image = Image::new(&self.before);
        let mut expected = Expected::new(self);
        let (root, mut names) = (folder(), Names::new());
        let mut crashes = 0;
        for (count, step) in self.steps.iter().enumerate() {
            image.apply(step);
            if let Step::Note(note) = step {
                expected.note(*note);
            }
            // The first start creates many folders; a sample is enough.
            if count % THREADS != part || matches!(step, Step::MakeFolder(_)) && count % 32 != part {
                continue;
            }
            for mut crash in kinds(step, seed.wrapping_add(count as u64)) {
                crashes += 1;
                write_over(&names, &image.after(&mut crash), root.path());
                names = runtime.block_on(expected.examine(root.path())).map_err(|problem| {
                    format!("{}: {problem}\n{}", self.moment(count, &crash), self.changes_before(count))
                })?;
            }
        }
        Ok(crashes)
    }

    fn moment(&self, count: usize, crash: &Crash) -> String {
        let left = match crash {
            Crash::Chance(_) => "whatever chance says".to_owned(),
            crash => format!("{crash:?}").to_lowercase(),
        };
        format!("run {}, power lost after change {count}, {left} of what was not synced is left", self.number)
    }

    fn changes_before(&self, count: usize) -> String {
        let last = self.steps[count.saturating_sub(12)..=count].iter();
        format!("the last changes:\n  {}", last.map(Step::summary).collect::<Vec<_>>().join("\n  "))
    }
}

/// The kinds of crashes to try after this step.
fn kinds(step: &Step, seed: u64) -> Vec<Crash> {
    let chance = Crash::Chance(Box::new(StdRng::seed_from_u64(seed)));
    if step.makes_durable() {
        vec![Crash::Nothing, chance]
    } else {
        vec![Crash::Everything, if seed.is_multiple_of(2) { Crash::Names } else { Crash::Bytes }, chance]
    }
}

/// Runs a client. Returns what it finds initially and after each action.
async fn act(store: &LocalStore, recorder: &Recorder, name: usize, mut client: Client, actions: usize) -> Vec<View> {
    let mut states = vec![Model::default().view()];
    recorder.note(Note { client: name, state: 0, done: true });
    for state in 1..=actions {
        let action: Action = client.choose();
        let after = action.on(&client.model);
        states.push(after.view());
        recorder.note(Note { client: name, state, done: false });
        client.act(store, &action).await.unwrap_or_else(|error| panic!("{action:?}: {error}"));
        recorder.note(Note { client: name, state, done: true });
        client.model = after;
    }
    states
}

/// What may be found at a point of a run.
struct Expected<'a> {
    run: &'a Run,
    /// The last acknowledged state of each client.
    acknowledged: Vec<Option<usize>>,
    /// The state that each client's unacknowledged change leads to.
    under_way: Vec<Option<usize>>,
}

impl<'a> Expected<'a> {
    fn new(run: &'a Run) -> Self {
        let clients = run.states.len();
        Self { run, acknowledged: vec![None; clients], under_way: vec![None; clients] }
    }

    fn note(&mut self, note: Note) {
        if note.done {
            (self.acknowledged[note.client], self.under_way[note.client]) = (Some(note.state), None);
        } else {
            self.under_way[note.client] = Some(note.state);
        }
    }

    /// Opens a store on what a crash left and checks it. Returns the names that exist afterwards.
    async fn examine(&self, root: &Path) -> Result<Names, String> {
        let store = open(root, Arc::new(Unsynced)).map_err(|error| format!("it does not open: {error:?}"))?;
        let found = self.visible(&store).await?;
        let files = self.goes_on(&store, found).await?;
        no_leftovers(root, files)
    }

    async fn visible(&self, store: &LocalStore) -> Result<View, String> {
        if self.acknowledged.iter().any(Option::is_some) {
            store.bucket(BUCKET).await.map_err(|error| error.to_string())?;
        }
        // Reads verify blocks that have checksums; check that each block has one.
        for object in store.shared().index.objects_after(None, 1000).map_err(|error| error.to_string())? {
            let record = object.record.map_err(|error| error.to_string())?;
            if record.segments.iter().any(|segment| segment.sums.is_none()) {
                return Err(format!("{} has no checksums", object.key));
            }
        }
        let found = view(store).await.map_err(|error| error.to_string())?;
        let this_run = format!("{}.", self.run.number);
        let old = found.filter(|key| !key.starts_with(&this_run));
        if old != self.run.old {
            return Err(format!("earlier clients find {old:#?}\nand not {:#?}", self.run.old));
        }
        for (client, states) in self.run.states.iter().enumerate() {
            let prefix = prefix(self.run.number, client);
            let mine = found.filter(|key| key.starts_with(&prefix));
            let acknowledged = &states[self.acknowledged[client].unwrap_or(0)];
            let under_way = self.under_way[client].map(|state| &states[state]);
            if mine != *acknowledged && Some(&mine) != under_way {
                return Err(format!(
                    "client {client} finds {mine:#?}\nwas told {acknowledged:#?}\nunder way {under_way:#?}"
                ));
            }
        }
        Ok(found)
    }

    /// Checks that the store accepts writes. Returns the number of data files afterwards.
    async fn goes_on(&self, store: &LocalStore, mut found: View) -> Result<usize, String> {
        match store.create_bucket(BUCKET, BucketSettings::default(), Grant::node()).await {
            Ok(()) | Err(StoreError::BucketExists(_)) => {}
            Err(error) => return Err(error.to_string()),
        }
        let mut client = Client::new("after/", StdRng::seed_from_u64(0));
        let put = Action::Put { key: "after/0".to_owned(), stamp: 0 };
        client.act(store, &put).await.map_err(|error| format!("it takes no more writes: {error}"))?;
        found.objects.extend(put.on(&client.model).view().objects);
        let now = view(store).await.map_err(|error| error.to_string())?;
        if now != found {
            return Err(format!("one more object makes {now:#?} of {found:#?}"));
        }
        Ok(found.files())
    }
}
