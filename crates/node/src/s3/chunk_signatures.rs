//! The signatures of chunks (`STREAMING-AWS4-HMAC-SHA256-PAYLOAD`): each is over a chunk and the signature before it, the first
//! of which is that of the request ("Signature calculations: transferring payload in multiple chunks" of the S3 reference).
//!
//! A [`Chain`] follows two of these chains with one key: that of the client, whose signatures are verified, and one of our own,
//! with which the same bytes are handed on in other chunks.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use s3s::crypto::{Checksum as _, Sha256};

use super::signing::{hmac_sha256, is_same};
use crate::keyring::Keyring;

/// What no chunk is signed with.
const WRONG: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The chain of the client's signatures and that of ours.
pub(super) struct Chain {
    key: Vec<u8>,
    /// Time and scope, as every text that is signed has them.
    head: String,
    theirs: String,
    ours: String,
}

impl Chain {
    /// The chains that begin with the signature of a request. `None` if there is none that could be verified.
    pub fn of(headers: &HeaderMap, keyring: &Keyring) -> Option<Self> {
        let time = headers.get("x-amz-date")?.to_str().ok()?;
        let given = headers.get(AUTHORIZATION)?.to_str().ok()?.trim().strip_prefix("AWS4-HMAC-SHA256")?;
        let field = |wanted: &str| {
            let fields = given.split(',').filter_map(|field| field.trim().split_once('='));
            fields.into_iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.trim())
        };
        let seed = field("Signature")?;
        let mut scope = field("Credential")?.rsplitn(5, '/');
        let (end, service, region, date) = (scope.next()?, scope.next()?, scope.next()?, scope.next()?);
        let secret = &keyring.get(scope.next()?)?.credentials.secret_access_key;
        let start = format!("AWS4{secret}").into_bytes();
        let key = [date, region, service, end].iter().fold(start, |key, part| hmac_sha256(&key, part.as_bytes()));
        let head = format!("{time}\n{date}/{region}/{service}/{end}\n");
        Some(Self { key, head, theirs: seed.to_owned(), ours: seed.to_owned() })
    }

    /// Goes on to a chunk that is handed on as it is, with its signature. Only while no other was changed.
    pub fn pass(&mut self, signature: &str) {
        signature.clone_into(&mut self.theirs);
        signature.clone_into(&mut self.ours);
    }

    /// Whether this is the client's signature of the next chunk, which has this hash.
    pub fn verify(&mut self, given: &str, hash: &[u8; 32]) -> bool {
        let right = self.of_chunk(&self.theirs, hash);
        let verified = is_same(given.as_bytes(), right.as_bytes());
        self.theirs = right;
        verified
    }

    /// Our signature of the next chunk; one that is none if the client's was not.
    pub fn sign(&mut self, verified: bool, hash: &[u8; 32]) -> &str {
        if !verified {
            return WRONG;
        }
        self.ours = self.of_chunk(&self.ours, hash);
        &self.ours
    }

    /// The trailer that follows the last chunk with our signature in place of the client's. It is given back as it is where
    /// it has none.
    pub fn trailer(&self, trailer: &[u8]) -> Vec<u8> {
        const SIGNATURE: &str = "x-amz-trailer-signature";
        let Ok(text) = std::str::from_utf8(trailer) else { return trailer.to_vec() };
        let mut fields = Vec::new();
        let mut given = None;
        for line in text.split('\n') {
            let Some((name, value)) = line.trim_end_matches('\r').split_once(':') else { continue };
            match name.to_ascii_lowercase() {
                name if name == SIGNATURE => given = Some(value.trim_matches([' ', '\t'])),
                name => fields.push((name, value.trim_matches([' ', '\t']))),
            }
        }
        let Some(given) = given else { return trailer.to_vec() };
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        let canonical: String = fields.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let hash = sha256(canonical.as_bytes());
        let signature =
            |before: &str| hex(&hmac_sha256(&self.key, self.text("TRAILER", before, None, &hash).as_bytes()));
        let ours = match is_same(given.as_bytes(), signature(&self.theirs).as_bytes()) {
            true => signature(&self.ours),
            false => WRONG.to_owned(),
        };
        let lines = fields.iter().map(|(name, value)| format!("{name}:{value}\r\n"));
        lines.chain([format!("{SIGNATURE}:{ours}\r\n\r\n")]).collect::<String>().into_bytes()
    }

    fn of_chunk(&self, before: &str, hash: &[u8; 32]) -> String {
        hex(&hmac_sha256(&self.key, self.text("PAYLOAD", before, Some(&sha256(&[])), hash).as_bytes()))
    }

    /// What is signed. The hash of nothing stands for headers, of which a chunk has none.
    fn text(&self, what: &str, before: &str, headers: Option<&[u8; 32]>, hash: &[u8; 32]) -> String {
        let headers = headers.map(|hash| format!("{}\n", hex(hash))).unwrap_or_default();
        format!("AWS4-HMAC-SHA256-{what}\n{}{before}\n{headers}{}", self.head, hex(hash))
    }
}

pub(super) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(bytes);
    hash.finalize()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::Credentials;

    pub(in crate::s3) const SEED: &str = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9";

    /// The chain of the example in the S3 reference.
    pub(in crate::s3) fn example() -> Chain {
        let keyring = Keyring::one(Credentials {
            access_key_id: "AKIAIOSFODNN7EXAMPLE".into(),
            secret_access_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
        });
        let mut headers = HeaderMap::new();
        headers.insert("x-amz-date", "20130524T000000Z".parse().unwrap());
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,\
             SignedHeaders=host;x-amz-date, Signature={SEED}"
        );
        headers.insert(AUTHORIZATION, authorization.parse().unwrap());
        Chain::of(&headers, &keyring).unwrap()
    }

    #[test]
    fn chunks_are_signed_as_the_reference_does_it() {
        let mut chain = example();
        let chunks: [(usize, &str); 3] = [
            (65_536, "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648"),
            (1024, "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497"),
            (0, "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9"),
        ];
        for (bytes, signature) in chunks {
            let hash = sha256(&vec![b'a'; bytes]);
            assert!(chain.verify(signature, &hash), "{bytes}");
            assert_eq!(chain.sign(true, &hash), signature);
        }
        assert!(!chain.verify(SEED, &sha256(b"a")));
        assert_eq!(chain.sign(false, &sha256(b"a")), WRONG);
    }

    #[test]
    fn a_trailer_has_our_signature_if_the_clients_is_right() {
        let mut chain = example();
        let text = b"x-amz-checksum-crc32c:wdBDMA==\n";
        let theirs =
            hex(&hmac_sha256(&chain.key, chain.text("TRAILER", &chain.theirs, None, &sha256(text)).as_bytes()));
        chain.ours = WRONG.to_owned();
        let ours = hex(&hmac_sha256(&chain.key, chain.text("TRAILER", &chain.ours, None, &sha256(text)).as_bytes()));
        let trailer = |signature: &str| {
            format!("X-Amz-Checksum-Crc32c: wdBDMA==\r\nx-amz-trailer-signature:{signature}\r\n\r\n").into_bytes()
        };
        let signed = String::from_utf8(chain.trailer(&trailer(&theirs))).unwrap();
        assert_eq!(signed, format!("x-amz-checksum-crc32c:wdBDMA==\r\nx-amz-trailer-signature:{ours}\r\n\r\n"));
        let forged = String::from_utf8(chain.trailer(&trailer(SEED))).unwrap();
        assert!(forged.contains(WRONG) && !forged.contains(&ours), "{forged}");
        assert_eq!(chain.trailer(b"\r\n"), b"\r\n");
    }
}
