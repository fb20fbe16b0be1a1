//! Checksums in requests and answers.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::HeaderMap;
use s3s::dto::ChecksumType;
use s3s::{S3Result, s3_error};

use crate::store::{Algorithm, Checksum};

/// Every algorithm with the header that carries its values.
pub(super) const HEADERS: [(Algorithm, &str); 5] = [
    (Algorithm::Crc32, "x-amz-checksum-crc32"),
    (Algorithm::Crc32c, "x-amz-checksum-crc32c"),
    (Algorithm::Crc64nvme, "x-amz-checksum-crc64nvme"),
    (Algorithm::Sha1, "x-amz-checksum-sha1"),
    (Algorithm::Sha256, "x-amz-checksum-sha256"),
];

/// Fills the checksum fields of an answer.
macro_rules! put_checksum {
    ($output:ident, $checksum:expr) => {
        if let Some(checksum) = $checksum {
            let value = Some(checksum.value.clone());
            match checksum.algorithm {
                $crate::store::Algorithm::Crc32 => $output.checksum_crc32 = value,
                $crate::store::Algorithm::Crc32c => $output.checksum_crc32c = value,
                $crate::store::Algorithm::Crc64nvme => $output.checksum_crc64nvme = value,
                $crate::store::Algorithm::Sha1 => $output.checksum_sha1 = value,
                $crate::store::Algorithm::Sha256 => $output.checksum_sha256 = value,
            }
        }
    };
}
/// The same with what kind of checksum it is.
macro_rules! put_typed_checksum {
    ($output:ident, $checksum:expr) => {
        $output.checksum_type = $checksum.as_ref().map(|checksum| $crate::s3::checksums::kind(checksum));
        $crate::s3::checksums::put_checksum!($output, $checksum);
    };
}
/// The checksum fields of a request, of which at most one may be set.
macro_rules! checksum_of {
    ($input:expr) => {
        $crate::s3::checksums::one([
            ($crate::store::Algorithm::Crc32, $input.checksum_crc32.take()),
            ($crate::store::Algorithm::Crc32c, $input.checksum_crc32c.take()),
            ($crate::store::Algorithm::Crc64nvme, $input.checksum_crc64nvme.take()),
            ($crate::store::Algorithm::Sha1, $input.checksum_sha1.take()),
            ($crate::store::Algorithm::Sha256, $input.checksum_sha256.take()),
        ])
    };
}
pub(super) use {checksum_of, put_checksum, put_typed_checksum};

/// Whether it speaks of the bytes or of the parts.
pub(super) fn kind(checksum: &Checksum) -> ChecksumType {
    let kind = if checksum.is_composite() { ChecksumType::COMPOSITE } else { ChecksumType::FULL_OBJECT };
    ChecksumType::from_static(kind)
}

pub(super) fn one(given: [(Algorithm, Option<String>); 5]) -> S3Result<Option<Checksum>> {
    let mut given = given.into_iter().filter_map(|(algorithm, value)| Some(Checksum { algorithm, value: value? }));
    let Some(checksum) = given.next() else { return Ok(None) };
    if given.next().is_some() {
        return Err(s3_error!(InvalidRequest, "Expecting a single x-amz-checksum- header"));
    }
    // The number of parts may stand behind the value.
    let bare = checksum.value.split_once('-').map_or(checksum.value.as_str(), |(bare, _)| bare);
    let bytes = BASE64_STANDARD.decode(bare).unwrap_or_default();
    if bytes.len() != checksum.algorithm.size() {
        let name = checksum.algorithm.name().to_lowercase();
        // S3 has no code of its own for it: a checksum of another length matches nothing.
        return Err(s3_error!(BadDigest, "Value for x-amz-checksum-{} header is invalid.", name));
    }
    Ok(Some(checksum))
}

/// The algorithm of this name.
pub(super) fn algorithm(name: &str) -> S3Result<Algorithm> {
    let all = HEADERS.into_iter().map(|(algorithm, _)| algorithm);
    all.into_iter()
        .find(|algorithm| algorithm.name().eq_ignore_ascii_case(name))
        .ok_or_else(|| s3_error!(InvalidRequest, "Checksum algorithm provided is unsupported: {}", name))
}

/// The MD5 of a body that a client sends, if it sends one. An empty header is a wrong one.
pub(super) fn content_md5(headers: &HeaderMap) -> S3Result<Option<[u8; 16]>> {
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
            one([
                (Algorithm::Crc32, Some(value.to_owned())),
                (Algorithm::Crc32c, None),
                (Algorithm::Crc64nvme, None),
                (Algorithm::Sha1, None),
                (Algorithm::Sha256, None),
            ])
        };
        assert!(with("AAAAAA==").unwrap().is_some_and(|checksum| !checksum.is_composite()));
        assert!(with("AAAAAA==-3").unwrap().is_some_and(|checksum| checksum.is_composite()));
        for wrong in ["bad", "", "AAAA", "AAAAAAAAAAA="] {
            assert!(with(wrong).is_err(), "{wrong}");
        }
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
