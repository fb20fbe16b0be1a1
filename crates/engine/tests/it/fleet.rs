//! Several gateways before one bucket: fragments go to the node of their place, and to another one
//! when that is gone, silent or slow.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::time::Duration;

use pushdowndb_datagen::Format;
use pushdowndb_engine::Engine;
use pushdowndb_node::{Credentials, Gateway, Node, NodeConfig, Storage};
use pushdowndb_testkit::seed;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::world::{KEY, Rows, SECRET, World, assert_same, failure, queries, rows, rows_in_spite};

/// The node's names of what is pushed.
const FRAGMENT: &str = "RunFragment";
const SELECT: &str = "SelectObjectContent";

/// What a door does with the bytes of a node's connections.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Way {
    /// They pass.
    Open,
    /// They pass slowly.
    Slow,
    /// They stay.
    Silent,
    /// Connections break.
    Gone,
}

impl Way {
    fn of(number: u8) -> Self {
        [Self::Open, Self::Slow, Self::Silent, Self::Gone][usize::from(number % 4)]
    }
}

/// A forwarder before a node, which can fail as a machine does.
pub struct Door {
    pub address: SocketAddr,
    way: Arc<AtomicU8>,
}

impl Door {
    pub async fn before(node: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let (address, way) = (listener.local_addr().expect("an address"), Arc::new(AtomicU8::new(0)));
        let shared = Arc::clone(&way);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let way = Arc::clone(&shared);
                tokio::spawn(async move {
                    if Way::of(way.load(SeqCst)) == Way::Gone {
                        return;
                    }
                    let Ok(far) = TcpStream::connect(node).await else { return };
                    let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
                    // Either direction that ends breaks both.
                    tokio::select! {
                        () = forward(near_in, far_out, Arc::clone(&way)) => {}
                        () = forward(far_in, near_out, way) => {}
                    }
                });
            }
        });
        Self { address, way }
    }

    pub fn set(&self, way: Way) {
        self.way.store(way as u8, SeqCst);
    }
}

async fn forward(mut from: impl AsyncReadExt + Unpin, mut to: impl AsyncWriteExt + Unpin, way: Arc<AtomicU8>) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = tokio::select! {
            read = from.read(&mut buffer) => read,
            () = until(&way, Way::Gone) => return,
        };
        let Ok(read @ 1..) = read else { return };
        match Way::of(way.load(SeqCst)) {
            Way::Open => {}
            Way::Slow => tokio::time::sleep(Duration::from_millis(50)).await,
            Way::Silent => {
                while Way::of(way.load(SeqCst)) == Way::Silent {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            Way::Gone => return,
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

async fn until(way: &AtomicU8, wanted: Way) {
    while Way::of(way.load(SeqCst)) != wanted {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A store with TPC-H, and gateways before it, each behind a door.
struct Fleet {
    world: World,
    nodes: Vec<Node>,
    doors: Vec<Door>,
}

impl Fleet {
    async fn of(nodes: usize, format: Format) -> Self {
        let world = World::node().await;
        world.tpch("data", format).await;
        let mut fleet = Self { world, nodes: vec![], doors: vec![] };
        for _ in 0..nodes {
            let mut gateway = Gateway::new("s3://data".parse().expect("a URL"));
            gateway.endpoint = Some(fleet.world.endpoint.clone());
            let options = [("aws_access_key_id", KEY), ("aws_secret_access_key", SECRET), ("aws_region", "us-east-1")];
            gateway.options = options.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
            let mut config = NodeConfig::new(Storage::Gateway(gateway));
            config.credentials =
                Some(Credentials { access_key_id: KEY.to_owned(), secret_access_key: SECRET.to_owned() });
            let node = pushdowndb_node::start(config).await.expect("a gateway");
            let address = node.endpoint().to_string().trim_start_matches("http://").trim_end_matches('/').parse();
            fleet.doors.push(Door::before(address.expect("an address")).await);
            fleet.nodes.push(node);
        }
        fleet
    }

    async fn engine(&self, level: &str) -> Engine {
        let engine = self.world.engine_with(level, "data").await;
        let nodes: Vec<String> = self.doors.iter().map(|door| format!("http://{}", door.address)).collect();
        engine.execute(&format!("SET pushdown.nodes = '{}'", nodes.join(","))).await.expect("a setting");
        engine
    }

    /// The requests of an operation that each node has had.
    fn requests(&self, operation: &str) -> Vec<u64> {
        self.nodes.iter().map(|node| node.counters().requests_of(operation)).collect()
    }
}

/// The rows of every query, without nodes.
async fn wanted(world: &World) -> BTreeMap<String, Rows> {
    let engine = world.engine_with("none", "data").await;
    let mut all = BTreeMap::new();
    for (name, sql) in queries() {
        all.insert(name, rows(&engine, &sql).await.expect("rows").0);
    }
    all
}

/// Every query has the same rows, its fragments go to the nodes alone, and to the same ones again.
#[tokio::test(flavor = "multi_thread")]
async fn fragments_go_to_the_nodes_of_their_places() {
    for format in [Format::Csv, Format::Parquet] {
        let fleet = Fleet::of(3, format).await;
        let want = wanted(&fleet.world).await;
        for (level, operation) in [("fragment", FRAGMENT), ("select", SELECT)] {
            let engine = fleet.engine(level).await;
            for (name, sql) in queries() {
                let (got, _) = rows(&engine, &sql).await.unwrap_or_else(|error| panic!("{name} at {level}: {error}"));
                assert_same(&format!("{name} at {level}"), &got, &want[&name]);
            }
            let pushed = fleet.requests(operation);
            assert!(pushed.iter().all(|requests| *requests > 5), "{level}: {pushed:?}");
            assert_eq!(fleet.world.requests_of(operation), 0, "{level}: the store itself is asked for bytes alone");

            let sql = "SELECT count(*), min(l_comment) FROM lineitem WHERE l_quantity < 10";
            let mut shares = Vec::new();
            for _ in 0..3 {
                let before = fleet.requests(operation);
                rows(&engine, sql).await.expect("rows");
                let after = fleet.requests(operation);
                shares.push(after.iter().zip(before).map(|(after, before)| after - before).collect::<Vec<_>>());
            }
            assert_eq!(shares[1], shares[2], "{level}: the same nodes have the same places");
            if level == "fragment" && format == Format::Csv {
                // What a node has learned of its places it has at the next query: each split is a hit.
                let hits = || fleet.nodes.iter().map(|node| node.counters().zone_hits).collect::<Vec<_>>();
                let (before, splits) = (hits(), splits_of(&engine, sql).await);
                rows(&engine, sql).await.expect("rows");
                let met: u64 = hits().iter().zip(&before).map(|(after, before)| after - before).sum();
                assert_eq!(met, splits, "{before:?}, {:?}", hits());
            }
        }
    }
}

/// The splits of the scan of a query, as EXPLAIN tells them.
async fn splits_of(engine: &Engine, sql: &str) -> u64 {
    let (plan, _) = rows(engine, &format!("EXPLAIN {sql}")).await.expect("a plan");
    let text = format!("{plan:?}");
    let before = text.split(" splits)").next().unwrap_or_default();
    before.rsplit(' ').next().and_then(|count| count.parse().ok()).expect("a number of splits")
}

/// Nodes that break, go silent, slow down and come back while queries run.
#[tokio::test(flavor = "multi_thread")]
async fn every_answer_is_right_while_nodes_fail() {
    let fleet = Fleet::of(3, Format::Csv).await;
    let want = wanted(&fleet.world).await;
    let engine = fleet.engine("fragment").await;
    let mut random = StdRng::seed_from_u64(seed::seed());
    for _ in 0..2 {
        for (number, (name, sql)) in queries().into_iter().enumerate() {
            let running = rows_in_spite(&engine, &sql);
            let door = &fleet.doors[random.random_range(0..3)];
            // A silent one costs seconds.
            let way = if number % 12 == 0 { Way::Silent } else { [Way::Slow, Way::Gone][random.random_range(0..2)] };
            let after = Duration::from_millis(random.random_range(0..30));
            let failing = async {
                tokio::time::sleep(after).await;
                door.set(way);
            };
            let (ran, ()) = tokio::join!(running, failing);
            let (got, _) = ran.unwrap_or_else(|error| panic!("{name} beside a node that is {way:?}: {error}"));
            assert_same(&format!("{name} beside a node that is {way:?}"), &got, &want[&name]);
            if random.random_bool(0.5) {
                fleet.doors.iter().for_each(|door| door.set(Way::Open));
            }
        }
        fleet.doors.iter().for_each(|door| door.set(Way::Open));
    }
    assert!(fleet.requests(FRAGMENT).iter().all(|requests| *requests > 5));
}

/// Without any node that answers, the store itself is asked. Addresses that are none are errors.
#[tokio::test(flavor = "multi_thread")]
async fn without_nodes_the_store_is_asked() {
    let fleet = Fleet::of(2, Format::Csv).await;
    fleet.doors.iter().for_each(|door| door.set(Way::Gone));
    let engine = fleet.engine("auto").await;
    let (got, _) = rows(&engine, "SELECT count(*) FROM nation").await.expect("rows");
    assert_eq!(got, [["25"]]);
    // Nor are nodes asked about buckets with an endpoint of their own.
    fleet.doors.iter().for_each(|door| door.set(Way::Open));
    let engine = fleet.engine("fragment").await;
    let sql = format!(
        "SELECT count(*) FROM read_csv('s3://data/data/nation/*.csv@{}') WHERE n_regionkey = 1",
        fleet.world.endpoint.trim_end_matches('/')
    );
    let before = fleet.world.requests_of(FRAGMENT);
    let (got, _) = rows(&engine, &sql).await.expect("rows");
    assert_eq!((got, fleet.world.requests_of(FRAGMENT) - before), (vec![vec!["5".to_owned()]], 1));
    for (wrong, told) in [("s3://data", "pushdown.nodes"), ("http://a/b", "http://host:9000")] {
        engine.execute(&format!("SET pushdown.nodes = '{wrong}'")).await.expect("a setting");
        let error = failure(&engine, "SELECT count(*) FROM nation").await.to_string();
        assert!(error.contains(told), "{error}");
    }
}
