//! DeleteObject and DeleteObjects.

use s3s::dto::*;
use s3s::{S3Error, S3Request, S3Result, s3_error};

use crate::s3::attributes::{no_version, refuse};
use crate::s3::conditions::write_condition;
use crate::s3::{Edge, grant_of};
use crate::store::{Condition, Match};

pub(in crate::s3) async fn delete_object(
    edge: &Edge,
    req: S3Request<DeleteObjectInput>,
) -> S3Result<DeleteObjectOutput> {
    let grant = grant_of(&req)?;
    let input = req.input;
    refuse!(input, mfa);
    no_version(input.version_id.as_deref())?;
    let condition = Condition {
        modified_s: input.if_match_last_modified_time.map(seconds),
        size: input.if_match_size.map(|size| u64::try_from(size).unwrap_or(u64::MAX)),
        ..write_condition(input.if_match, None)
    };
    for answer in edge.store.delete(&input.bucket, vec![(input.key, condition)], grant).await? {
        answer?;
    }
    Ok(DeleteObjectOutput::default())
}

/// A time before 1970 is no object's.
fn seconds(time: Timestamp) -> u64 {
    let mut text = Vec::new();
    let written =
        time.format(TimestampFormat::EpochSeconds, &mut text).ok().and_then(|()| String::from_utf8(text).ok());
    let whole = written.as_deref().and_then(|text| text.split('.').next()?.parse().ok());
    whole.unwrap_or(u64::MAX)
}

pub(in crate::s3) async fn delete_objects(
    edge: &Edge,
    req: S3Request<DeleteObjectsInput>,
) -> S3Result<DeleteObjectsOutput> {
    let grant = grant_of(&req)?;
    let input = req.input;
    refuse!(input, mfa);
    let (most, count) = (edge.limits.delete_keys, input.delete.objects.len());
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
    let answers = edge.store.delete(&input.bucket, keys, grant).await?;
    for (key, answer) in names.into_iter().zip(answers) {
        match answer.map_err(S3Error::from) {
            Ok(()) => deleted.push(DeletedObject { key: Some(key), ..DeletedObject::default() }),
            Err(error) => errors.push(failure(key, None, &error)),
        }
    }
    // A quiet client wants to hear of failures only.
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
