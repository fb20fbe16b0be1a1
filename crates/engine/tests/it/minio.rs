//! MinIO, the foreign server: built by `.ci/minio`, started on a free port.

use std::io::Write;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use object_store::ClientOptions;
use object_store::aws::{AwsAuthorizer, AwsCredential};
use object_store::client::{HttpConnector, HttpRequest, HttpRequestBody, ReqwestConnector};

use crate::world::{KEY, SECRET, Server, World, repository};

/// A MinIO with one empty bucket; `None`, loudly, where Go is missing.
pub async fn world() -> Option<World> {
    let built = Command::new(repository().join(".ci/minio")).stderr(Stdio::inherit()).output().expect("bash");
    if built.status.code() == Some(77) {
        // Past the test harness, which shows what tests print only where they fail.
        let _ = writeln!(std::io::stderr(), "SKIPPED: MinIO is not tested, Go is missing");
        return None;
    }
    assert!(built.status.success(), "MinIO could not be built");
    let binary = String::from_utf8(built.stdout).expect("a path");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let port = || TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port").port();
    let address = format!("127.0.0.1:{}", port());
    let child = Command::new(binary.trim())
        .args(["server", "--quiet", "--address", &address, "--console-address", &format!("127.0.0.1:{}", port())])
        .arg(folder.path().join("data"))
        .env("MINIO_ROOT_USER", KEY)
        .env("MINIO_ROOT_PASSWORD", SECRET)
        .env("MINIO_API_SELECT_PARQUET", "on")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("MinIO");
    let server = Server::Process(child);
    let deadline = Instant::now() + Duration::from_secs(30);
    while std::net::TcpStream::connect(&address).is_err() {
        assert!(Instant::now() < deadline, "MinIO did not start");
        tokio::task::yield_now().await;
    }
    let endpoint = format!("http://{address}");
    create_bucket(&endpoint, deadline).await;
    Some(World::around(endpoint, server, folder))
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
