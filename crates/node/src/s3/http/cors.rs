//! Cross-origin rules (CORS) of buckets.
//!
//! Browsers enforce them; here they decide which headers an answer carries. A request is allowed by
//! the first rule that covers its origin and method and, in a preflight, every header it asks for.

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, VARY,
};
use http::{HeaderMap, HeaderValue};
use s3s::dto::CORSRule;
use s3s::{S3Result, s3_error};

use crate::store::CorsRule;

const METHODS: [&str; 5] = ["GET", "PUT", "HEAD", "POST", "DELETE"];

/// Maximum rules of one bucket, as in S3.
const MAX_RULES: usize = 100;

/// A request of a web page, or the preflight for one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CorsRequest<'a> {
    pub origin: &'a str,
    pub method: &'a str,
    /// The names of the headers in a preflight, separated by commas.
    pub headers: &'a str,
}

/// The headers that `rules` add to the response to `asked`; `None` if no rule allows the request.
pub(crate) fn answer(rules: &[CorsRule], asked: CorsRequest<'_>) -> Option<HeaderMap> {
    let wanted: Vec<&str> = asked.headers.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    let rule = rules.iter().find(|rule| {
        rule.methods.iter().any(|method| method == asked.method)
            && rule.origins.iter().any(|origin| covers(origin, asked.origin))
            && wanted.iter().all(|name| rule.headers.iter().any(|allowed| covers_name(allowed, name)))
    })?;
    let any = rule.origins.iter().any(|origin| origin == "*");
    let mut headers = HeaderMap::new();
    let mut put = |name, value: String| {
        // Only values from the request can be invalid, and without its header a value allows
        // nothing.
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    };
    put(ACCESS_CONTROL_ALLOW_ORIGIN, if any { "*".to_owned() } else { asked.origin.to_owned() });
    put(ACCESS_CONTROL_ALLOW_METHODS, rule.methods.join(", "));
    if !wanted.is_empty() {
        put(ACCESS_CONTROL_ALLOW_HEADERS, wanted.join(", ").to_ascii_lowercase());
    }
    if !rule.expose.is_empty() {
        put(ACCESS_CONTROL_EXPOSE_HEADERS, rule.expose.join(", "));
    }
    if let Some(seconds) = rule.max_age_seconds {
        put(ACCESS_CONTROL_MAX_AGE, seconds.to_string());
    }
    if !any {
        put(ACCESS_CONTROL_ALLOW_CREDENTIALS, "true".to_owned());
    }
    put(VARY, "Origin, Access-Control-Request-Headers, Access-Control-Request-Method".to_owned());
    Some(headers)
}

/// Whether `pattern`, with at most one `*`, covers `text`.
fn covers(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, after)) => {
            text.len() >= before.len() + after.len() && text.starts_with(before) && text.ends_with(after)
        }
    }
}

fn covers_name(pattern: &str, name: &str) -> bool {
    covers(&pattern.to_ascii_lowercase(), &name.to_ascii_lowercase())
}

/// Converts rules for the store. Rules that S3 does not allow are an error.
pub(crate) fn checked(rules: Vec<CORSRule>) -> S3Result<Vec<CorsRule>> {
    if rules.is_empty() || rules.len() > MAX_RULES {
        return Err(s3_error!(MalformedXML, "a CORS configuration has between 1 and {} rules", MAX_RULES));
    }
    rules.into_iter().map(rule).collect()
}

fn rule(rule: CORSRule) -> S3Result<CorsRule> {
    let rule = CorsRule {
        id: rule.id,
        origins: rule.allowed_origins,
        methods: rule.allowed_methods,
        headers: rule.allowed_headers.unwrap_or_default(),
        expose: rule.expose_headers.unwrap_or_default(),
        max_age_seconds: rule.max_age_seconds,
    };
    if rule.origins.is_empty() || rule.methods.is_empty() {
        return Err(s3_error!(MalformedXML, "a CORS rule names at least one origin and one method"));
    }
    if let Some(method) = rule.methods.iter().find(|method| !METHODS.contains(&method.as_str())) {
        return Err(s3_error!(
            InvalidRequest,
            "Found unsupported HTTP method in CORS config. Unsupported method is {}",
            method
        ));
    }
    let patterns = rule.origins.iter().chain(&rule.headers);
    if let Some(pattern) = patterns.into_iter().find(|pattern| pattern.matches('*').count() > 1) {
        return Err(s3_error!(InvalidRequest, "'{}' can not have more than one wildcard", pattern));
    }
    if rule.expose.iter().any(|name| name.contains('*')) {
        return Err(s3_error!(InvalidRequest, "ExposeHeader can not have a wildcard"));
    }
    Ok(rule)
}

/// Converts stored rules for a response.
pub(crate) fn listed(rules: Vec<CorsRule>) -> Vec<CORSRule> {
    let some = |list: Vec<String>| (!list.is_empty()).then_some(list);
    let rules = rules.into_iter().map(|rule| CORSRule {
        id: rule.id,
        allowed_origins: rule.origins,
        allowed_methods: rule.methods,
        allowed_headers: some(rule.headers),
        expose_headers: some(rule.expose),
        max_age_seconds: rule.max_age_seconds,
    });
    rules.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Vec<CorsRule> {
        let list = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect();
        vec![
            CorsRule {
                origins: list(&["https://*.example.com"]),
                methods: list(&["GET"]),
                headers: list(&["X-Amz-*"]),
                expose: list(&["ETag"]),
                max_age_seconds: Some(60),
                ..CorsRule::default()
            },
            CorsRule { origins: list(&["*"]), methods: list(&["PUT"]), ..CorsRule::default() },
        ]
    }

    #[test]
    fn the_first_rule_that_covers_all_answers() {
        let ask = |origin, method, headers| answer(&rules(), CorsRequest { origin, method, headers });
        let found = ask("https://a.example.com", "GET", "x-amz-date, X-AMZ-meta-a").unwrap();
        assert_eq!(found[ACCESS_CONTROL_ALLOW_ORIGIN], "https://a.example.com");
        assert_eq!(found[ACCESS_CONTROL_ALLOW_HEADERS], "x-amz-date, x-amz-meta-a");
        assert_eq!(found[ACCESS_CONTROL_EXPOSE_HEADERS], "ETag");
        assert_eq!(found[ACCESS_CONTROL_MAX_AGE], "60");
        assert_eq!(ask("http://b.org", "PUT", "").unwrap()[ACCESS_CONTROL_ALLOW_ORIGIN], "*");
        assert!(ask("http://b.org", "GET", "").is_none());
        assert!(ask("https://a.example.com", "GET", "authorization").is_none());
        assert!(ask("https://.example.co", "GET", "").is_none());
        assert!(ask("http://b.org", "DELETE", "").is_none());
    }

    #[test]
    fn a_star_covers_any_text() {
        assert!(covers("a*b", "ab") && covers("a*b", "axxb") && covers("*", "") && covers("a", "a"));
        assert!(!covers("a*a", "a") && !covers("a", "ab"));
    }
}
