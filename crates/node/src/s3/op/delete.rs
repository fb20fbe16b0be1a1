//! DeleteObject and DeleteObjects.

use s3s::dto::*;
use s3s::{S3Error, S3Request, S3Result, s3_error};

use super::read::no_version;
use crate::s3::Edge;
use crate::s3::attributes::refuse;
use crate::s3::conditions::write_condition;
use crate::store::Condition;

pub(in crate::s3) async fn delete_object(
    edge: &Edge,
    req: S3Request<DeleteObjectInput>,
) -> S3Result<DeleteObjectOutput> {
    let input = req.input;
    refuse!(input, if_match_last_modified_time, if_match_size, mfa);
    no_version(input.version_id.as_deref())?;
    let condition = write_condition(input.if_match, None)?;
    for answer in edge.store.delete(&input.bucket, vec![(input.key, condition)]).await? {
        answer?;
    }
    Ok(DeleteObjectOutput::default())
}

pub(in crate::s3) async fn delete_objects(
    edge: &Edge,
    req: S3Request<DeleteObjectsInput>,
) -> S3Result<DeleteObjectsOutput> {
    let input = req.input;
    refuse!(input, mfa);
    let (most, count) = (edge.limits.delete_keys, input.delete.objects.len());
    if count == 0 || count > most {
        return Err(s3_error!(MalformedXML, "between 1 and {} keys are deleted at once, not {}", most, count));
    }
    let mut keys = Vec::with_capacity(count);
    for object in input.delete.objects {
        no_version(object.version_id.as_deref())?;
        refuse!(object, last_modified_time, size);
        keys.push((object.key, object.e_tag.map_or(Condition::Always, |etag| Condition::Etag(etag.into_value()))));
    }
    let names: Vec<String> = keys.iter().map(|(key, _)| key.clone()).collect();
    let answers = edge.store.delete(&input.bucket, keys).await?;
    let (mut deleted, mut errors) = (Vec::new(), Vec::new());
    for (key, answer) in names.into_iter().zip(answers) {
        match answer.map_err(S3Error::from) {
            Ok(()) => deleted.push(DeletedObject { key: Some(key), ..DeletedObject::default() }),
            Err(error) => errors.push(Error {
                key: Some(key),
                code: Some(error.code().as_str().to_owned()),
                message: error.message().map(str::to_owned),
                version_id: None,
            }),
        }
    }
    // A quiet client wants to hear of failures only.
    let deleted = (input.delete.quiet != Some(true)).then_some(deleted);
    Ok(DeleteObjectsOutput { deleted, errors: Some(errors), request_charged: None })
}
