//! MinIO, the foreign server: built by `.ci/minio`, started on a free port.

use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::world::{KEY, SECRET, Server, World, repository};

/// A MinIO with one empty bucket; `None`, loudly, where Go is missing.
pub async fn world() -> Option<World> {
    let built = Command::new(repository().join(".ci/minio")).stderr(Stdio::inherit()).output().expect("bash");
    if built.status.code() == Some(77) {
        eprintln!("SKIPPED: MinIO is not tested, Go is missing");
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
    Some(World::around(format!("http://{address}"), server, folder).await)
}

/// Runs Python with a boto3 client called `s3`; retried while a server starts.
pub fn boto3(endpoint: &str, code: &str) {
    let script = format!(
        "import boto3, botocore.config\n\
         s3 = boto3.client('s3', endpoint_url='{endpoint}', region_name='us-east-1', aws_access_key_id='{KEY}', \
         aws_secret_access_key='{SECRET}', config=botocore.config.Config(retries={{'max_attempts': 10, 'mode': 'standard'}}))\n\
         {code}\n"
    );
    let done = Command::new("python3").args(["-c", &script]).output().expect("python3");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
