//! Bytes that no client sends, and clients that misbehave.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::raw::{Client, message};
use crate::world::World;

/// Numbers that look random and are always the same.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

#[test]
fn garbage_ends_a_connection_and_nothing_else() {
    let world = World::start();
    for seed in 0..60 {
        let mut client = Client::connect(&world);
        client.send(&noise(seed, 40 + seed as usize));
        let _ = client.0.shutdown(std::net::Shutdown::Write);
        client.rest();
    }
    for seed in 0..200 {
        let mut client = Client::session(&world);
        // A message of every type, with fields of noise.
        let tag = b"QPBDECHSdcfFpX"[seed as usize % 14];
        client.send(&message(tag, &noise(seed, (seed as usize * 7) % 90)));
        client.send(&noise(seed + 1000, 30));
        let _ = client.0.shutdown(std::net::Shutdown::Write);
        client.rest();
    }
    for (first, what) in [
        (&[0, 0, 0, 4][..], "too short"),
        (&[0x7F, 0xFF, 0xFF, 0xFF, 0, 3, 0, 0], "2 GiB"),
        (&[0, 0, 0x27, 0x11, 0, 3, 0, 0], "a byte more than is possible"),
        (&[0, 0, 0, 9, 0, 2, 0, 0, 0], "an old version"),
    ] {
        let mut client = Client::connect(&world);
        client.send(first);
        let rest = client.rest();
        assert!(rest.starts_with(b"E") && rest.windows(5).any(|code| code == b"08P01" || code == b"0A000"), "{what}");
    }
    assert_eq!(world.rows("SELECT 1"), "1");
}

#[test]
fn a_message_of_a_gigabyte_is_refused_before_it_is_read() {
    let world = World::start_with(|config, _| config.limits.message_bytes = 1 << 20);
    let mut client = Client::session(&world);
    client.send(b"Q\x3f\xff\xff\xff");
    let rest = client.rest();
    let text = String::from_utf8_lossy(&rest);
    assert!(text.contains("08P01") && text.contains("1048576"), "{text}");
    let long = format!("SELECT '{}'", "x".repeat(1 << 19));
    let mut client = Client::session(&world);
    client.send(&message(b'Q', format!("{long}\0").as_bytes()));
    assert_eq!(client.until(b'Z').0, b"TDCZ");
}

#[test]
fn who_does_not_log_in_is_let_go() {
    let world = World::start_with(|config, _| {
        config.limits.authentication = Duration::from_millis(300);
        config.limits.connections = 3;
    });
    let silent: Vec<Client> = (0..3).map(|_| Client::connect(&world)).collect();
    // One more connection is refused with an error.
    let began = Instant::now();
    let told = loop {
        let rest = Client::connect(&world).rest();
        if rest.windows(5).any(|code| code == b"53300") {
            break true;
        }
        if began.elapsed() > Duration::from_secs(10) {
            break false;
        }
    };
    assert!(told);
    for client in silent {
        assert_eq!(client.rest(), b"");
    }
    assert_eq!(world.rows("SELECT 1"), "1");
}

#[test]
fn portals_keep_their_rows_between_executions() {
    let world = World::start();
    let mut client = Client::session(&world);
    let sql = b"\0SELECT value FROM generate_series(1, 5)\0\0\0";
    let bind = b"\0\0\0\0\0\0\0\0";
    let execute = b"\0\0\0\0\x02";
    let all = [
        message(b'P', sql),
        message(b'B', bind),
        message(b'D', b"P\0"),
        message(b'E', execute),
        message(b'E', execute),
        message(b'E', execute),
        message(b'E', execute),
        message(b'S', b""),
    ];
    client.send(&all.concat());
    let (tags, _) = client.until(b'Z');
    assert_eq!(String::from_utf8(tags).unwrap(), "12TDDsDDsDCCZ");
    // After an error, everything up to Sync is passed over.
    client.send(&[message(b'P', b"\0SELEC\0\0\0"), message(b'B', bind), message(b'E', execute)].concat());
    client.send(&message(b'S', b""));
    assert_eq!(client.until(b'Z').0, b"EZ");
    // A count of rows that no memory holds is a count, not a size.
    client.send(&[message(b'P', sql), message(b'B', bind), message(b'E', b"\0\x7f\xff\xff\xff")].concat());
    client.send(&message(b'S', b""));
    assert_eq!(client.until(b'Z').0, b"12DDDDDCZ");
    // More values than parameters.
    client.send(&[message(b'P', sql), message(b'B', b"\0\0\0\0\0\x01\0\0\0\x01x\0\0")].concat());
    client.send(&message(b'S', b""));
    assert_eq!(client.until(b'Z').0, b"1EZ");
    client.send(&message(b'Q', b"  ;; \0"));
    assert_eq!(client.until(b'Z').0, b"IZ");
}

#[test]
fn a_query_whose_client_has_gone_is_stopped() {
    let world = World::start();
    let mut client = Client::session(&world);
    let slow = "SELECT count(*) FROM generate_series(1, 1000000000000) WHERE value % 3 = 7\0";
    client.send(&message(b'Q', slow.as_bytes()));
    let count = || {
        world.rows("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%generate_series(1, 1000000000000)%' AND pid <> pg_backend_pid()")
    };
    let wait = |expected: &str| {
        let began = Instant::now();
        while count() != expected {
            assert!(began.elapsed() < Duration::from_secs(30), "{expected}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    wait("1");
    drop(client);
    wait("0");
}

#[test]
fn health_and_metrics_are_answered() {
    let world = World::start_with(|config, _| config.admin = Some("127.0.0.1:0".parse().unwrap()));
    let address = world.server.as_ref().unwrap().admin_address().unwrap();
    let get = |request: &[u8]| {
        let mut socket = TcpStream::connect(address).unwrap();
        socket.write_all(request).unwrap();
        let mut answer = String::new();
        let _ = socket.read_to_string(&mut answer);
        answer
    };
    assert!(get(b"GET /healthz HTTP/1.1\r\n\r\n").ends_with("ok\n"));
    assert!(get(b"GET /other HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    assert!(get(b"POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
    get(&noise(1, 10_000));
    assert_eq!(world.rows("SELECT 1"), "1");
    world.psql(&["-c", "SELECT * FROM missing"]).fails(1);
    let metrics = get(b"GET /metrics HTTP/1.1\r\n\r\n");
    for line in ["queries_total{outcome=\"ok\"} 1", "queries_total{outcome=\"42P01\"} 1", "rows_total 1", "# EOF"] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}
