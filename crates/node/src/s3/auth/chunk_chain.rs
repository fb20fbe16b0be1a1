//! The signatures of chunks (`STREAMING-AWS4-HMAC-SHA256-PAYLOAD`).
//!
//! The signature of a chunk covers the chunk and the previous signature, which for the first chunk
//! is that of the request ("Signature calculations: transferring payload in multiple chunks" of the
//! S3 reference).

use super::signing::{hex, hmac_sha256, is_same, sha256};

/// Verifies the signatures of the chunks of one body, which must be passed in order.
pub(crate) struct Chain {
    key: [u8; 32],
    /// The lines with time and scope, which are part of every signed text.
    head: String,
    /// The signature of the previous chunk, or of the request.
    last: String,
}

impl Chain {
    /// Creates a chain that starts with the verified signature `seed` of a request.
    pub fn new(key: [u8; 32], time: &str, scope: &str, seed: &str) -> Self {
        Self { key, head: format!("{time}\n{scope}\n"), last: seed.to_owned() }
    }

    /// Whether `given` is the signature of the next chunk, whose SHA-256 is `hash`.
    pub fn verify_chunk(&mut self, given: &str, hash: &[u8; 32]) -> bool {
        // The hash of the empty string stands for the headers, since a chunk has none.
        let right = self.signature("PAYLOAD", &format!("{}\n{}", hex(&sha256(&[])), hex(hash)));
        let verified = is_same(given.as_bytes(), right.as_bytes());
        self.last = right;
        verified
    }

    /// Whether `given` is the signature of the trailer, whose canonical form is `lines`.
    pub fn verify_trailer(&self, given: &str, lines: &str) -> bool {
        let right = self.signature("TRAILER", &hex(&sha256(lines.as_bytes())));
        is_same(given.as_bytes(), right.as_bytes())
    }

    fn signature(&self, kind: &str, hashes: &str) -> String {
        let text = format!("AWS4-HMAC-SHA256-{kind}\n{}{}\n{hashes}", self.head, self.last);
        hex(&hmac_sha256(&self.key, text.as_bytes()))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Credentials;
    use crate::keys::Keyring;
    use crate::s3::auth::version_4::Credential;

    const SEED: &str = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9";

    /// The chain of the example in the S3 reference.
    pub(crate) fn example() -> Chain {
        let keyring = Keyring::one(Credentials {
            access_key_id: "AKIAIOSFODNN7EXAMPLE".into(),
            secret_access_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
        });
        let credential = "AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request";
        let key = Credential::parse(credential).unwrap().signing_key(&keyring).unwrap();
        Chain::new(key, "20130524T000000Z", "20130524/us-east-1/s3/aws4_request", SEED)
    }

    impl Chain {
        /// The signature of the next chunk, as a client makes it.
        pub(crate) fn sign_chunk(&mut self, data: &[u8]) -> String {
            self.last = self.signature("PAYLOAD", &format!("{}\n{}", hex(&sha256(&[])), hex(&sha256(data))));
            self.last.clone()
        }

        /// The signature of a trailer, as a client makes it.
        pub(crate) fn sign_trailer(&self, lines: &str) -> String {
            self.signature("TRAILER", &hex(&sha256(lines.as_bytes())))
        }
    }

    #[test]
    fn chunks_are_signed_as_the_reference_does_it() {
        let (mut verifying, mut signing) = (example(), example());
        let chunks: [(usize, &str); 3] = [
            (65_536, "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648"),
            (1024, "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497"),
            (0, "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9"),
        ];
        for (bytes, signature) in chunks {
            let data = vec![b'a'; bytes];
            assert!(verifying.verify_chunk(signature, &sha256(&data)), "{bytes}");
            assert_eq!(signing.sign_chunk(&data), signature);
        }
        assert!(!verifying.verify_chunk(SEED, &sha256(b"a")));
    }

    #[test]
    fn trailers_are_signed_with_the_last_chunk() {
        let mut chain = example();
        let early = chain.sign_trailer("x-amz-checksum-crc32c:wdBDMA==\n");
        chain.sign_chunk(b"");
        assert!(!chain.verify_trailer(&early, "x-amz-checksum-crc32c:wdBDMA==\n"));
        let signature = chain.sign_trailer("x-amz-checksum-crc32c:wdBDMA==\n");
        assert!(chain.verify_trailer(&signature, "x-amz-checksum-crc32c:wdBDMA==\n"));
        assert!(!chain.verify_trailer(&signature, "x-amz-checksum-crc32c:AAAAAA==\n"));
    }
}
