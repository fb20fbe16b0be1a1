//! The flags of a connection to object storage.

use clap::Args;

/// How to reach object storage.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Storage")]
pub struct ConnectionArgs {
    /// The S3 endpoint, such as http://127.0.0.1:9000 [default: AWS_ENDPOINT_URL, then AWS]
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<String>,
    /// The region [default: AWS_REGION, then us-east-1]
    #[arg(long)]
    pub region: Option<String>,
    /// The access key [default: AWS_ACCESS_KEY_ID]
    #[arg(long, value_name = "ID", requires = "secret_access_key")]
    pub access_key_id: Option<String>,
    /// Its secret; other users of the machine can see it, the variable AWS_SECRET_ACCESS_KEY hides
    /// it
    #[arg(long, value_name = "SECRET", requires = "access_key_id")]
    pub secret_access_key: Option<String>,
    /// The token of temporary credentials [default: AWS_SESSION_TOKEN]
    #[arg(long, value_name = "TOKEN", requires = "access_key_id")]
    pub session_token: Option<String>,
    /// A profile of ~/.aws [default: AWS_PROFILE]
    #[arg(long, value_name = "NAME", conflicts_with = "access_key_id")]
    pub aws_profile: Option<String>,
    /// Send unsigned requests, for public data
    #[arg(long, visible_alias = "no-sign", alias = "no-sign-request", conflicts_with_all = ["access_key_id", "aws_profile"])]
    pub anonymous: bool,
    /// Agree to pay for requests to buckets whose owner wants that
    #[arg(long)]
    pub requester_pays: bool,
    /// Accept any certificate, also that of somebody in between; AWS_CA_BUNDLE names authorities to
    /// trust instead
    #[arg(long)]
    pub insecure: bool,
}

impl ConnectionArgs {
    /// Formats the flags as they were typed, each after a space, without keys.
    pub fn typed(&self) -> String {
        let flags = [("endpoint", &self.endpoint), ("region", &self.region), ("aws-profile", &self.aws_profile)];
        let typed = flags.into_iter().filter_map(|(flag, value)| Some(format!(" --{flag} {}", value.as_ref()?)));
        let switches =
            [("anonymous", self.anonymous), ("requester-pays", self.requester_pays), ("insecure", self.insecure)];
        let switches = switches.into_iter().filter(|(_, is_on)| *is_on).map(|(switch, _)| format!(" --{switch}"));
        typed.chain(switches).collect()
    }
}
