//! The state that operations work on.

use std::fmt;
use std::sync::Arc;

use s3s::S3Result;

use crate::Limits;
use crate::admission::NodeMemory;
use crate::admission::WorkPermits;
use crate::keys::{ActiveKeys, Right};
use crate::s3::auth::grant::authorize;
use crate::s3::auth::signer::Signer;
use crate::scans::ScanScheduler;
use crate::store::{Grant, Object, Store};
use crate::telemetry::LiveCounters;

/// Carries out the operations of S3.
#[derive(Clone)]
pub(crate) struct S3Handler {
    pub store: Arc<dyn Store>,
    pub limits: Limits,
    pub region: String,
    pub keys: ActiveKeys,
    /// Permits for copies that read their bytes.
    pub copies: WorkPermits,
    pub counting: Arc<LiveCounters>,
    /// Runs S3 Select and fragment requests.
    pub scans: Arc<ScanScheduler>,
    /// The budgets that requests reserve memory from.
    pub memory: Arc<NodeMemory>,
}

impl fmt::Debug for S3Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Handler").field("store", &self.store).finish_non_exhaustive()
    }
}

impl S3Handler {
    /// Authorizes `signer` to read `bucket`, which need not be the one the request is addressed to.
    pub async fn authorize_read(&self, signer: Option<&Signer>, bucket: &str) -> S3Result<Grant> {
        let asked = (Right::Read, bucket);
        let given = authorize(&self.keys, &*self.store, &self.limits, signer, asked, false).await?;
        Ok(given.grant)
    }

    /// Opens an object of the bucket that `grant` is for.
    pub async fn open(&self, grant: &Grant, bucket: &str, key: &str) -> S3Result<Object> {
        let object = self.store.open(bucket, key).await?;
        // Confirmed after the object was opened, so that the object is in the bucket that was
        // authorized.
        grant.confirm(&*self.store, bucket).await?;
        Ok(object)
    }
}
