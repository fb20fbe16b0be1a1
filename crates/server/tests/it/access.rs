//! What users may use, and how they share a server.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use pushdowndb_engine::AccessPolicy;
use pushdowndb_server::Verifier;

use crate::world::World;

/// A server with two users, each with a folder of its own, and a table that is declared for both.
fn shared() -> World {
    World::start_with(|config, folder| {
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        for name in ["ann", "bob"] {
            fs::create_dir_all(path(&format!("{name}/out"))).unwrap();
            fs::write(path(&format!("{name}/x.csv")), format!("owner,n\n{name},1\n{name},2\n")).unwrap();
        }
        let catalog = path("catalog.sql");
        let declared = format!("CREATE EXTERNAL TABLE of_ann STORED AS CSV LOCATION '{}';\n", path("ann/x.csv"));
        fs::write(&catalog, declared).unwrap();
        config.engine.catalog = Some(catalog.into());
        config.access = AccessPolicy::nothing();
        let user = |name: &str, more: &str| {
            format!(
                "[users.{name}]\npassword = \"{}\"\nread = [\"{}\"]\nwrite = [\"{}\"]\n{more}\n",
                Verifier::new(name),
                path(name),
                path(&format!("{name}/out"))
            )
        };
        let limits = "max_bytes = \"1000\"\nqueries = 1\n[users.bob.settings]\n\"pushdown.level\" = \"none\"";
        let users = [user("ann", "admin = true"), user("bob", limits)].concat();
        fs::write(path("users.toml"), users).unwrap();
        config.users = Some(path("users.toml").into());
        config.limits.queries = 2;
    })
}

fn run(world: &World, user: &str, sql: &str) -> Result<String, String> {
    let done = world.psql_as(&format!("user={user}"), user, &["-A", "-t", "-c", sql]);
    if done.code() == 0 { Ok(done.stdout().trim().to_owned()) } else { Err(done.stderr()) }
}

#[test]
fn a_user_uses_what_is_listed_and_nothing_else() {
    let world = shared();
    let (ann, bob) = (world.path("ann"), world.path("bob"));
    assert_eq!(run(&world, "ann", &format!("SELECT sum(n) FROM '{ann}/x.csv'")).unwrap(), "3");
    assert_eq!(run(&world, "ann", "SELECT sum(n) FROM of_ann").unwrap(), "3");
    for sql in [
        format!("SELECT * FROM '{ann}/x.csv'"),
        format!("SELECT * FROM '{bob}/../ann/x.csv'"),
        "SELECT * FROM of_ann".to_owned(),
        "SELECT * FROM '/etc/passwd.csv'".to_owned(),
        "SELECT * FROM 's3://bucket/x.csv'".to_owned(),
        "SELECT * FROM 'http://169.254.169.254/x.csv'".to_owned(),
        format!("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{ann}/x.csv'"),
        format!("CREATE VIEW v AS SELECT * FROM '{ann}/x.csv'"),
        format!("COPY (SELECT 1 AS a) TO '{bob}/x2.csv'"),
        format!("COPY (SELECT * FROM '{ann}/x.csv') TO STDOUT"),
        format!("EXPLAIN ANALYZE SELECT * FROM '{ann}/x.csv'"),
        format!("PREPARE p AS SELECT * FROM '{ann}/x.csv'; EXECUTE p"),
        format!("DECLARE c CURSOR FOR SELECT * FROM '{ann}/x.csv'"),
        format!("SET pushdown.price_book = '{ann}/x.csv'"),
        "SET pushdown.spill_disk = '/tmp'".to_owned(),
        "SET datafusion.runtime.memory_limit = '100G'".to_owned(),
        "RESET pushdown.memory".to_owned(),
        "/* x */ SET pushdown.memory = 'none' -- y".to_owned(),
        "VACUUM TEMPORARY FILES".to_owned(),
        "SET ROLE ann".to_owned(),
    ] {
        let error = run(&world, "bob", &sql).expect_err(&sql);
        assert!(error.contains("42501"), "{sql}: {error}");
    }
    run(&world, "bob", &format!("COPY (SELECT 1 AS a) TO '{bob}/out/new.csv'")).unwrap();
    assert_eq!(fs::read_to_string(world.path("bob/out/new.csv")).unwrap(), "a\n1\n");
    // Names of declared tables are seen, their columns only by who may read them.
    let columns = "SELECT count(*) FROM information_schema.columns WHERE table_name = 'of_ann'";
    assert_eq!(run(&world, "ann", columns).unwrap(), "2");
    assert_eq!(run(&world, "bob", columns).unwrap(), "0");
}

#[test]
fn sessions_do_not_see_each_other() {
    let world = shared();
    let script =
        "CREATE TABLE mine AS SELECT 1 AS a; SET pushdown.level = 'select'; SELECT * FROM mine; SHOW pushdown.level";
    assert_eq!(run(&world, "ann", script).unwrap().lines().last(), Some("select"));
    let error = run(&world, "ann", "SELECT * FROM mine").unwrap_err();
    assert!(error.contains("42P01"), "{error}");
    assert_eq!(run(&world, "ann", "SHOW pushdown.level").unwrap(), "auto");
    assert_eq!(run(&world, "bob", "SHOW pushdown.level").unwrap(), "none", "as the file of users says");
    let discarded = "CREATE VIEW v AS SELECT 1 AS a; SET pushdown.level = 'select'";
    let args = ["-A", "-t", "-c", discarded, "-c", "DISCARD ALL", "-c", "SHOW pushdown.level"];
    assert_eq!(world.psql_as("user=bob", "bob", &args).ok().lines().last(), Some("none"));
    let gone = world.psql_as("user=bob", "bob", &["-c", discarded, "-c", "DISCARD ALL", "-c", "SELECT * FROM v"]);
    assert!(gone.fails(1).contains("42P01"));
}

#[test]
fn a_limit_of_a_user_is_not_raised_by_set() {
    let world = World::start_with(|config, folder| {
        let path = folder.path().join("users.toml");
        let user = format!("[users.ann]\npassword = \"{}\"\ntimeout_s = 1\nread = []\n", Verifier::new("ann"));
        fs::write(&path, user).unwrap();
        config.users = Some(path);
    });
    let slow = "SELECT count(*) FROM generate_series(1, 1000000000000) WHERE value % 3 = 7";
    let began = Instant::now();
    let raised = format!("SET pushdown.query_timeout_s = 1000; SET statement_timeout = 0; {slow}");
    let error = run(&world, "ann", &raised).unwrap_err();
    assert!(error.contains("57014") && began.elapsed() < Duration::from_secs(30), "{error}");
}

#[test]
fn queries_wait_their_turn_and_are_listed_and_stopped() {
    let world = shared();
    let slow = "SELECT count(*) FROM generate_series(1, 1000000000000) WHERE value % 3 = 7";
    thread::scope(|scope| {
        let bobs: Vec<_> = (0..2).map(|_| scope.spawn(|| run(&world, "bob", slow))).collect();
        let list = "SELECT pid, coalesce(wait_event, 'runs') FROM pg_stat_activity \
                    WHERE usename = 'bob' AND state = 'active' ORDER BY 2";
        let began = Instant::now();
        let pids = loop {
            assert!(began.elapsed() < Duration::from_secs(60), "both are listed");
            let rows = run(&world, "ann", list).unwrap();
            let rows: Vec<(String, String)> =
                rows.lines().filter_map(|row| row.split_once('|')).map(|(a, b)| (a.to_owned(), b.to_owned())).collect();
            // He may run one at a time.
            if rows.len() == 2 && rows[0].1 == "Admission" && rows[1].1 == "runs" {
                break rows;
            }
            thread::sleep(Duration::from_millis(50));
        };
        // Another user is not held up, and sees no query that is not hers to see.
        assert_eq!(run(&world, "ann", "SELECT 1 + 1").unwrap(), "2");
        assert!(run(&world, "ann", "SHOW QUERIES").unwrap().contains("generate_series"));
        for (pid, _) in pids {
            assert_eq!(run(&world, "ann", &format!("SELECT pg_cancel_backend({pid})")).unwrap(), "t");
        }
        for bob in bobs {
            let error = bob.join().unwrap().unwrap_err();
            assert!(error.contains("57014"), "{error}");
        }
    });
    thread::scope(|scope| {
        let ann = scope.spawn(|| run(&world, "ann", slow));
        let began = Instant::now();
        let list = "SELECT pid FROM pg_stat_activity WHERE usename = 'ann' AND state = 'active'";
        let pid = loop {
            let pid = run(&world, "bob", list).unwrap();
            if !pid.is_empty() {
                break pid;
            }
            assert!(began.elapsed() < Duration::from_secs(60));
        };
        let hidden = run(&world, "bob", "SELECT query FROM pg_stat_activity WHERE usename = 'ann'").unwrap();
        assert_eq!(hidden, "<insufficient privilege>");
        assert!(run(&world, "bob", &format!("KILL {pid}")).unwrap_err().contains("42501"));
        run(&world, "ann", &format!("KILL {pid}")).unwrap();
        assert!(ann.join().unwrap().unwrap_err().contains("57014"));
    });
}
