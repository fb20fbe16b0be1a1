use object_store::client::{HttpClient, HttpError, HttpRequest, HttpResponse, HttpService};
use url::Url;

use super::*;
use crate::endpoints::http::Connections;
use crate::endpoints::node::STRETCH_BYTES;
use crate::endpoints::profile::EndpointProfile;

#[derive(Debug)]
struct Nowhere;

#[async_trait::async_trait]
impl HttpService for Nowhere {
    async fn call(&self, _: HttpRequest) -> Result<HttpResponse, HttpError> {
        Err(HttpError::new(object_store::client::HttpErrorKind::Connect, std::io::Error::other("nowhere")))
    }
}

fn fleet(nodes: usize) -> Fleet {
    let node = |number: usize| {
        let url = Url::parse(&format!("http://node{number}:9000")).unwrap();
        let connections = Connections::open(HttpClient::new(Nowhere), EndpointProfile::new(url.as_str(), None));
        Arc::new(Node::new(&url, connections))
    };
    Fleet::new((0..nodes).map(node).collect())
}

#[test]
fn a_node_that_leaves_moves_its_own_share_alone() {
    let (three, four) = (fleet(3), fleet(4));
    let keys: Vec<String> = (0..3_000).map(|number| format!("t/{number}.parquet")).collect();
    let mut shares = [0; 4];
    for key in &keys {
        let place = Place::of(key, Some("e"), 0);
        let (of_three, of_four) = (three.home(&place), four.home(&place));
        shares[of_four] += 1;
        assert!(of_four == 3 || of_four == of_three, "{key}");
    }
    assert!(shares.iter().all(|share| (650..850).contains(share)), "{shares:?}");
    let stretches = (0..100).map(|number| four.home(&Place::of("t/1.csv", Some("e"), number * STRETCH_BYTES)));
    assert_eq!(stretches.collect::<std::collections::BTreeSet<_>>().len(), 4, "a large object has many nodes");
}

#[test]
fn nodes_that_failed_rest_and_busy_ones_come_last() {
    let fleet = fleet(3);
    let place = Place::of("t/1.csv", Some("e"), 0);
    let first = |fleet: &Fleet| fleet.order(&place)[0].url.clone();
    let home = fleet.nodes[fleet.home(&place)].clone();
    assert_eq!(first(&fleet), home.url);

    let requests: Vec<_> = (0..4).map(|_| home.begin()).collect();
    assert_ne!(first(&fleet), home.url);
    assert_eq!(fleet.order(&place).last().unwrap().url, home.url);
    drop(requests);
    assert_eq!(first(&fleet), home.url);

    home.failed();
    assert_eq!(fleet.order(&place).len(), 2);
    home.answered();
    assert_eq!(first(&fleet), home.url);

    fleet.nodes.iter().for_each(|node| node.failed());
    assert_eq!(fleet.order(&place).len(), 3, "if none is well, all are tried");
}

#[tokio::test]
async fn addresses_are_urls_of_nodes() {
    let addresses = Addresses::default();
    let urls = |nodes: &'static str| addresses.of(nodes, |_| Ok(()));
    let found = urls(" http://b:9000,http://a:9000/, http://b:9000 ,").await.unwrap();
    assert_eq!(found.iter().map(Url::as_str).collect::<Vec<_>>(), ["http://a:9000/", "http://b:9000/"]);
    assert!(urls("").await.unwrap().is_empty());
    let local = urls("dns+http://localhost:9000").await.unwrap();
    assert!(local.iter().any(|url| url.as_str() == "http://127.0.0.1:9000/"), "{local:?}");
    for wrong in ["b:9000", "s3://b", "http://b/x", "http://u@b", "dns+https://b", "dns+b"] {
        let error = urls(wrong).await.unwrap_err().to_string();
        assert!(error.contains("pushdown.nodes") && error.contains(wrong), "{error}");
    }
}
