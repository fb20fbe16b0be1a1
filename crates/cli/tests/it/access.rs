//! `--allow` and its like: untrusted SQL, which may use what is listed and nothing else.

use std::net::TcpListener;

use crate::{pushdowndb, run};

#[test]
fn sql_may_use_what_is_listed() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    for name in ["in", "out", "secret"] {
        std::fs::create_dir(path(name)).unwrap();
        std::fs::write(path(&format!("{name}/x.csv")), "a\n1\n2\n").unwrap();
    }
    let (read, write) = (path("in"), path("out"));
    let script = path("script.sql");
    std::fs::write(&script, format!("COPY (SELECT sum(a) AS a FROM '{read}/x.csv') TO '{write}/new.csv';")).unwrap();
    // The script is named by the caller, so it need not be listed.
    run(["--allow", &read, "--allow-write", &write, "-f", &script]).ok();
    assert_eq!(std::fs::read_to_string(path("out/new.csv")).unwrap(), "a\n3\n");

    for sql in [
        format!("SELECT * FROM '{}/x.csv'", path("secret")),
        format!("SELECT * FROM '{read}/../secret/x.csv'"),
        format!("SELECT * FROM '{write}/x.csv'"),
        format!("COPY (SELECT 1 AS a) TO '{read}/new.csv'"),
        format!("SET pushdown.price_book = '{}/x.csv'", path("secret")),
        "SELECT * FROM '/etc/passwd'".to_owned(),
    ] {
        let message = run(["--allow", &read, "--allow-write", &write, "-c", &sql]).fails(4);
        assert!(message.contains("refused by the access policy"), "{message}");
    }
    assert!(!dir.path().join("in/new.csv").exists());
    let message = run(["--allow", &read, "-c", &format!("COPY (SELECT 1 AS a) TO '{write}/b.csv'")]).fails(4);
    assert!(message.contains("--allow-write LOCATION"), "the way out is named: {message}");
    run(["--allow-nothing", "-c", &format!("SELECT * FROM '{read}/x.csv'")]).fails(4);
    assert_eq!(run(["--allow-nothing", "--format", "csv", "-c", "SELECT 1 AS a"]).ok(), "a\n1\n");
    // Without any of these it is as ever.
    let all = run(["--format", "csv", "-c", &format!("SELECT sum(a) AS a FROM '{}/x.csv'", path("secret"))]);
    assert_eq!(all.ok(), "a\n3\n");
    assert!(run(["--allow", "ftp://b/", "-c", "SELECT 1"]).fails(2).contains("ftp"));
}

#[test]
fn keys_of_the_environment_go_to_no_other_host() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let keys = [("AWS_ACCESS_KEY_ID", "k"), ("AWS_SECRET_ACCESS_KEY", "s"), ("AWS_SESSION_TOKEN", "t")];
    for sql in [
        format!("SELECT * FROM '{endpoint}/x.csv'"),
        "SELECT * FROM 's3://other/x.csv'".to_owned(),
        format!("COPY (SELECT 1 AS a) TO '{endpoint}/x.csv'"),
        "COPY (SELECT 1 AS a) TO 's3://other/x.csv'".to_owned(),
    ] {
        let mut command = pushdowndb(["--allow", "s3://mine/", "-c", &sql]);
        let done = command.envs(keys).env("AWS_ENDPOINT_URL", &endpoint).output().unwrap();
        assert_eq!(done.status.code(), Some(4), "{sql}: {}", String::from_utf8_lossy(&done.stderr));
    }
    assert!(listener.accept().is_err(), "no connection was made");
}
