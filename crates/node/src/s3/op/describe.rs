//! GetObjectAttributes.

use s3s::dto::{Checksum as ChecksumForm, *};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::s3::Edge;
use crate::s3::attributes::{etag, no_version, refuse, timestamp};
use crate::s3::checksums::{kind, put_checksum};
use crate::store::{Checksum, ObjectMeta};

pub(in crate::s3) async fn get_object_attributes(
    edge: &Edge,
    req: S3Request<GetObjectAttributesInput>,
) -> S3Result<S3Response<GetObjectAttributesOutput>> {
    let input = req.input;
    refuse!(input, sse_customer_algorithm, sse_customer_key);
    no_version(input.version_id.as_deref())?;
    // Clients send the names in one header or in several.
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
    let meta = edge.store.head(&input.bucket, &input.key).await?;
    let parts = if asked(ObjectAttributes::OBJECT_PARTS) {
        parts(&meta, edge.limits.page_entries, input.max_parts, input.part_number_marker)?
    } else {
        None
    };
    let checksum = meta.checksum.as_ref().filter(|_| asked(ObjectAttributes::CHECKSUM)).map(|checksum| {
        let mut form = ChecksumForm::default();
        // The number of parts is told beside it.
        let bare = checksum.value.split('-').next().unwrap_or_default().to_owned();
        let bare = Some(Checksum { value: bare, algorithm: checksum.algorithm });
        put_checksum!(form, &bare);
        form.checksum_type = Some(kind(checksum));
        form
    });
    Ok(S3Response::new(GetObjectAttributesOutput {
        e_tag: asked(ObjectAttributes::ETAG).then(|| etag(&meta.etag)),
        checksum,
        object_parts: parts,
        object_size: i64::try_from(meta.size).ok().filter(|_| asked(ObjectAttributes::OBJECT_SIZE)),
        storage_class: asked(ObjectAttributes::STORAGE_CLASS)
            .then(|| StorageClass::from_static(StorageClass::STANDARD)),
        last_modified: Some(timestamp(meta.modified_ms)),
        ..GetObjectAttributesOutput::default()
    }))
}

/// A page of the parts; none for an object of one PUT.
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
        put_checksum!(form, &checksum);
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
