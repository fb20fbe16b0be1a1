//! HTTP under a policy: requests go only to permitted hosts, and only to permitted addresses.
//!
//! DNS rebinding (a name that resolves to another address the second time) gains nothing: a name is
//! resolved when a connection is made, and forbidden addresses are removed from that answer.
//! Redirects are not followed, since their target was not checked. Proxies are not used, since they
//! would connect in the engine's place.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use futures::FutureExt;
use futures::future::BoxFuture;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use pushdowndb_contract::{Error, ErrorKind, Result};
use pushdowndb_http::dns::{Addrs, Name, Resolve, Resolving};
use pushdowndb_http::{Connector, Resolver};
use url::{Host, Url};

use super::Access;
use super::place::Store;
use super::rules::{Rules, refused};
use crate::error::find_ours;

/// The HTTP clients of a session under an access policy, cached since making one reads all root
/// certificates.
#[derive(Debug, Default)]
pub(crate) struct HttpClients {
    /// For hosts that SQL names: connects only to public or listed addresses.
    public: OnceLock<HttpClient>,
    /// For the endpoint in the program's own settings, which may have any address.
    endpoint: OnceLock<HttpClient>,
}

impl HttpClients {
    /// Returns a client for one web server that SQL named; `None` without a policy.
    pub(crate) fn web(
        &self,
        access: &Access,
        server: &Url,
        connector: &Connector,
        options: &ClientOptions,
    ) -> Result<Option<HttpClient>> {
        let Some(rules) = access.rules() else { return Ok(None) };
        let client = self.public(rules, connector, options)?;
        let checked =
            CheckedHttp { client, rules: Arc::clone(rules), stores: vec![Store::of(server)?], is_public: true };
        Ok(Some(HttpClient::new(checked)))
    }

    /// Returns a client for one bucket of the session's endpoint; `None` without a policy.
    /// `is_named` says that the endpoint is from the program's own settings, so that it may have
    /// any address.
    pub(crate) fn bucket(
        &self,
        access: &Access,
        endpoint: &Url,
        bucket: &str,
        is_named: bool,
        (connector, options): (&Connector, &ClientOptions),
    ) -> Result<Option<HttpClient>> {
        let Some(rules) = access.rules() else { return Ok(None) };
        let client = match is_named {
            true => one(&self.endpoint, || client(connector, options, None))?,
            false => self.public(rules, connector, options)?,
        };
        let mut stores = vec![Store::of(endpoint)?];
        // Buckets may be hosts of their own at the endpoint.
        let mut own = endpoint.clone();
        if let Some(host) = endpoint.host_str()
            && own.set_host(Some(&format!("{bucket}.{host}"))).is_ok()
        {
            stores.push(Store::of(&own)?);
        }
        Ok(Some(HttpClient::new(CheckedHttp { client, rules: Arc::clone(rules), stores, is_public: !is_named })))
    }

    fn public(&self, rules: &Arc<Rules>, connector: &Connector, options: &ClientOptions) -> Result<HttpClient> {
        let resolver = CheckedResolver { rules: Arc::clone(rules), lookup: Arc::new(SystemLookup) };
        one(&self.public, || client(connector, options, Some(resolver)))
    }
}

fn one(kept: &OnceLock<HttpClient>, make: impl FnOnce() -> Result<HttpClient>) -> Result<HttpClient> {
    if let Some(client) = kept.get() {
        return Ok(client.clone());
    }
    let client = make()?;
    Ok(kept.get_or_init(|| client).clone())
}

fn client(connector: &Connector, options: &ClientOptions, resolver: Option<CheckedResolver>) -> Result<HttpClient> {
    let resolver = resolver.map(|resolver| Resolver(Arc::new(resolver)));
    let connector = Connector { resolver, ..connector.clone() };
    // Nothing was sent yet, so an error is about the settings.
    connector.connect(options).map_err(|error| Error::invalid(error.to_string()))
}

/// Sends requests to permitted hosts only.
#[derive(Debug)]
pub(crate) struct CheckedHttp {
    client: HttpClient,
    rules: Arc<Rules>,
    /// The permitted hosts, each with scheme and port.
    stores: Vec<Store>,
    /// Whether the hosts must have addresses that are public or listed.
    is_public: bool,
}

impl CheckedHttp {
    fn check(&self, address: &str) -> Result<()> {
        // Parsed as the client parses it.
        let url = Url::parse(address).map_err(|error| Error::invalid("is no URL").with_source(error))?;
        let store = Store::of(&url)?;
        if !self.stores.contains(&store) {
            let message = format!("{}: a request for another host than was allowed", refused(&store.to_string()));
            return Err(Error::new(ErrorKind::Denied, message));
        }
        // A host that is written as an address is never resolved, so it is checked here.
        let written = match url.host() {
            Some(Host::Ipv4(address)) => Some(IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => Some(IpAddr::V6(address)),
            Some(Host::Domain(_)) | None => None,
        };
        match written.filter(|_| self.is_public) {
            Some(address) => self.rules.check_address(&address.to_canonical().to_string(), address),
            None => Ok(()),
        }
    }
}

#[async_trait]
impl HttpService for CheckedHttp {
    async fn call(&self, request: HttpRequest) -> std::result::Result<HttpResponse, HttpError> {
        // `object_store` does not retry errors of kind `Unknown`.
        let refusal = |error| HttpError::new(HttpErrorKind::Unknown, error);
        self.check(&request.uri().to_string()).map_err(refusal)?;
        let answered = self.client.execute(request).await;
        answered.map_err(|error| match find_ours(&error) {
            Some(found) => refusal(found),
            None => error,
        })
    }
}

/// A DNS resolver that removes the addresses that the policy forbids from each answer.
struct CheckedResolver {
    rules: Arc<Rules>,
    lookup: Arc<dyn Lookup>,
}

/// Name resolution, which tests replace.
trait Lookup: Send + Sync {
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>>;
}

struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
        async move { Ok(tokio::net::lookup_host((name.as_str(), 0)).await?.collect()) }.boxed()
    }
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (rules, lookup) = (Arc::clone(&self.rules), Arc::clone(&self.lookup));
        let name = name.as_str().to_owned();
        Box::pin(async move {
            let found = lookup.lookup(name.clone()).await?;
            let host = name.strip_suffix('.').unwrap_or(&name).to_ascii_lowercase();
            Ok(Box::new(allowed(&rules, &host, found)?.into_iter()) as Addrs)
        })
    }
}

/// Returns the addresses in `found` that the policy permits for `host`. Fails if it refuses all of
/// them.
fn allowed(rules: &Rules, host: &str, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>> {
    let mut refusal = None;
    let mut allowed = Vec::with_capacity(found.len());
    for address in found {
        match rules.check_address(host, address.ip()) {
            Ok(()) => allowed.push(address),
            Err(error) => refusal = Some(error),
        }
    }
    match refusal {
        Some(error) if allowed.is_empty() => Err(error),
        _ => Ok(allowed),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::access::AccessPolicy;

    /// A name that resolves to another address each time.
    struct Rebinding(Vec<&'static str>, AtomicUsize);

    impl Lookup for Rebinding {
        fn lookup(&self, _: String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
            let at = self.1.fetch_add(1, Ordering::Relaxed);
            let address = self.0[at % self.0.len()].parse().unwrap();
            async move { Ok(vec![SocketAddr::new(address, 0)]) }.boxed()
        }
    }

    fn checked(policy: AccessPolicy, server: &str, lookup: impl Lookup + 'static) -> HttpClient {
        let access = Access::new(policy);
        let rules = Arc::clone(access.rules().unwrap());
        let resolver = CheckedResolver { rules: Arc::clone(&rules), lookup: Arc::new(lookup) };
        let options = ClientOptions::new().with_allow_http(true);
        let client = client(&Connector::default(), &options, Some(resolver)).unwrap();
        let stores = vec![Store::of(&Url::parse(server).unwrap()).unwrap()];
        HttpClient::new(CheckedHttp { client, rules, stores, is_public: true })
    }

    async fn get(client: &HttpClient, address: &str) -> Result<u16> {
        let request = http::Request::get(address).body(bytes::Bytes::new().into()).unwrap();
        match client.execute(request).await {
            Ok(answer) => Ok(answer.status().as_u16()),
            Err(error) => Err(find_ours(&error).unwrap_or_else(|| Error::internal(format!("{error:?}")))),
        }
    }

    fn is_untouched(listener: &TcpListener) -> bool {
        listener.set_nonblocking(true).unwrap();
        listener.accept().is_err()
    }

    #[tokio::test]
    async fn names_of_private_addresses_are_not_connected_to() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://rebind.example:{}", listener.local_addr().unwrap().port());
        let policy = AccessPolicy::nothing().and_read(&server).unwrap();
        let client = checked(policy, &server, Rebinding(vec!["127.0.0.1", "::ffff:127.0.0.1", "0.0.0.0"], 0.into()));
        for _ in 0..3 {
            let error = get(&client, &format!("{server}/x")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
            assert!(error.to_string().contains("rebind.example"), "{error}");
        }
        assert!(is_untouched(&listener));
    }

    #[tokio::test]
    async fn listed_addresses_are_connected_to() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://inside.example:{}", listener.local_addr().unwrap().port());
        let policy = AccessPolicy::nothing().and_read(&server).unwrap().and_addresses("127.0.0.0/8").unwrap();
        let client = checked(policy, &server, Rebinding(vec!["127.0.0.1"], 0.into()));
        let answer = std::thread::spawn(move || answer(&listener, "HTTP/1.1 204 No Content\r\n\r\n"));
        assert_eq!(get(&client, &format!("{server}/x")).await.unwrap(), 204);
        answer.join().unwrap();
    }

    #[tokio::test]
    async fn redirects_are_not_followed() {
        let (listener, other) = (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let server = format!("http://{}", listener.local_addr().unwrap());
        let policy = AccessPolicy::nothing().and_read(&server).unwrap();
        let client = checked(policy, &server, SystemLookup);
        let to = format!("HTTP/1.1 302 Found\r\nlocation: http://{}/\r\n\r\n", other.local_addr().unwrap());
        let answer = std::thread::spawn(move || answer(&listener, &to));
        let error = get(&client, &format!("{server}/x")).await.unwrap_err();
        assert!(error.to_string().contains("redirects are not followed"), "{error}");
        answer.join().unwrap();
        assert!(is_untouched(&other));
        // A request that is itself for another host, which no part of the engine makes.
        let elsewhere = get(&client, &format!("http://{}/", other.local_addr().unwrap())).await.unwrap_err();
        assert_eq!(elsewhere.kind(), ErrorKind::Denied);
        assert!(is_untouched(&other));
    }

    #[tokio::test]
    async fn addresses_in_the_place_of_names_are_looked_at() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let policy = AccessPolicy::nothing().and_read("http://").unwrap();
        for host in
            ["127.0.0.1", "0x7f.1", "2130706433", "0177.0.0.1", "127.1", "[::ffff:127.0.0.1]", "0.0.0.0", "127.0.0.1."]
        {
            let server = format!("http://{host}:{port}");
            let client = checked(policy.clone(), &server, SystemLookup);
            let error = get(&client, &format!("{server}/x")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied, "{host}: {error}");
        }
        let metadata = "http://169.254.169.254/latest/meta-data/";
        let error = get(&checked(policy, metadata, SystemLookup), metadata).await.unwrap_err();
        assert!(error.to_string().contains("link-local"), "{error}");
        assert!(is_untouched(&listener));
    }

    fn answer(listener: &TcpListener, text: &str) {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; 1024];
        let _ = stream.read(&mut head).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
    }
}
