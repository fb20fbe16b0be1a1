//! The members of several stores: which of them hold an object, which are healthy, and in which
//! order replicas are tried.

use std::sync::Arc;

use futures::future::join_all;
use object_store::path::Path;
use pushdowndb_contract::{Error, Profile, Result};
use pushdowndb_scan::ObjectReader;

use super::backend::{Backend, Kind};
use super::fleet::look_at;
use super::http::Meters;
use super::node::Node;
use super::reads::replicated::{Replica, ReplicatedReader};
use crate::catalog::{DataObject, stores};
use crate::settings::PushdownOptions;

impl Backend {
    /// The number of stores.
    pub(crate) fn stores(&self) -> usize {
        if let Kind::Several(members) = &self.kind { members.len() } else { 1 }
    }

    /// The number of the store that is the home of an object.
    pub(crate) fn number_of(&self, object: &DataObject) -> usize {
        match &self.kind {
            Kind::Several(_) => stores::number_and_key(&object.path).map_or(0, |(number, _)| number),
            _ => 0,
        }
    }

    /// The key of an object in its own store.
    pub(crate) fn key_of(&self, path: &Path) -> Path {
        self.member_of(path).map_or_else(|| path.clone(), |(_, key)| key)
    }

    /// Returns the store of an object and its key there; `None` if this is a single store.
    pub(crate) fn member_of(&self, path: &Path) -> Option<(&Arc<Backend>, Path)> {
        let Kind::Several(members) = &self.kind else { return None };
        let (number, key) = stores::number_and_key(path)?;
        Some((members.get(number)?, key))
    }

    /// Returns store number `number`; a single store returns itself.
    pub(crate) fn store_number(&self, number: usize) -> Option<&Backend> {
        match &self.kind {
            Kind::Several(members) => members.get(number).map(Arc::as_ref),
            _ => Some(self),
        }
    }

    /// Whether the store of an object runs fragments; `declared` as for [`Self::capability`].
    pub(crate) fn runs_fragments(&self, object: &DataObject, declared: Option<Profile>) -> bool {
        self.member_of(&object.path).is_none_or(|(home, _)| home.capability(declared).fragment.is_some())
    }

    /// Returns the node that records the failures of this bucket; `None` for other kinds of stores.
    pub(super) fn node(&self) -> Option<&Arc<Node>> {
        if let Kind::S3(s3) = &self.kind { Some(&s3.node) } else { None }
    }

    /// Whether the store has answered since its last failure, or never failed.
    pub(super) fn is_well(&self) -> bool {
        self.node().is_none_or(|node| node.is_well())
    }

    /// Returns the stores that hold an object, healthy ones first, each with the object as it is
    /// there.
    pub(super) fn holders(&self, object: &DataObject) -> Vec<(&Arc<Backend>, DataObject)> {
        let Kind::Several(members) = &self.kind else { return vec![] };
        let numbers = std::iter::once(self.number_of(object)).chain(object.replicas.iter().copied());
        let key = self.key_of(&object.path);
        let own = DataObject { path: key, replicas: vec![], ..object.clone() };
        let mut all: Vec<_> = numbers.filter_map(|number| Some((members.get(number)?, own.clone()))).collect();
        all.sort_by_key(|(member, _)| !member.is_well());
        all
    }

    /// Returns the path of an object in a healthy store; its own path if no store that holds it is
    /// healthy.
    pub(crate) fn path_in_well(&self, object: &DataObject) -> Path {
        let Kind::Several(members) = &self.kind else { return object.path.clone() };
        let is_well = |number: &usize| members.get(*number).is_some_and(|member| member.is_well());
        let mut numbers = std::iter::once(self.number_of(object)).chain(object.replicas.iter().copied());
        let moved = numbers.find(is_well).and_then(|number| object.in_store(number));
        moved.map_or_else(|| object.path.clone(), |moved| moved.path)
    }

    /// Sends one HEAD request to each store that has not answered yet, to learn its capability.
    /// Stores that failed are asked again in the background, once their pause is over.
    pub(crate) async fn greet(&self, meters: &Meters, options: &PushdownOptions) {
        let Kind::Several(members) = &self.kind else { return };
        let mut first = Vec::new();
        for member in members {
            let (Some(node), Some(poster)) = (member.node(), member.poster(meters, options)) else { continue };
            if member.state().is_some_and(|state| state.profile().is_none()) && node.is_well() {
                first.push(look_at(Arc::clone(node), poster));
            } else if node.is_due() {
                tokio::spawn(look_at(Arc::clone(node), poster));
            }
        }
        join_all(first).await;
    }

    /// Opens an object for plain reads from any of the stores that hold it.
    pub(super) fn member_reader(
        &self,
        object: &DataObject,
        meters: &Meters,
        options: &PushdownOptions,
    ) -> Result<Arc<dyn ObjectReader>> {
        let mut holders = self.holders(object);
        let Some((last, own)) = holders.pop() else {
            return Err(Error::internal(format!("'{}' is in no store of its table", object.path)));
        };
        let last_reader = last.reader(&own, meters, options)?;
        if holders.is_empty() {
            return Ok(last_reader);
        }
        // Other stores hold the object, too, so a store that fails gets a single retry.
        let impatient = PushdownOptions { retries: 1, ..options.clone() };
        let open = |(member, own): (&Arc<Backend>, DataObject)| {
            Ok(Replica { reader: member.reader(&own, meters, &impatient)?, node: member.node().cloned() })
        };
        let mut replicas = holders.into_iter().map(open).collect::<Result<Vec<_>>>()?;
        replicas.push(Replica { reader: last_reader, node: last.node().cloned() });
        Ok(Arc::new(ReplicatedReader::new(replicas)))
    }
}
