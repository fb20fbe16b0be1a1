//! Headers for server-side encryption, which is not implemented. Headers that contradict each
//! other, or do not belong to the request, get the same specific errors as in S3.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderMap, Method};
use md5::{Digest, Md5};
use s3s::{S3Result, s3_error};

const METHOD: &str = "x-amz-server-side-encryption";
const KMS_KEY: &str = "x-amz-server-side-encryption-aws-kms-key-id";
const CUSTOMER: [&str; 3] = [
    "x-amz-server-side-encryption-customer-algorithm",
    "x-amz-server-side-encryption-customer-key",
    "x-amz-server-side-encryption-customer-key-md5",
];

/// Refuses `headers` that contradict each other or the `method`.
pub(crate) fn check(method: &Method, headers: &HeaderMap) -> S3Result<()> {
    let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let (named, kms_key, customer) = (header(METHOD), header(KMS_KEY), CUSTOMER.map(header));
    let by_customer = customer.iter().any(Option::is_some);
    if method == Method::GET || method == Method::HEAD {
        return match (named, by_customer) {
            (Some(_), _) => Err(s3_error!(InvalidArgument, "{} is not a header of reads", METHOD)),
            (None, true) => {
                Err(s3_error!(InvalidRequest, "The encryption parameters are not applicable to this object."))
            }
            (None, false) => Ok(()),
        };
    }
    let with_kms = matches!(named, Some("aws:kms" | "aws:kms:dsse"));
    if named.is_some_and(|named| named != "AES256" && !with_kms) {
        return Err(s3_error!(InvalidArgument, "The encryption method specified is not supported"));
    }
    if kms_key.is_some() && !with_kms {
        return Err(s3_error!(InvalidArgument, "{} needs the encryption method aws:kms", KMS_KEY));
    }
    if by_customer {
        if named.is_some() {
            return Err(s3_error!(
                InvalidArgument,
                "Server Side Encryption with Customer provided key is incompatible with the encryption method specified"
            ));
        }
        check_customer(customer)?;
    }
    Ok(())
}

fn check_customer(headers: [Option<&str>; 3]) -> S3Result<()> {
    let [Some(algorithm), Some(key), Some(digest)] = headers else {
        return Err(s3_error!(InvalidArgument, "a key of the client's needs {} together", CUSTOMER.join(", ")));
    };
    if algorithm != "AES256" {
        return Err(s3_error!(InvalidEncryptionAlgorithmError, "The valid value is AES256."));
    }
    let key = BASE64_STANDARD.decode(key).ok().filter(|key| key.len() == 32);
    let key =
        key.ok_or_else(|| s3_error!(InvalidArgument, "The secret key was invalid for the specified algorithm."))?;
    if BASE64_STANDARD.encode(Md5::digest(&key)) != digest {
        return Err(s3_error!(
            InvalidArgument,
            "The calculated MD5 hash of the key did not match the hash that was provided."
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_must_make_sense_together() {
        let key = BASE64_STANDARD.encode([7; 32]);
        let digest = BASE64_STANDARD.encode(Md5::digest([7; 32]));
        let [algorithm, secret, md5] = CUSTOMER;
        let own = [(algorithm, "AES256"), (secret, key.as_str()), (md5, digest.as_str())];
        let code = |method: Method, pairs: &[(&'static str, &str)]| {
            let headers = pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
            check(&method, &headers).err().map(|error| error.code().as_str().to_owned())
        };
        let invalid = Some("InvalidArgument".to_owned());
        for sound in
            [&[][..], &[(METHOD, "AES256")], &[(METHOD, "aws:kms")], &[(METHOD, "aws:kms"), (KMS_KEY, "k")], &own]
        {
            assert_eq!(code(Method::PUT, sound), None, "{sound:?}");
        }
        for wrong in [
            &[(METHOD, "aes:kms")][..],
            &[(KMS_KEY, "k")],
            &[(METHOD, "AES256"), (KMS_KEY, "k")],
            &[(METHOD, "AES256"), own[0], own[1], own[2]],
            &own[..1],
            &own[1..],
            &[own[0], own[1], (md5, "AAAAAAAAAAAAAAAAAAAAAA==")],
            &[own[0], (secret, "c2hvcnQ="), own[2]],
        ] {
            assert_eq!(code(Method::PUT, wrong), invalid, "{wrong:?}");
        }
        let other = [(algorithm, "DES"), own[1], own[2]];
        assert_eq!(code(Method::PUT, &other).as_deref(), Some("InvalidEncryptionAlgorithmError"));
        assert_eq!(code(Method::GET, &[]), None);
        assert_eq!(code(Method::HEAD, &[(METHOD, "AES256")]), invalid);
        assert_eq!(code(Method::GET, &own).as_deref(), Some("InvalidRequest"));
    }
}
