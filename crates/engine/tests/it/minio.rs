//! MinIO, the foreign server: built by `.ci/minio`, started on a free port.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use object_store::ClientOptions;
use object_store::aws::{AwsAuthorizer, AwsCredential};
use object_store::client::{HttpConnector, HttpRequest, HttpRequestBody, ReqwestConnector};
use pushdowndb_testkit::skip::skipped;
use pushdowndb_testkit::{process, repository};

use crate::world::{KEY, SECRET, Server, World};

/// A MinIO with one empty bucket; `None`, loudly, where Go is missing.
pub async fn world() -> Option<World> {
    let built = Command::new(repository().join(".ci/minio")).stderr(Stdio::inherit()).output().expect("bash");
    if built.status.code() == Some(77) {
        skipped("MinIO is not tested, Go is missing");
        return None;
    }
    assert!(built.status.success(), "MinIO could not be built");
    let binary = String::from_utf8(built.stdout).expect("a path");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = process::Server::start(|address| {
        let mut command = Command::new(binary.trim());
        command.args(["server", "--quiet", "--address", address, "--console-address", &process::free_address()]);
        command.arg(folder.path().join("data")).env("MINIO_ROOT_USER", KEY).env("MINIO_ROOT_PASSWORD", SECRET);
        command.env("MINIO_API_SELECT_PARQUET", "on");
        command
    });
    let endpoint = format!("http://{}", server.address);
    create_bucket(&endpoint, Instant::now() + Duration::from_secs(30)).await;
    Some(World::around(endpoint, Server::Process(server), folder))
}

/// Makes the bucket; the server is asked again while it starts.
async fn create_bucket(endpoint: &str, deadline: Instant) {
    let credential = AwsCredential { key_id: KEY.to_owned(), secret_key: SECRET.to_owned(), token: None };
    let options = ClientOptions::new().with_allow_http(true);
    let client = ReqwestConnector::default().connect(&options).expect("a client");
    loop {
        let request = http::Request::put(format!("{endpoint}/data")).body(HttpRequestBody::empty());
        let mut request: HttpRequest = request.expect("a request");
        AwsAuthorizer::new(&credential, "s3", "us-east-1").authorize(&mut request, None);
        match client.execute(request).await {
            Ok(response) if response.status().is_success() => return,
            answer => assert!(Instant::now() < deadline, "MinIO made no bucket: {answer:?}"),
        }
        tokio::task::yield_now().await;
    }
}
