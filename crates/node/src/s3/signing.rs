//! Keyed hashes of signatures, and comparing them in constant time.

use s3s::crypto::{Checksum, Sha1, Sha256};

/// The length of a block of SHA-1 and SHA-256, in bytes.
const BLOCK: usize = 64;

/// HMAC over the hash `H`, as RFC 2104 defines it.
fn hmac<H: Checksum>(key: &[u8], text: &[u8]) -> Vec<u8> {
    let hash = |parts: [&[u8]; 2]| {
        let mut hash = H::new();
        parts.into_iter().for_each(|part| hash.update(part));
        hash.finalize().as_ref().to_vec()
    };
    let short = if key.len() > BLOCK { hash([key, &[]]) } else { key.to_vec() };
    let padded = |mask: u8| -> Vec<u8> {
        short.iter().copied().chain(std::iter::repeat(0)).take(BLOCK).map(|byte| byte ^ mask).collect()
    };
    hash([&padded(0x5C), &hash([&padded(0x36), text])])
}

/// HMAC with SHA-1.
pub(super) fn hmac_sha1(key: &[u8], text: &[u8]) -> Vec<u8> {
    hmac::<Sha1>(key, text)
}

/// HMAC with SHA-256.
pub(super) fn hmac_sha256(key: &[u8], text: &[u8]) -> Vec<u8> {
    hmac::<Sha256>(key, text)
}

/// The signature of version 4 over the policy of a form, in hexadecimal; `None` if `scope` is none (`date/region/s3/aws4_request`).
pub(super) fn sign_policy(secret: &str, scope: &str, policy: &str) -> Option<String> {
    let parts: Vec<&str> = scope.split('/').collect();
    let [date, region, service @ "s3", request @ "aws4_request"] = parts[..] else { return None };
    let key = [date, region, service, request]
        .iter()
        .fold(format!("AWS4{secret}").into_bytes(), |key, part| hmac_sha256(&key, part.as_bytes()));
    Some(hmac_sha256(&key, policy.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Compares in a time that does not depend on where they differ.
pub(super) fn is_same(a: &[u8], b: &[u8]) -> bool {
    let differ = a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b));
    std::hint::black_box(differ) == 0 && a.len() == b.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: Vec<u8>) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_hmacs_are_those_of_rfc_2202_and_rfc_4231() {
        let text = b"what do ya want for nothing?";
        assert_eq!(hex(hmac_sha1(b"Jefe", text)), "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79");
        let long = hmac_sha1(&[0xAA; 80], b"Test Using Larger Than Block-Size Key - Hash Key First");
        assert_eq!(hex(long), "aa4ae5e15272d00e95705637ce8a3b55ed402112");
        let right = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(hex(hmac_sha256(b"Jefe", text)), right);
    }

    #[test]
    fn scopes_are_of_s3() {
        assert!(sign_policy("secret", "20260101/us-east-1/s3/aws4_request", "p").is_some());
        for wrong in ["", "20260101/us-east-1/sts/aws4_request", "20260101/us-east-1/s3", "a/b/s3/aws4_request/x"] {
            assert!(sign_policy("secret", wrong, "p").is_none(), "{wrong}");
        }
    }
}
