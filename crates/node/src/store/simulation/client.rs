//! A client of a store, with a model of what the store must contain.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use md5::{Digest, Md5};
use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};

use crate::store::hex::hex;
use crate::store::{
    Attributes, Completion, Condition, CopyRequest, Grant, ListQuery, Listed, LocalStore, PartRef, PutOptions, Result,
    Staged, Store, StoreError, UploadKey, UploadQuery, UploadRecord,
};

pub(super) const BUCKET: &str = "bucket";

/// A seed from which the bytes of a PUT or a part are generated.
pub(super) type Stamp = u64;

fn bytes_of(stamp: Stamp) -> Vec<u8> {
    let mut random = StdRng::seed_from_u64(stamp);
    let mut bytes = vec![0; random.random_range(1..3_000)];
    random.fill_bytes(&mut bytes);
    bytes
}

fn md5(bytes: &[u8]) -> [u8; 16] {
    Md5::digest(bytes).into()
}

/// The expected content of an object: the stamp in its metadata, and the stamps of the PUT or of
/// its parts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Content {
    stamp: Stamp,
    pieces: Vec<Stamp>,
    multipart: bool,
}

impl Content {
    fn put(stamp: Stamp) -> Self {
        Self { stamp, pieces: vec![stamp], multipart: false }
    }

    fn etag(&self) -> String {
        let sums: Vec<_> = self.pieces.iter().map(|piece| md5(&bytes_of(*piece))).collect();
        match sums.as_slice() {
            [sum] if !self.multipart => hex(sum),
            sums => format!("{}-{}", hex(&md5(&sums.concat())), sums.len()),
        }
    }

    /// The object as it must be found in a store.
    fn found(&self) -> Found {
        let bytes: Vec<u8> = self.pieces.iter().flat_map(|piece| bytes_of(*piece)).collect();
        Found { stamp: Some(self.stamp.to_string()), etag: self.etag(), md5: md5(&bytes), files: self.pieces.len() }
    }
}

/// An object as found in a store.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Found {
    stamp: Option<String>,
    etag: String,
    md5: [u8; 16],
    files: usize,
}

/// The visible state: objects by key, uploads by key and stamp with the ETags of their parts.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct View {
    pub objects: BTreeMap<String, Found>,
    pub uploads: BTreeMap<(String, String), BTreeMap<u32, String>>,
}

impl View {
    /// The number of data files that these objects and uploads consist of.
    pub fn files(&self) -> usize {
        let parts = self.uploads.values().map(BTreeMap::len);
        self.objects.values().map(|found| found.files).chain(parts).sum()
    }

    /// The part of the view whose keys satisfy `keys`.
    pub fn filter(&self, keys: impl Fn(&str) -> bool) -> Self {
        Self {
            objects: self.objects.clone().into_iter().filter(|(key, _)| keys(key)).collect(),
            uploads: self.uploads.clone().into_iter().filter(|((key, _), _)| keys(key)).collect(),
        }
    }
}

/// The visible state of a store; empty without a bucket.
pub(super) async fn view(store: &LocalStore) -> Result<View> {
    let mut view = View::default();
    let page = match store.list(BUCKET, ListQuery { limit: 1000, ..ListQuery::default() }).await {
        Err(StoreError::NoSuchBucket(_)) => return Ok(view),
        page => page?,
    };
    for entry in page.entries {
        let Listed::Object(key, listed) = entry else { continue };
        let key = String::from_utf8_lossy(&key).into_owned();
        let object = store.open(BUCKET, &key).await?;
        let blocks: Vec<Bytes> = object
            .data
            .blocks(0..object.meta.size)
            .try_collect()
            .await
            .map_err(StoreError::io(format!("cannot read {key}")))?;
        assert_eq!(listed.etag, object.meta.etag, "{key} is listed as another version");
        let found = Found {
            stamp: object.meta.attributes.user.get("stamp").cloned(),
            etag: object.meta.etag,
            md5: md5(&blocks.concat()),
            files: object.meta.parts.len().max(1),
        };
        view.objects.insert(key, found);
    }
    for (key, id, upload) in store.uploads(BUCKET, UploadQuery { limit: 1000, ..UploadQuery::default() }).await?.uploads
    {
        let parts = store.parts(UploadKey { bucket: BUCKET.to_owned(), key: key.clone(), id }, 0, 1000).await?.0;
        let stamp = upload.attributes.user.get("stamp").cloned().unwrap_or_default();
        view.uploads.insert((key, stamp), parts.into_iter().map(|(number, part)| (number, part.etag)).collect());
    }
    Ok(view)
}

/// The expected state of the client's keys.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    objects: BTreeMap<String, Content>,
    uploads: BTreeMap<(String, Stamp), BTreeMap<u32, Stamp>>,
}

impl Model {
    pub fn view(&self) -> View {
        let etag = |stamp: &Stamp| hex(&md5(&bytes_of(*stamp)));
        View {
            objects: self.objects.iter().map(|(key, content)| (key.clone(), content.found())).collect(),
            uploads: self
                .uploads
                .iter()
                .map(|((key, stamp), parts)| {
                    let parts = parts.iter().map(|(number, part)| (*number, etag(part))).collect();
                    ((key.clone(), stamp.to_string()), parts)
                })
                .collect(),
        }
    }
}

/// An action of a client.
#[derive(Clone, Debug)]
pub(super) enum Action {
    Put { key: String, stamp: Stamp },
    Copy { from: String, to: String },
    Delete(Vec<String>),
    CreateUpload { key: String, stamp: Stamp },
    PutPart { upload: (String, Stamp), number: u32, stamp: Stamp },
    Complete((String, Stamp)),
    Abort((String, Stamp)),
}

impl Action {
    /// The state that this action leads to.
    pub fn on(&self, before: &Model) -> Model {
        let mut model = before.clone();
        match self {
            Self::Put { key, stamp } => drop(model.objects.insert(key.clone(), Content::put(*stamp))),
            Self::Copy { from, to } => {
                let content = model.objects[from].clone();
                model.objects.insert(to.clone(), content);
            }
            Self::Delete(keys) => keys.iter().for_each(|key| drop(model.objects.remove(key))),
            Self::CreateUpload { key, stamp } => {
                drop(model.uploads.insert((key.clone(), *stamp), BTreeMap::new()));
            }
            Self::PutPart { upload, number, stamp } => {
                model.uploads.entry(upload.clone()).or_default().insert(*number, *stamp);
            }
            Self::Complete(upload) => {
                let pieces = model.uploads.remove(upload).unwrap_or_default().into_values().collect();
                model.objects.insert(upload.0.clone(), Content { stamp: upload.1, pieces, multipart: true });
            }
            Self::Abort(upload) => drop(model.uploads.remove(upload)),
        }
        model
    }
}

/// A client with its own keys.
pub(super) struct Client {
    /// The prefix of its keys.
    prefix: String,
    random: StdRng,
    pub model: Model,
    ids: BTreeMap<(String, Stamp), String>,
}

impl Client {
    pub fn new(prefix: impl Into<String>, random: StdRng) -> Self {
        Self { prefix: prefix.into(), random, model: Model::default(), ids: BTreeMap::new() }
    }

    /// A random next action.
    pub fn choose(&mut self) -> Action {
        let random = &mut self.random;
        let mut any_key = || format!("{}{}", self.prefix, random.random_range(0..3));
        let (key, other) = (any_key(), any_key());
        let stamp = random.random();
        let upload = self.model.uploads.last_key_value();
        match (random.random_range(0..10), upload) {
            (0..3, _) => Action::Put { key, stamp },
            (3, _) => Action::Delete(vec![key, other]),
            (4, _) if self.model.objects.contains_key(&key) => Action::Copy { from: key, to: other },
            (5, None) => Action::CreateUpload { key, stamp },
            (6, Some((upload, parts))) if !parts.is_empty() => Action::Complete(upload.clone()),
            (7, Some((upload, _))) if random.random() => Action::Abort(upload.clone()),
            (_, Some((upload, _))) => {
                Action::PutPart { upload: upload.clone(), number: random.random_range(1..4), stamp }
            }
            _ => Action::Put { key, stamp },
        }
    }

    /// Performs an action on the store; the model is not changed.
    pub async fn act(&mut self, store: &LocalStore, action: &Action) -> Result<()> {
        match action {
            Action::Put { key, stamp } => {
                let options = PutOptions { attributes: attributes(*stamp), ..PutOptions::default() };
                store.put(BUCKET, key, stage(store, *stamp).await?, options, Grant::node()).await.map(drop)
            }
            Action::Copy { from, to } => {
                let request = CopyRequest {
                    from_bucket: BUCKET.to_owned(),
                    from_key: from.clone(),
                    from_etag: self.model.objects[from].etag(),
                    source: Grant::node(),
                    bucket: BUCKET.to_owned(),
                    key: to.clone(),
                    attributes: None,
                    tags: None,
                    condition: Condition::default(),
                };
                store.copy(request, Grant::node()).await.map(drop)
            }
            Action::Delete(keys) => {
                let keys = keys.iter().map(|key| (key.clone(), Condition::default())).collect();
                store.delete(BUCKET, keys, Grant::node()).await?.into_iter().collect()
            }
            Action::CreateUpload { key, stamp } => {
                let upload = UploadRecord {
                    attributes: attributes(*stamp),
                    started_ms: crate::store::now_ms(),
                    ..UploadRecord::default()
                };
                let id = store.create_upload(BUCKET, key, upload, Grant::node()).await?;
                self.ids.insert((key.clone(), *stamp), id);
                Ok(())
            }
            Action::PutPart { upload, number, stamp } => {
                let staged = stage(store, *stamp).await?;
                store.put_part(self.upload(upload), *number, staged, Grant::node()).await.map(drop)
            }
            Action::Complete(upload) => {
                let parts = self.model.uploads[upload].keys();
                let parts = parts.map(|number| PartRef { number: *number, etag: None, checksum: None }).collect();
                let completion = Completion { parts, condition: Condition::default(), checksum: None, size: None };
                store.complete(self.upload(upload), completion, Grant::node()).await.map(drop)
            }
            Action::Abort(upload) => store.abort(self.upload(upload), Grant::node()).await,
        }
    }

    fn upload(&self, upload: &(String, Stamp)) -> UploadKey {
        UploadKey { bucket: BUCKET.to_owned(), key: upload.0.clone(), id: self.ids[upload].clone() }
    }
}

fn attributes(stamp: Stamp) -> Attributes {
    Attributes { user: [("stamp".to_owned(), stamp.to_string())].into(), ..Attributes::default() }
}

async fn stage(store: &LocalStore, stamp: Stamp) -> Result<Staged> {
    let chunks: Vec<Result<Bytes>> =
        bytes_of(stamp).chunks(700).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
    store.stage(stream::iter(chunks).boxed(), None).await
}
