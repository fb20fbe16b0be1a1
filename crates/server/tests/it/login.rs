//! Passwords, TLS, and users that change.

use std::fs;
use std::process::Command;

use pushdowndb_server::{ServerConfig, TlsFiles, Verifier, start};

use crate::world::World;

fn users(entries: &[(&str, &str, &str)]) -> String {
    let entry = |(name, password, more): &(&str, &str, &str)| {
        format!("[users.\"{name}\"]\npassword = \"{}\"\n{more}\n", Verifier::new(password))
    };
    entries.iter().map(entry).collect()
}

fn with_users(config: &mut ServerConfig, folder: &tempfile::TempDir, entries: &[(&str, &str, &str)]) {
    let path = folder.path().join("users.toml");
    fs::write(&path, users(entries)).unwrap();
    config.users = Some(path);
}

#[test]
fn only_the_right_password_lets_in() {
    let world =
        World::start_with(|config, folder| with_users(config, folder, &[("ann", "pass wörd", ""), ("Bob B", "b", "")]));
    let ann = world.psql_as("user=ann", "pass wörd", &["-A", "-t", "-c", "SELECT current_user"]);
    assert_eq!(ann.ok().trim(), "ann");
    world.psql_as("user='Bob B'", "b", &["-c", "SELECT 1"]).ok();
    for (user, password) in [("ann", "wrong"), ("ann", "b"), ("nobody", "pass wörd"), ("ann", " ")] {
        let message = world.psql_as(&format!("user={user}"), password, &["-c", "SELECT 1"]).fails(2);
        assert!(message.contains("password authentication failed"), "{message}");
    }
    // Who exists is not told: the salt of a user that does not is always the same, too.
    let server = world.server.as_ref().unwrap();
    fs::write(world.path("users.toml"), users(&[("ann", "new", "")])).unwrap();
    assert!(world.runtime.block_on(server.reload_users()).unwrap());
    world.psql_as("user=ann", "new", &["-c", "SELECT 1"]).ok();
    world.psql_as("user=ann", "pass wörd", &["-c", "SELECT 1"]).fails(2);
    world.psql_as("user='Bob B'", "b", &["-c", "SELECT 1"]).fails(2);
    // A file that is wrong changes nothing.
    fs::write(world.path("users.toml"), "[users.ann]\npassword = \"plain\"").unwrap();
    let error = world.runtime.block_on(server.reload_users()).unwrap_err().to_string();
    assert!(error.contains("users.toml") && !error.contains("plain"), "{error}");
    world.psql_as("user=ann", "new", &["-c", "SELECT 1"]).ok();
}

#[test]
fn tls_is_never_left_out() {
    let make = |folder: &tempfile::TempDir| {
        let file = |name: &str| folder.path().join(name);
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]);
        openssl.args(["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]);
        openssl.arg("-keyout").arg(file("key.pem")).arg("-out").arg(file("cert.pem"));
        let made = openssl.output().expect("openssl");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        TlsFiles { certificate: file("cert.pem"), key: file("key.pem") }
    };
    let world = World::start_with(|config, folder| {
        with_users(config, folder, &[("ann", "a", "")]);
        config.tls = Some(make(folder));
    });
    let root = format!("user=ann sslmode=verify-full sslrootcert={}", world.path("cert.pem"));
    world.psql_as(&root, "a", &["-c", "SELECT 1"]).ok();
    let plain = world.psql_as("user=ann sslmode=disable", "a", &["-c", "SELECT 1"]).fails(2);
    assert!(plain.contains("TLS only"), "{plain}");
    world.psql_as("user=ann sslmode=require", "wrong", &["-c", "SELECT 1"]).fails(2);

    // A certificate that cannot be used is an error at the start, not plain text.
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("none.pem"), "nothing").unwrap();
    let world = World::start();
    let config = ServerConfig {
        postgres: Some("127.0.0.1:0".parse().unwrap()),
        flight: None,
        admin: None,
        users: None,
        access: Default::default(),
        tls: Some(TlsFiles { certificate: folder.path().join("none.pem"), key: folder.path().join("none.pem") }),
        engine: Default::default(),
        limits: Default::default(),
    };
    let error = world.runtime.block_on(start(config.clone())).unwrap_err().to_string();
    assert!(error.contains("none.pem"), "{error}");
    // Without passwords the server listens on loopback addresses only.
    let config = ServerConfig { tls: None, ..config };
    let anywhere = Some("0.0.0.0:0".parse().unwrap());
    for config in
        [ServerConfig { postgres: anywhere, ..config.clone() }, ServerConfig { flight: anywhere, ..config.clone() }]
    {
        let error = world.runtime.block_on(start(config)).unwrap_err().to_string();
        assert!(error.contains("--users"), "{error}");
    }
}
