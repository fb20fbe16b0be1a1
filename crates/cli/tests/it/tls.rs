//! A node with a self-signed certificate, made as in docs/operations.md.

use std::path::Path;
use std::process::Command;

use pushdowndb_testkit::program::Outcome;

use crate::serve::Served;

/// Runs the recipe of the documentation, with other file names.
fn make_certificate(dir: &Path) {
    let page = include_str!("../../../../docs/operations.md");
    let (_, recipe) = page.split_once("\nopenssl req").unwrap();
    let (recipe, _) = recipe.split_once("\npushdowndb serve").unwrap();
    let made = Command::new("sh").args(["-c", &format!("openssl req {recipe}")]).current_dir(dir).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

#[test]
fn a_certificate_that_signs_itself_is_trusted_where_it_is_named() {
    if Command::new("openssl").arg("version").output().is_err() {
        eprintln!("skipped: there is no openssl");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    make_certificate(dir.path());
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (certificate, key) = (file("cert.pem"), file("key.pem"));
    let bucket = dir.path().join("bucket");
    std::fs::create_dir(&bucket).unwrap();
    std::fs::write(bucket.join("t.csv"), "a,b\n1,x\n2,y\n").unwrap();
    let bucket = bucket.to_str().unwrap();
    let node = Served::start(&["--gateway", bucket, "--tls-cert", &certificate, "--tls-key", &key]);
    assert!(node.endpoint.starts_with("https://"), "{}", node.endpoint);
    let localhost = node.endpoint.replace("127.0.0.1", "localhost");
    let query = |flags: &[&str], bundle: Option<&str>| -> Outcome {
        let sql = ["--format", "csv", "-c", "SELECT b FROM 's3://bucket/t.csv' WHERE a = 2"];
        let variables: Vec<_> = bundle.map(|bundle| ("AWS_CA_BUNDLE", bundle)).into_iter().collect();
        node.client_with(&variables, &[flags, &sql].concat())
    };
    // By its address, and by a name that the certificate is for.
    assert_eq!(query(&[], Some(&certificate)).ok(), "b\ny\n");
    assert_eq!(query(&["--endpoint", &localhost], Some(&certificate)).ok(), "b\ny\n");

    let untrusted = query(&[], None);
    let message = untrusted.fails(9);
    assert!(message.contains("not trusted") && message.contains("AWS_CA_BUNDLE"), "{message}");
    assert!(message.contains("--insecure"), "{message}");

    let insecure = query(&["--insecure"], None);
    assert_eq!(insecure.ok(), "b\ny\n");
    assert!(insecure.stderr().contains("warning: --insecure"), "{}", insecure.stderr());

    // The file that the variable names must be valid.
    let text = file("bucket/t.csv");
    for bundle in ["/no/such/file", text.as_str()] {
        let message = query(&[], Some(bundle)).stderr();
        assert!(message.contains(&format!("AWS_CA_BUNDLE={bundle}")), "{message}");
    }

    // A gateway trusts the same.
    let keys = [("AWS_CA_BUNDLE", certificate.as_str())];
    let args = ["--gateway", "s3://bucket", "--upstream-endpoint", &node.endpoint, "--read-only"];
    let secret = file("secret");
    std::fs::write(&secret, "test-secret\n").unwrap();
    let secret = format!("aws_secret_access_key=@{secret}");
    let options = ["--upstream-option", "aws_access_key_id=test-key", "--upstream-option", &secret];
    let front = Served::start_with(&keys, &[&args[..], &options].concat());
    let rows = front.client(&["--format", "csv", "-c", "SELECT b FROM 's3://bucket/t.csv' WHERE a = 1"]);
    assert_eq!(rows.ok(), "b\nx\n");
}
