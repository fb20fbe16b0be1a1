//! Passwords by SCRAM-SHA-256 (RFC 5802, RFC 7677), as in PostgreSQL: the server stores a verifier,
//! from which the password cannot be recovered, and no password is sent over the network.

use std::fmt;
use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pgwire::api::auth::sasl::scram::gen_salted_password;
use pushdowndb_contract::{Error, Result};
use rand::RngCore;
use ring::{digest, hmac};

/// The mechanism's name.
pub(crate) const MECHANISM: &str = "SCRAM-SHA-256";

/// Iterations of the hash for new passwords, as in PostgreSQL.
const ITERATIONS: u32 = 4096;

/// Maximum iterations of a verifier, which the client has to compute.
const MAX_ITERATIONS: u32 = 10_000_000;

/// Bytes of a salt.
const SALT_BYTES: usize = 16;

/// Bytes of a key.
const KEY_BYTES: usize = digest::SHA256_OUTPUT_LEN;

/// Maximum bytes of a message of the exchange.
const MAX_MESSAGE_BYTES: usize = 4096;

/// The data that a password is checked against: `SCRAM-SHA-256$4096:salt$stored:server`, as
/// PostgreSQL stores it in `pg_authid`.
#[derive(Clone, Eq, PartialEq)]
pub struct Verifier {
    iterations: NonZeroU32,
    salt: Vec<u8>,
    stored_key: [u8; KEY_BYTES],
    server_key: [u8; KEY_BYTES],
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier(…)")
    }
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [salt, stored, server] = [&self.salt[..], &self.stored_key, &self.server_key].map(|b| STANDARD.encode(b));
        write!(f, "{MECHANISM}${}:{salt}${stored}:{server}", self.iterations)
    }
}

fn mac(key: &[u8], message: &[u8]) -> [u8; KEY_BYTES] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message);
    tag.as_ref().try_into().unwrap_or([0; KEY_BYTES])
}

fn hash(bytes: &[u8]) -> [u8; KEY_BYTES] {
    digest::digest(&digest::SHA256, bytes).as_ref().try_into().unwrap_or([0; KEY_BYTES])
}

impl Verifier {
    /// Creates the verifier of a password, with a random salt.
    pub fn new(password: &str) -> Self {
        let mut salt = [0; SALT_BYTES];
        rand::rng().fill_bytes(&mut salt);
        Self::of(password, &salt)
    }

    pub(super) fn of(password: &str, salt: &[u8]) -> Self {
        let salted = gen_salted_password(password, salt, ITERATIONS as usize);
        Self {
            iterations: NonZeroU32::new(ITERATIONS).unwrap_or(NonZeroU32::MIN),
            salt: salt.to_vec(),
            stored_key: hash(&mac(&salted, b"Client Key")),
            server_key: mac(&salted, b"Server Key"),
        }
    }

    /// Parses a verifier.
    ///
    /// # Errors
    ///
    /// The text is not a verifier, for example a plain password.
    pub fn parse(text: &str) -> Result<Self> {
        let read = || {
            let (iterations, rest) = text.strip_prefix(MECHANISM)?.strip_prefix('$')?.split_once(':')?;
            let (salt, keys) = rest.split_once('$')?;
            let (stored, server) = keys.split_once(':')?;
            let iterations = iterations.parse::<NonZeroU32>().ok().filter(|count| count.get() <= MAX_ITERATIONS)?;
            let salt = STANDARD.decode(salt).ok().filter(|salt| !salt.is_empty())?;
            let key = |text: &str| STANDARD.decode(text).ok()?.try_into().ok();
            Some(Self { iterations, salt, stored_key: key(stored)?, server_key: key(server)? })
        };
        read().ok_or_else(|| {
            Error::invalid(
                "password is no verifier (SCRAM-SHA-256$…); make one by: pushdowndb sql-server --make-password",
            )
        })
    }

    /// Whether this is the password. The time depends on the verifier's number of iterations.
    pub(crate) fn is(&self, password: &str) -> bool {
        let iterations = usize::try_from(self.iterations.get()).unwrap_or(usize::MAX);
        let salted = gen_salted_password(password, &self.salt, iterations);
        // Compares hashes, so that the time of the comparison reveals nothing about the key.
        hash(&mac(&salted, b"Client Key")) == self.stored_key
    }

    /// Returns a verifier that no password matches. Its salt depends only on `name` and `secret`,
    /// so that a client cannot tell that the user does not exist.
    pub(crate) fn of_nobody(name: &str, secret: &[u8]) -> Self {
        let salt = mac(secret, name.as_bytes());
        let mut key = [0; KEY_BYTES];
        rand::rng().fill_bytes(&mut key);
        Self {
            iterations: NonZeroU32::new(ITERATIONS).unwrap_or(NonZeroU32::MIN),
            salt: salt.get(..SALT_BYTES).unwrap_or(&salt).to_vec(),
            stored_key: key,
            server_key: key,
        }
    }
}

/// An exchange whose first message from the client has been processed.
pub(crate) struct Exchange {
    verifier: Verifier,
    gs2_header: String,
    client_first_bare: String,
    server_first: String,
    nonce: String,
}

impl Exchange {
    /// Processes the client's first message. Returns the exchange and the server's first message.
    ///
    /// # Errors
    ///
    /// The message is malformed, or requests something that was not offered.
    pub fn start(verifier: Verifier, client_first: &[u8]) -> Result<(Self, String)> {
        let mut random = [0; 18];
        rand::rng().fill_bytes(&mut random);
        Self::start_with(verifier, client_first, &STANDARD.encode(random))
    }

    fn start_with(verifier: Verifier, client_first: &[u8], random: &str) -> Result<(Self, String)> {
        let text = text(client_first)?;
        // The message is `n` or `y`, an optional identity, and the rest: channel binding (`p=`) was
        // not offered.
        let (flag, rest) = text.split_once(',').ok_or_else(malformed)?;
        let (identity, bare) = rest.split_once(',').ok_or_else(malformed)?;
        if !matches!(flag, "n" | "y") || !identity.is_empty() {
            return Err(malformed());
        }
        let client_nonce = attribute(bare, "r").filter(|nonce| nonce.len() >= 8).ok_or_else(malformed)?;
        let nonce = format!("{client_nonce}{random}");
        let server_first = format!("r={nonce},s={},i={}", STANDARD.encode(&verifier.salt), verifier.iterations);
        let exchange = Self {
            verifier,
            gs2_header: format!("{flag},,"),
            client_first_bare: bare.to_owned(),
            server_first: server_first.clone(),
            nonce,
        };
        Ok((exchange, server_first))
    }

    /// Checks the client's final message. Returns the server's final message, or `None` if the
    /// password is wrong.
    ///
    /// # Errors
    ///
    /// The message is malformed.
    pub fn finish(&self, client_final: &[u8]) -> Result<Option<String>> {
        let text = text(client_final)?;
        let (without_proof, proof) = text.rsplit_once(",p=").ok_or_else(malformed)?;
        let proof: [u8; KEY_BYTES] =
            STANDARD.decode(proof).ok().and_then(|proof| proof.try_into().ok()).ok_or_else(malformed)?;
        let binding = STANDARD.encode(&self.gs2_header);
        if attribute(without_proof, "c") != Some(binding.as_str())
            || attribute(without_proof, "r") != Some(self.nonce.as_str())
        {
            return Err(malformed());
        }
        let signed = format!("{},{},{without_proof}", self.client_first_bare, self.server_first);
        let client_signature = mac(&self.verifier.stored_key, signed.as_bytes());
        let mut client_key = proof;
        client_key.iter_mut().zip(client_signature).for_each(|(byte, mask)| *byte ^= mask);
        // Compares hashes, so that the time of the comparison reveals nothing about the key.
        if hash(&client_key) != self.verifier.stored_key {
            return Ok(None);
        }
        let signature = mac(&self.verifier.server_key, signed.as_bytes());
        Ok(Some(format!("v={}", STANDARD.encode(signature))))
    }
}

fn text(message: &[u8]) -> Result<&str> {
    if message.len() > MAX_MESSAGE_BYTES {
        return Err(malformed());
    }
    std::str::from_utf8(message).map_err(|_| malformed())
}

fn attribute<'a>(message: &'a str, name: &str) -> Option<&'a str> {
    message.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}

fn malformed() -> Error {
    Error::invalid("malformed SCRAM message")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677.
    #[test]
    fn the_exchange_is_that_of_the_standard() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let verifier = Verifier::of("pencil", &salt);
        let first = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
        let (exchange, server_first) = Exchange::start_with(verifier, first, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0").unwrap();
        assert_eq!(
            server_first,
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
        );
        let last = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                    p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        let answer = exchange.finish(last.as_bytes()).unwrap();
        assert_eq!(answer.as_deref(), Some("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        let wrong = last.replace("dHzb", "eHzb");
        assert_eq!(exchange.finish(wrong.as_bytes()).unwrap(), None);
        for malformed in ["", "c=biws", "c=biws,r=other,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="] {
            assert!(exchange.finish(malformed.as_bytes()).is_err(), "{malformed}");
        }
    }

    #[test]
    fn verifiers_survive_as_text() {
        let verifier = Verifier::new("pässword");
        let text = verifier.to_string();
        assert!(text.starts_with("SCRAM-SHA-256$4096:"), "{text}");
        assert_eq!(Verifier::parse(&text).unwrap(), verifier);
        assert_ne!(Verifier::new("pässword"), verifier, "another salt");
        assert!(verifier.is("pässword") && !verifier.is("password") && !verifier.is(""));
        assert!(!Verifier::of_nobody("ann", b"secret").is(""));
        for wrong in ["", "secret", "SCRAM-SHA-256$0:YQ==$YQ==:YQ==", "SCRAM-SHA-256$4096:YQ==$YQ==:YQ=="] {
            assert!(Verifier::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_was_not_offered_is_refused() {
        for first in ["p=tls-unique,,n=,r=abcdefgh", "n,a=other,n=,r=abcdefgh", "n,,n=", "n,,n=,r=short", "x"] {
            assert!(Exchange::start(Verifier::new("x"), first.as_bytes()).is_err(), "{first}");
        }
    }
}
