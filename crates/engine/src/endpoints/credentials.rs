//! Credentials from the AWS configuration files: `~/.aws/credentials` and `~/.aws/config`.
//!
//! Only static keys and tokens are read. A profile that needs a login or assumes a role is an error
//! rather than skipped, because the next credentials found would be another account's.

use std::path::PathBuf;
use std::sync::Arc;

use ini::Ini;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey as Key, AwsCredential};
use object_store::client::StaticCredentialProvider;
use pushdowndb_contract::{Error, ErrorKind, Result};

/// The settings of a profile.
#[derive(Default)]
pub(crate) struct ProfileCredentials {
    access_key_id: Option<String>,
    secret_access_key: Option<String>,
    session_token: Option<String>,
    region: Option<String>,
    endpoint: Option<String>,
}

impl ProfileCredentials {
    /// Applies the profile: its keys always, its region and endpoint if the environment sets none.
    pub(crate) fn apply(self, mut builder: AmazonS3Builder) -> AmazonS3Builder {
        if let (Some(key_id), Some(secret_key)) = (self.access_key_id, self.secret_access_key) {
            // Key and token are set together: a token in the environment belongs to other keys.
            let credential = AwsCredential { key_id, secret_key, token: self.session_token };
            builder = builder.with_credentials(Arc::new(StaticCredentialProvider::new(credential)));
        }
        if let Some(region) = self.region.filter(|_| builder.get_config_value(&Key::Region).is_none()) {
            builder = builder.with_region(region);
        }
        let has_endpoint = [Key::Endpoint, Key::S3Endpoint].iter().any(|key| builder.get_config_value(key).is_some());
        if let Some(endpoint) = self.endpoint.filter(|_| !has_endpoint) {
            builder = builder.with_endpoint(endpoint);
        }
        builder
    }
}

/// Reads the profile `asked` or else that of `AWS_PROFILE`; without both, the profile `default` if
/// the environment has no keys. Returns `None` if no profile applies.
pub(crate) fn from_profile(asked: Option<&str>) -> Result<Option<ProfileCredentials>> {
    let variable = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
    let named = asked.map(str::to_owned).or_else(|| variable("AWS_PROFILE"));
    if named.is_none() && variable("AWS_ACCESS_KEY_ID").is_some() {
        return Ok(None);
    }
    let home = || dirs::home_dir().map(|home| home.join(".aws"));
    let file =
        |name: &str, default: &str| variable(name).map(PathBuf::from).or_else(|| home().map(|dir| dir.join(default)));
    let credentials = load(file("AWS_SHARED_CREDENTIALS_FILE", "credentials"))?;
    let config = load(file("AWS_CONFIG_FILE", "config"))?;
    let profile = named.as_deref().unwrap_or("default");
    let in_config = if profile == "default" { profile.to_owned() } else { format!("profile {profile}") };
    let sections = [
        credentials.as_ref().and_then(|f| f.section(Some(profile))),
        config.as_ref().and_then(|f| f.section(Some(in_config))),
    ];
    if sections.iter().all(Option::is_none) {
        return match named {
            Some(name) => Err(Error::new(
                ErrorKind::Denied,
                format!("there is no profile '{name}' in ~/.aws/credentials or ~/.aws/config"),
            )),
            None => Ok(None),
        };
    }
    let value = |key: &str| sections.iter().flatten().find_map(|s| s.get(key)).map(str::to_owned);
    let found = ProfileCredentials {
        access_key_id: value("aws_access_key_id"),
        secret_access_key: value("aws_secret_access_key"),
        session_token: value("aws_session_token"),
        region: value("region"),
        endpoint: value("endpoint_url"),
    };
    if named.is_some() && (found.access_key_id.is_none() || found.secret_access_key.is_none()) {
        return Err(Error::unsupported(format!(
            "the profile '{profile}' holds no keys of its own (a login or role?); \
             export temporary credentials as AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN"
        )));
    }
    Ok(Some(found))
}

fn load(path: Option<PathBuf>) -> Result<Option<Ini>> {
    let Some(path) = path.filter(|p| p.exists()) else { return Ok(None) };
    Ini::load_from_file(&path).map(Some).map_err(|e| Error::invalid(format!("{} cannot be read: {e}", path.display())))
}
