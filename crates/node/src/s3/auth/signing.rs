//! Keyed hashes of signatures, and their comparison in constant time.

use s3s::crypto::{Checksum, Sha1, Sha256};

/// The length of a block of SHA-1 and SHA-256, in bytes.
const BLOCK: usize = 64;

/// HMAC over the hash `H` (RFC 2104).
fn hmac<H: Checksum>(key: &[u8], text: &[u8]) -> H::Output {
    let hash = |parts: [&[u8]; 2]| {
        let mut hash = H::new();
        parts.into_iter().for_each(|part| hash.update(part));
        hash.finalize()
    };
    let mut block = [0; BLOCK];
    let short = if key.len() > BLOCK { hash([key, &[]]).as_ref().to_vec() } else { key.to_vec() };
    block.iter_mut().zip(short).for_each(|(byte, given)| *byte = given);
    let inner = hash([&block.map(|byte| byte ^ 0x36), text]);
    hash([&block.map(|byte| byte ^ 0x5C), inner.as_ref()])
}

/// HMAC with SHA-1.
pub(crate) fn hmac_sha1(key: &[u8], text: &[u8]) -> [u8; 20] {
    hmac::<Sha1>(key, text)
}

/// HMAC with SHA-256.
pub(crate) fn hmac_sha256(key: &[u8], text: &[u8]) -> [u8; 32] {
    hmac::<Sha256>(key, text)
}

pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(bytes);
    hash.finalize()
}

/// Lower-case hexadecimal digits of `bytes`.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Decodes 64 lower-case hexadecimal digits to 32 bytes.
pub(crate) fn unhex(text: &str) -> Option<[u8; 32]> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if text.len() != 64 || !text.bytes().all(is_digit) {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(bytes)
}

/// Compares `a` and `b` in a time that does not depend on where they differ.
pub(crate) fn is_same(a: &[u8], b: &[u8]) -> bool {
    let differ = a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b));
    std::hint::black_box(differ) == 0 && a.len() == b.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hmacs_are_those_of_rfc_2202_and_rfc_4231() {
        let text = b"what do ya want for nothing?";
        assert_eq!(hex(&hmac_sha1(b"Jefe", text)), "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79");
        let long = hmac_sha1(&[0xAA; 80], b"Test Using Larger Than Block-Size Key - Hash Key First");
        assert_eq!(hex(&long), "aa4ae5e15272d00e95705637ce8a3b55ed402112");
        let right = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(hex(&hmac_sha256(b"Jefe", text)), right);
    }

    #[test]
    fn digests_are_written_and_read() {
        let digest = sha256(b"");
        assert_eq!(unhex(&hex(&digest)), Some(digest));
        assert!(unhex(&hex(&digest).to_uppercase()).is_none() && unhex("00").is_none());
    }
}
