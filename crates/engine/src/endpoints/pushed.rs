//! The clients through which work is pushed to a store, or to the nodes in front of it.

use std::sync::Arc;

use pushdowndb_contract::{Error, Result};

use super::backend::{Backend, Kind};
use super::fleet::{Fleet, Posters};
use super::fragment_client::FragmentClient;
use super::http::Meters;
use super::node::Node;
use super::post::Poster;
use super::select_client::SelectClient;
use crate::catalog::{DataObject, stores};
use crate::settings::PushdownOptions;

impl Backend {
    /// Returns the fleet of the nodes in front of this store, once each has shown its capability;
    /// `None` if no node answered, or if the store is no bucket of the session's endpoint.
    pub(crate) async fn fleet(
        &self,
        nodes: Vec<Arc<Node>>,
        meters: &Meters,
        options: &PushdownOptions,
    ) -> Option<Arc<Fleet>> {
        if nodes.is_empty() || stores::endpoint(self.url()).is_some() {
            return None;
        }
        let poster = self.poster(meters, options)?;
        let fleet = Fleet::new(nodes);
        fleet.look(&poster, meters).await;
        fleet.capability().map(|_| Arc::new(fleet))
    }

    /// Returns a client for S3 Select at the store of `object`, or at the nodes in front of it.
    pub(crate) fn select_client(
        &self,
        object: &DataObject,
        fleet: Option<&Arc<Fleet>>,
        meters: &Meters,
        options: &PushdownOptions,
    ) -> Result<SelectClient> {
        self.posters(object, fleet, meters, options).map(SelectClient)
    }

    /// Returns a client for the fragment route at the store of `object` and its replicas, or at the
    /// nodes in front of it.
    pub(crate) fn fragment_client(
        &self,
        object: &DataObject,
        fleet: Option<&Arc<Fleet>>,
        meters: &Meters,
        options: &PushdownOptions,
    ) -> Result<FragmentClient> {
        self.posters(object, fleet, meters, options).map(FragmentClient)
    }

    fn posters(
        &self,
        object: &DataObject,
        fleet: Option<&Arc<Fleet>>,
        meters: &Meters,
        options: &PushdownOptions,
    ) -> Result<Posters> {
        let nothing = || Error::unsupported(format!("nothing can be pushed to {}", self.name()));
        if !matches!(self.kind, Kind::Several(_)) {
            let own = self.poster(meters, options).ok_or_else(nothing)?;
            return Ok(Posters { own, fleet: fleet.cloned(), replicas: vec![], meters: meters.clone() });
        }
        let holders = self.holders(object);
        let is_one = holders.len() == 1;
        let mut posters = holders.iter().filter_map(|(member, _)| {
            let poster = member.poster(meters, options)?;
            Some(if is_one { poster } else { poster.replicated(member.node()?) })
        });
        let own = posters.next().ok_or_else(nothing)?;
        Ok(Posters { own, fleet: None, replicas: posters.collect(), meters: meters.clone() })
    }

    pub(super) fn poster(&self, meters: &Meters, options: &PushdownOptions) -> Option<Poster> {
        let Kind::S3(s3) = &self.kind else { return None };
        Some(Poster {
            http: s3.connections.metered(meters.clone()).client(),
            state: Arc::clone(s3.connections.state()),
            access: self.access.clone(),
            bucket: s3.bucket.clone(),
            bucket_url: s3.bucket_url.clone(),
            region: s3.region.clone(),
            credentials: s3.signer.clone(),
            requester_pays: s3.requester_pays,
            idle_timeout: options.idle_timeout(),
            node: None,
        })
    }
}
