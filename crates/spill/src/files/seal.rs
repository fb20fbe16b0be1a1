//! The checksum and the encryption of a part.

use bytes::{Bytes, BytesMut};
use crc_fast::CrcAlgorithm;
use datafusion_common::{DataFusionError, Result};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};

/// The number of bytes that encryption adds to a part.
pub(super) const TAG_BYTES: usize = 16;

/// A random key of one query. It is never stored, so data that a dead process left cannot be
/// decrypted.
pub(super) struct Cipher(LessSafeKey);

impl std::fmt::Debug for Cipher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cipher")
    }
}

/// The data needed to check and decrypt a part. `crc` is the CRC32C of its stored bytes. `number`
/// is its number among the parts of the query, which is used as the nonce.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seal {
    pub crc: u32,
    pub number: u64,
    pub stored_bytes: usize,
}

impl Cipher {
    /// Creates a cipher with a new random key.
    pub(super) fn new() -> Result<Self> {
        let mut key = [0; 32];
        let key = SystemRandom::new().fill(&mut key).and_then(|()| UnboundKey::new(&AES_256_GCM, &key));
        let key = key.map_err(|_| DataFusionError::Execution("a key for spilled data cannot be made".into()))?;
        Ok(Self(LessSafeKey::new(key)))
    }

    fn nonce(number: u64) -> Nonce {
        let mut nonce = [0; NONCE_LEN];
        nonce[..8].copy_from_slice(&number.to_le_bytes());
        Nonce::assume_unique_for_key(nonce)
    }
}

/// Encrypts (with a `cipher`) and checksums the part `number`. Returns the bytes to store. A number
/// must be used only once per query.
pub(super) fn seal(cipher: Option<&Cipher>, number: u64, mut content: Vec<u8>) -> Result<(Bytes, Seal)> {
    if let Some(Cipher(key)) = cipher {
        key.seal_in_place_append_tag(Cipher::nonce(number), Aad::empty(), &mut content)
            .map_err(|_| DataFusionError::Execution(format!("part {number} of spilled data cannot be encrypted")))?;
    }
    let seal = Seal { crc: crc32c(&content), number, stored_bytes: content.len() };
    Ok((Bytes::from(content), seal))
}

/// Checks and decrypts the `stored` bytes of a part. Returns what is wrong if they are damaged.
pub(super) fn open(cipher: Option<&Cipher>, seal: Seal, stored: Bytes) -> Result<Bytes, String> {
    if stored.len() != seal.stored_bytes {
        return Err(format!("{} bytes were read instead of {}", stored.len(), seal.stored_bytes));
    }
    let crc = crc32c(&stored);
    if crc != seal.crc {
        return Err(format!("its CRC32C is {crc:08x} instead of {:08x}", seal.crc));
    }
    let Some(Cipher(key)) = cipher else { return Ok(stored) };
    // The bytes are copied only if another reader shares them.
    let mut stored = stored.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
    let content = key.open_in_place(Cipher::nonce(seal.number), Aad::empty(), &mut stored);
    let bytes = content.map_err(|_| "its tag of AES-256-GCM is wrong".to_owned())?.len();
    stored.truncate(bytes);
    Ok(stored.freeze())
}

fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_wrong_bit_is_an_error() {
        for cipher in [None, Some(Cipher::new().unwrap())] {
            let content: Vec<u8> = (0..200).collect();
            let (stored, seal) = seal(cipher.as_ref(), 7, content.clone()).unwrap();
            assert_eq!(cipher.is_some(), !stored.starts_with(&content));
            assert_eq!(open(cipher.as_ref(), seal, stored.clone()).unwrap(), content);
            for bit in 0..stored.len() * 8 {
                let mut wrong = stored.to_vec();
                wrong[bit / 8] ^= 1 << (bit % 8);
                let text = open(cipher.as_ref(), seal, wrong.clone().into()).unwrap_err();
                assert!(text.starts_with("its CRC32C is"), "{text}");
                // The tag also detects a change by someone who adapts the checksum.
                let crc = Seal { crc: crc32c(&wrong), ..seal };
                assert_eq!(open(cipher.as_ref(), crc, wrong.into()).is_err(), cipher.is_some());
            }
            assert!(open(cipher.as_ref(), seal, stored.slice(1..)).unwrap_err().contains("bytes were read"));
            let other = Seal { number: 8, ..seal };
            assert_eq!(open(cipher.as_ref(), other, stored).is_err(), cipher.is_some());
        }
    }
}
