//! Checksums in requests and answers.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::HeaderMap;
use s3s::dto::{self, ChecksumType};
use s3s::{S3Result, s3_error};

use crate::store::{Algorithm, Checksum};

/// Every algorithm and the header that carries its values.
pub(crate) const HEADERS: [(Algorithm, &str); 5] = [
    (Algorithm::Crc32, "x-amz-checksum-crc32"),
    (Algorithm::Crc32c, "x-amz-checksum-crc32c"),
    (Algorithm::Crc64nvme, "x-amz-checksum-crc64nvme"),
    (Algorithm::Sha1, "x-amz-checksum-sha1"),
    (Algorithm::Sha256, "x-amz-checksum-sha256"),
];

/// The checksum fields that inputs and outputs of operations share, in the order of [`HEADERS`].
pub(crate) trait ChecksumFields {
    fn checksums(&mut self) -> [&mut Option<String>; 5];
}

/// [`ChecksumFields`] that also have the type of the checksum.
pub(crate) trait TypedChecksumFields: ChecksumFields {
    fn checksum_type(&mut self) -> &mut Option<ChecksumType>;
}

macro_rules! checksum_fields {
    ($($shape:ty),*; typed: $($typed:ty),*) => {
        $(impl ChecksumFields for $shape {
            fn checksums(&mut self) -> [&mut Option<String>; 5] {
                [
                    &mut self.checksum_crc32,
                    &mut self.checksum_crc32c,
                    &mut self.checksum_crc64nvme,
                    &mut self.checksum_sha1,
                    &mut self.checksum_sha256,
                ]
            }
        })*
        $(impl TypedChecksumFields for $typed {
            fn checksum_type(&mut self) -> &mut Option<ChecksumType> {
                &mut self.checksum_type
            }
        })*
    };
}
checksum_fields! {
    dto::PutObjectInput, dto::UploadPartInput, dto::CompleteMultipartUploadInput, dto::CompletedPart,
    dto::PutObjectOutput, dto::GetObjectOutput, dto::HeadObjectOutput, dto::CopyObjectResult,
    dto::CompleteMultipartUploadOutput, dto::Checksum, dto::UploadPartOutput, dto::CopyPartResult, dto::Part,
    dto::ObjectPart;
    typed: dto::PutObjectOutput, dto::GetObjectOutput, dto::HeadObjectOutput, dto::CopyObjectResult,
    dto::CompleteMultipartUploadOutput, dto::Checksum
}

/// Fills the field of `output` for this `checksum`.
pub(crate) fn put_checksum(output: &mut impl ChecksumFields, checksum: Option<&Checksum>) {
    let Some(checksum) = checksum else { return };
    for ((algorithm, _), field) in HEADERS.into_iter().zip(output.checksums()) {
        if algorithm == checksum.algorithm {
            *field = Some(checksum.value.clone());
        }
    }
}

/// Like [`put_checksum`], but also sets the type of the checksum.
pub(crate) fn put_typed_checksum(output: &mut impl TypedChecksumFields, checksum: Option<&Checksum>) {
    *output.checksum_type() = checksum.map(kind);
    put_checksum(output, checksum);
}

/// Takes the checksum out of `input`. More than one is an error.
pub(crate) fn take_checksum(input: &mut impl ChecksumFields) -> S3Result<Option<Checksum>> {
    let fields = HEADERS.into_iter().zip(input.checksums());
    let mut given = fields.filter_map(|((algorithm, _), field)| Some(Checksum { algorithm, value: field.take()? }));
    let Some(checksum) = given.next() else { return Ok(None) };
    if given.next().is_some() {
        return Err(s3_error!(InvalidRequest, "Expecting a single x-amz-checksum- header"));
    }
    // The value of a composite checksum ends with `-` and the number of parts.
    let bare = checksum.value.split_once('-').map_or(checksum.value.as_str(), |(bare, _)| bare);
    let bytes = BASE64_STANDARD.decode(bare).unwrap_or_default();
    if bytes.len() != checksum.algorithm.size() {
        let name = checksum.algorithm.name().to_lowercase();
        // S3 has no error code for this. A checksum of another length cannot match.
        return Err(s3_error!(BadDigest, "Value for x-amz-checksum-{} header is invalid.", name));
    }
    Ok(Some(checksum))
}

/// The type of `checksum`: of all bytes, or of the checksums of the parts.
pub(crate) fn kind(checksum: &Checksum) -> ChecksumType {
    let kind = if checksum.is_composite() { ChecksumType::COMPOSITE } else { ChecksumType::FULL_OBJECT };
    ChecksumType::from_static(kind)
}

/// The algorithm with this `name`.
pub(crate) fn algorithm(name: &str) -> S3Result<Algorithm> {
    let all = HEADERS.into_iter().map(|(algorithm, _)| algorithm);
    all.into_iter()
        .find(|algorithm| algorithm.name().eq_ignore_ascii_case(name))
        .ok_or_else(|| s3_error!(InvalidRequest, "Checksum algorithm provided is unsupported: {}", name))
}

/// The MD5 of the body from the Content-MD5 header, if there is one. An empty header is invalid.
pub(crate) fn content_md5(headers: &HeaderMap) -> S3Result<Option<[u8; 16]>> {
    let Some(value) = headers.get("content-md5") else { return Ok(None) };
    let digest = BASE64_STANDARD.decode(value.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
    digest.map(Some).ok_or_else(|| s3_error!(InvalidDigest, "The Content-MD5 you specified was invalid."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_must_have_the_size_of_their_algorithm() {
        let with = |value: &str| {
            let checksum_crc32 = Some(value.to_owned());
            take_checksum(&mut dto::UploadPartInput { checksum_crc32, ..Default::default() })
        };
        assert!(with("AAAAAA==").unwrap().is_some_and(|checksum| !checksum.is_composite()));
        assert!(with("AAAAAA==-3").unwrap().is_some_and(|checksum| checksum.is_composite()));
        for wrong in ["bad", "", "AAAA", "AAAAAAAAAAA="] {
            assert!(with(wrong).is_err(), "{wrong}");
        }
        let (one, other) = (Some("AAAAAA==".to_owned()), Some("AAAAAA==".to_owned()));
        let mut both = dto::UploadPartInput { checksum_crc32: one, checksum_crc32c: other, ..Default::default() };
        assert!(take_checksum(&mut both).is_err());
        assert_eq!(algorithm("crc64nvme").unwrap(), Algorithm::Crc64nvme);
        assert!(algorithm("MD5").is_err());
    }

    #[test]
    fn digests_are_sixteen_bytes() {
        let with = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("content-md5", value.parse().unwrap());
            content_md5(&headers)
        };
        assert_eq!(content_md5(&HeaderMap::new()).unwrap(), None);
        assert!(with("1B2M2Y8AsgTpgAmY7PhCfg==").unwrap().is_some());
        for wrong in ["", "YWJyYWNhZGFicmE=", "!"] {
            assert!(with(wrong).is_err(), "{wrong}");
        }
    }
}
