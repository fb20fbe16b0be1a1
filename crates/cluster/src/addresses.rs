//! The addresses of workers in the setting `pushdown.workers`.

use pushdowndb_contract::{Error, Result};
use url::Url;

/// Maximum workers of a query.
const MAX_WORKERS: usize = 256;

/// Parses a list of addresses, separated by commas.
pub(crate) fn parse(setting: &str) -> Result<Vec<Url>> {
    let listed = setting.split(',').map(str::trim).filter(|address| !address.is_empty());
    let mut urls = Vec::new();
    for address in listed {
        let url = Url::parse(address).ok().filter(is_worker);
        let url = url.ok_or_else(|| {
            Error::invalid(format!(
                "pushdown.workers: '{address}' is no address of a worker; write http://host:9100 or https://host:9100"
            ))
        })?;
        if !urls.contains(&url) {
            urls.push(url);
        }
    }
    match urls.len() {
        0 => Err(Error::invalid("pushdown.workers names no worker")),
        more if more > MAX_WORKERS => {
            Err(Error::invalid(format!("pushdown.workers names {more} workers; at most {MAX_WORKERS} are used")))
        }
        _ => Ok(urls),
    }
}

/// Whether `url` consists of scheme, host and optional port only.
fn is_worker(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https")
        && url.host_str().is_some_and(|host| !host.is_empty())
        && matches!(url.path(), "" | "/")
        && url.query().is_none()
        && url.fragment().is_none()
        && url.username().is_empty()
        && url.password().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_hosts() {
        let two = parse(" http://a:1, https://b:2,http://a:1, ").unwrap();
        assert_eq!(two.iter().map(Url::as_str).collect::<Vec<_>>(), ["http://a:1/", "https://b:2/"]);
        for wrong in ["", ",", "a:1", "s3://a", "http://a:1/x", "http://u@a:1", "http://a:1?x"] {
            assert!(parse(wrong).unwrap_err().to_string().contains("pushdown.workers"), "{wrong}");
        }
        let many: Vec<String> = (0..257).map(|port| format!("http://a:{}", port + 1)).collect();
        assert!(parse(&many.join(",")).unwrap_err().to_string().contains("257"));
    }
}
