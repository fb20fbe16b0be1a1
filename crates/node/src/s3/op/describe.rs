//! GetObjectAttributes.

use s3s::dto::{Checksum as ChecksumForm, *};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use super::handler::S3Handler;
use crate::s3::body::checksums::{kind, put_checksum};
use crate::s3::convert::attributes::{no_version, refuse, timestamp};
use crate::s3::http::document::document;
use crate::store::{Checksum, ObjectMeta};

pub(crate) async fn get_object_attributes(
    handler: &S3Handler,
    req: S3Request<GetObjectAttributesInput>,
) -> S3Result<S3Response<GetObjectAttributesOutput>> {
    let input = req.input;
    refuse(&[
        ("sse-customer-algorithm", input.sse_customer_algorithm.is_some()),
        ("sse-customer-key", input.sse_customer_key.is_some()),
    ])?;
    no_version(input.version_id.as_deref())?;
    // The names may be in one header or in several.
    let names = input.object_attributes.iter().flat_map(|names| names.as_str().split(','));
    let names: Vec<String> = names.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
    let known = [
        ObjectAttributes::ETAG,
        ObjectAttributes::CHECKSUM,
        ObjectAttributes::OBJECT_PARTS,
        ObjectAttributes::STORAGE_CLASS,
        ObjectAttributes::OBJECT_SIZE,
    ];
    if names.is_empty() || names.iter().any(|name| !known.contains(&name.as_str())) {
        return Err(s3_error!(InvalidArgument, "Invalid attribute name specified."));
    }
    let asked = |name: &str| names.iter().any(|asked| asked == name);
    let meta = handler.store.head(&input.bucket, &input.key).await?;
    let parts = if asked(ObjectAttributes::OBJECT_PARTS) {
        parts(&meta, handler.limits.page_entries, input.max_parts, input.part_number_marker)?
    } else {
        None
    };
    let checksum = meta.checksum.as_ref().filter(|_| asked(ObjectAttributes::CHECKSUM)).map(|checksum| {
        let mut form = ChecksumForm::default();
        // Removes the number of parts, which has an element of its own.
        let bare = checksum.value.split('-').next().unwrap_or_default().to_owned();
        put_checksum(&mut form, Some(&Checksum { value: bare, algorithm: checksum.algorithm }));
        form.checksum_type = Some(kind(checksum));
        form
    });
    let document = document("GetObjectAttributesResponse", |xml| {
        if let Some(checksum) = &checksum {
            xml.content("Checksum", checksum)?;
        }
        // Writes this ETag without quotes, unlike all others; s3s would add them.
        if asked(ObjectAttributes::ETAG) {
            xml.content("ETag", meta.etag.as_str())?;
        }
        if let Some(parts) = &parts {
            xml.content("ObjectParts", parts)?;
        }
        if asked(ObjectAttributes::OBJECT_SIZE) {
            xml.content("ObjectSize", &i64::try_from(meta.size).unwrap_or(i64::MAX))?;
        }
        if asked(ObjectAttributes::STORAGE_CLASS) {
            xml.content("StorageClass", StorageClass::STANDARD)?;
        }
        Ok(())
    })?;
    let last_modified = Some(timestamp(meta.modified_ms));
    let mut response = S3Response::new(GetObjectAttributesOutput { last_modified, ..Default::default() });
    response.extensions.insert(document);
    Ok(response)
}

/// A page of the parts of an object; `None` for an object from a single PUT.
fn parts(
    meta: &ObjectMeta,
    most: usize,
    limit: Option<i32>,
    after: Option<i32>,
) -> S3Result<Option<GetObjectAttributesParts>> {
    let negative = |_| s3_error!(InvalidArgument, "max-parts and part-number-marker must not be negative");
    let limit = limit.map_or(Ok(most), usize::try_from).map_err(negative)?.min(most);
    let after = after.map_or(Ok(0), u32::try_from).map_err(negative)?;
    if meta.parts.is_empty() {
        return Ok(None);
    }
    let number_of = |place: usize, number: u32| if number == 0 { place as u32 + 1 } else { number };
    let numbered = meta.parts.iter().enumerate().map(|(place, part)| (number_of(place, part.number), part));
    let mut rest: Vec<_> = numbered.filter(|(number, _)| *number > after).collect();
    let more = rest.len() > limit;
    rest.truncate(limit);
    let last = rest.last().map_or(after, |(number, _)| *number);
    let listed = rest.into_iter().map(|(number, part)| {
        let mut form = ObjectPart {
            part_number: i32::try_from(number).ok(),
            size: i64::try_from(part.size).ok(),
            ..ObjectPart::default()
        };
        let checksum = meta.checksum.as_ref().zip(part.checksum.clone());
        let checksum = checksum.map(|(whole, value)| Checksum { algorithm: whole.algorithm, value });
        put_checksum(&mut form, checksum.as_ref());
        form
    });
    Ok(Some(GetObjectAttributesParts {
        parts: Some(listed.collect()),
        is_truncated: Some(more),
        max_parts: i32::try_from(limit).ok(),
        part_number_marker: i32::try_from(after).ok(),
        next_part_number_marker: i32::try_from(last).ok(),
        total_parts_count: i32::try_from(meta.parts.len()).ok(),
    }))
}
