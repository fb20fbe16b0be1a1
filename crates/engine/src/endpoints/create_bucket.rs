//! Creating a bucket, which object_store cannot.

use bytes::Bytes;
use futures::StreamExt;
use http::Method;
use object_store::aws::AwsAuthorizer;
use object_store::client::HttpRequest;
use object_store::path::Path;
use pushdowndb_contract::{Error, ErrorKind, Result};
use pushdowndb_select::error_from_response;

use super::{Backend, Kind, Meters, S3};
use crate::access::Mode;
use crate::error::{find_ours, from_object_store};

/// Maximum size of an answer that is read, in bytes.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

impl Backend {
    /// Creates this bucket. Succeeds, too, if the bucket exists and these credentials own it.
    pub(crate) async fn create_bucket(&self) -> Result<()> {
        let Kind::S3(s3) = &self.kind else {
            return Err(Error::invalid(format!("{} is no bucket; write s3://bucket", self.name())));
        };
        self.access.check(Mode::Write, Path::default())?;
        let what = format!("making the bucket {}", self.name());
        let http = s3.connections.metered(Meters(vec![])).client();
        let response = http.execute(s3.create_request().await?).await.map_err(|error| {
            let silent = || Error::new(ErrorKind::Unavailable, "the endpoint did not answer");
            find_ours(&error).unwrap_or_else(|| silent().with_source(error)).context(&what)
        })?;
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        let mut body = response.into_body().bytes_stream();
        let mut answer = Vec::new();
        while let Some(Ok(piece)) = body.next().await {
            answer.extend_from_slice(&piece);
            if answer.len() > MAX_ANSWER_BYTES {
                break;
            }
        }
        if String::from_utf8_lossy(&answer).contains("<Code>BucketAlreadyOwnedByYou</Code>") {
            return Ok(());
        }
        Err(error_from_response(status.as_u16(), &answer).context(what))
    }
}

impl S3 {
    async fn create_request(&self) -> Result<HttpRequest> {
        // AWS creates buckets in its first region unless a request names another; other servers
        // have no regions.
        let elsewhere = self.bucket_url.contains(".amazonaws.com") && self.region != "us-east-1";
        let body = match elsewhere {
            true => Bytes::from(format!(
                "<CreateBucketConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
                 <LocationConstraint>{}</LocationConstraint></CreateBucketConfiguration>",
                self.region
            )),
            false => Bytes::new(),
        };
        let mut request = http::Request::builder()
            .method(Method::PUT)
            .uri(&self.bucket_url)
            .body(body.into())
            .map_err(|error| Error::internal("a request that cannot be built").with_source(error))?;
        if let Some(credentials) = &self.signer {
            let credential = credentials.get_credential().await.map_err(from_object_store)?;
            AwsAuthorizer::new(&credential, "s3", &self.region).authorize(&mut request, None);
        }
        Ok(request)
    }
}
