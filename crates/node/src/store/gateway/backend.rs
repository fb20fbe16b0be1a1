//! What a gateway serves: one bucket, in a folder or on another server.

use std::fmt;

use async_trait::async_trait;

use crate::store::{BucketMeta, Condition, ListPage, ListQuery, Object, PutOptions, Result};

/// The one bucket behind a gateway.
#[async_trait]
pub(super) trait Backend: fmt::Debug + Send + Sync + 'static {
    /// The bucket name that clients see.
    fn name(&self) -> &str;
    /// Whether it is on another server.
    fn is_remote(&self) -> bool;
    async fn bucket(&self) -> Result<BucketMeta>;
    async fn open(&self, key: &str) -> Result<Object>;
    async fn list(&self, query: ListQuery) -> Result<ListPage>;
    /// Checks that an object of this key can be written.
    fn check_writable(&self, key: &str) -> Result<()>;
    /// Stores an object and makes it visible atomically. Returns its ETag in the backend.
    async fn send(&self, key: &str, object: Object, options: &PutOptions) -> Result<String>;
    /// Removes a key; a missing one is no error.
    async fn delete(&self, key: String, condition: Condition) -> Result<()>;
}

/// Derives a bucket name from that of a folder or host: lower case, digits and dashes, 3 to 63
/// characters.
pub(super) fn bucket_name(name: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    let name: String = name.to_lowercase().chars().map(fit).take(63).collect();
    if s3s::path::check_bucket_name(&name) {
        return name;
    }
    let name = name.replace('.', "-");
    let name = name.trim_matches('-');
    if name.len() < 3 || name.starts_with("xn--") {
        format!("folder-{name}").trim_end_matches('-').to_owned()
    } else {
        name.to_owned()
    }
}
