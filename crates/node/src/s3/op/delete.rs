//! DeleteObject and DeleteObjects.

use s3s::dto::*;
use s3s::{S3Error, S3Request, S3Result, s3_error};

use super::handler::S3Handler;
use super::request::grant_of;
use crate::s3::convert::attributes::{epoch_seconds, no_version, refuse};
use crate::s3::convert::conditions::write_condition;
use crate::store::{Condition, Match};

pub(crate) async fn delete_object(
    handler: &S3Handler,
    req: S3Request<DeleteObjectInput>,
) -> S3Result<DeleteObjectOutput> {
    let grant = grant_of(&req)?;
    let input = req.input;
    refuse(&[("mfa", input.mfa.is_some())])?;
    no_version(input.version_id.as_deref())?;
    let condition = Condition {
        modified_s: input.if_match_last_modified_time.map(seconds),
        size: input.if_match_size.map(|size| u64::try_from(size).unwrap_or(u64::MAX)),
        ..write_condition(input.if_match, None)
    };
    for answer in handler.store.delete(&input.bucket, vec![(input.key, condition)], grant).await? {
        answer?;
    }
    Ok(DeleteObjectOutput::default())
}

/// Converts to seconds since 1970. Times before 1970 become `u64::MAX`, which matches no object.
fn seconds(time: Timestamp) -> u64 {
    epoch_seconds(&time).and_then(|seconds| seconds.try_into().ok()).unwrap_or(u64::MAX)
}

pub(crate) async fn delete_objects(
    handler: &S3Handler,
    req: S3Request<DeleteObjectsInput>,
) -> S3Result<DeleteObjectsOutput> {
    let grant = grant_of(&req)?;
    let input = req.input;
    refuse(&[("mfa", input.mfa.is_some())])?;
    let (most, count) = (handler.limits.delete_keys, input.delete.objects.len());
    if count == 0 || count > most {
        return Err(s3_error!(MalformedXML, "between 1 and {} keys are deleted at once, not {}", most, count));
    }
    let mut keys = Vec::with_capacity(count);
    let (mut deleted, mut errors) = (Vec::new(), Vec::new());
    for object in input.delete.objects {
        if object.key.is_empty() {
            return Err(s3_error!(UserKeyMustBeSpecified, "an object to delete has no key"));
        }
        if let Err(error) = no_version(object.version_id.as_deref()) {
            errors.push(failure(object.key, object.version_id, &error));
            continue;
        }
        let condition = Condition {
            if_match: object.e_tag.map(|etag| match etag.into_value() {
                any if any == "*" => Match::Any,
                etag => Match::Etag(etag),
            }),
            modified_s: object.last_modified_time.map(seconds),
            size: object.size.map(|size| u64::try_from(size).unwrap_or(u64::MAX)),
            ..Condition::default()
        };
        keys.push((object.key, condition));
    }
    let names: Vec<String> = keys.iter().map(|(key, _)| key.clone()).collect();
    let answers = handler.store.delete(&input.bucket, keys, grant).await?;
    for (key, answer) in names.into_iter().zip(answers) {
        match answer.map_err(S3Error::from) {
            Ok(()) => deleted.push(DeletedObject { key: Some(key), ..DeletedObject::default() }),
            Err(error) => errors.push(failure(key, None, &error)),
        }
    }
    // In quiet mode only failures are listed.
    let deleted = (input.delete.quiet != Some(true)).then_some(deleted);
    Ok(DeleteObjectsOutput { deleted, errors: Some(errors), request_charged: None })
}

fn failure(key: String, version_id: Option<String>, error: &S3Error) -> Error {
    Error {
        key: Some(key),
        code: Some(error.code().as_str().to_owned()),
        message: error.message().map(str::to_owned),
        version_id,
    }
}
