//! Conditional requests (RFC 9110, section 13).

use http::header::{ETAG, LAST_MODIFIED};
use http::{HeaderMap, HeaderValue};
use s3s::dto::{ETagCondition, Timestamp, TimestampFormat};
use s3s::{S3Error, S3ErrorCode, S3Result, s3_error};

use crate::s3::convert::attributes::modified_seconds;
use crate::store::{Condition, Match, ObjectMeta};

/// The conditions of a read.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    pub if_match: Option<ETagCondition>,
    pub if_none_match: Option<ETagCondition>,
    pub if_modified_since: Option<Timestamp>,
    pub if_unmodified_since: Option<Timestamp>,
}

impl Conditions {
    /// Checks the conditions in the order of RFC 9110: an ETag overrides the time beside it.
    pub fn check(&self, meta: &ObjectMeta) -> S3Result<()> {
        let modified = modified_seconds(meta);
        match (&self.if_match, &self.if_unmodified_since) {
            (Some(wanted), _) if !matches(wanted, meta) => return Err(failed("If-Match")),
            (None, Some(since)) if modified > *since => return Err(failed("If-Unmodified-Since")),
            _ => {}
        }
        match (&self.if_none_match, &self.if_modified_since) {
            (Some(known), _) if matches(known, meta) => Err(not_modified(meta)),
            (None, Some(since)) if modified <= *since => Err(not_modified(meta)),
            _ => Ok(()),
        }
    }

    /// Like [`Self::check`], but for the source of a copy: every condition that does not hold is a
    /// failure (412).
    pub fn check_source(&self, meta: &ObjectMeta) -> S3Result<()> {
        self.check(meta).map_err(|error| match error.code() {
            S3ErrorCode::NotModified => failed("x-amz-copy-source-if-none-match or -if-modified-since"),
            _ => error,
        })
    }
}

/// Whether `state`, the ETag or time of an If-Range header, is that of the current object (RFC
/// 9110, section 13.1.5). Only then does the range continue what the client already has.
pub(crate) fn is_state(state: &HeaderValue, meta: &ObjectMeta) -> bool {
    let Ok(state) = state.to_str() else { return false };
    match state.strip_prefix('"').and_then(|etag| etag.strip_suffix('"')) {
        Some(etag) => etag == meta.etag,
        None => Timestamp::parse(TimestampFormat::HttpDate, state).is_ok_and(|time| time == modified_seconds(meta)),
    }
}

fn matches(condition: &ETagCondition, meta: &ObjectMeta) -> bool {
    condition.as_etag().is_none_or(|etag| etag.value() == meta.etag)
}

fn failed(header: &str) -> S3Error {
    s3_error!(PreconditionFailed, "the condition {} does not hold", header)
}

/// Status 304, with the headers that a cache needs.
fn not_modified(meta: &ObjectMeta) -> S3Error {
    let mut error = S3Error::new(S3ErrorCode::NotModified);
    let mut headers = HeaderMap::new();
    if let Ok(etag) = HeaderValue::from_str(&format!("\"{}\"", meta.etag)) {
        headers.insert(ETAG, etag);
    }
    let mut modified = Vec::new();
    if modified_seconds(meta).format(TimestampFormat::HttpDate, &mut modified).is_ok()
        && let Ok(modified) = HeaderValue::from_bytes(&modified)
    {
        headers.insert(LAST_MODIFIED, modified);
    }
    error.set_headers(headers);
    error
}

/// Converts the conditional headers of a write.
pub(crate) fn write_condition(if_match: Option<ETagCondition>, if_none_match: Option<ETagCondition>) -> Condition {
    let read = |condition| match condition {
        ETagCondition::Any => Match::Any,
        ETagCondition::ETag(etag) => Match::Etag(etag.into_value()),
    };
    Condition { if_match: if_match.map(read), if_none_match: if_none_match.map(read), ..Condition::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etags_override_times() {
        let meta = ObjectMeta { etag: "a".into(), modified_ms: 10_500, ..ObjectMeta::default() };
        let at = |seconds: u64| Some(Timestamp::from(crate::store::system_time(seconds * 1000)));
        let tag = |text: &str| Some(text.parse::<ETagCondition>().unwrap());
        let code = |conditions: Conditions| conditions.check(&meta).err().map(|error| error.code().clone());
        assert_eq!(code(Conditions::default()), None);
        assert_eq!(
            code(Conditions { if_match: tag("\"b\""), ..Default::default() }),
            Some(S3ErrorCode::PreconditionFailed)
        );
        assert_eq!(code(Conditions { if_match: tag("*"), if_unmodified_since: at(1), ..Default::default() }), None);
        assert_eq!(
            code(Conditions { if_none_match: tag("\"a\""), ..Default::default() }),
            Some(S3ErrorCode::NotModified)
        );
        assert_eq!(
            code(Conditions { if_none_match: tag("\"b\""), if_modified_since: at(99), ..Default::default() }),
            None
        );
        assert_eq!(
            code(Conditions { if_modified_since: at(10), ..Default::default() }),
            Some(S3ErrorCode::NotModified)
        );
        assert_eq!(code(Conditions { if_modified_since: at(9), ..Default::default() }), None);
        assert_eq!(code(Conditions { if_unmodified_since: at(10), ..Default::default() }), None);
    }
}
