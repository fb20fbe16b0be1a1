//! Tolerance for malformed headers that S3 has and s3s lacks.

use http::header::{IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE, RANGE};
use http::{HeaderMap, HeaderName, HeaderValue};
use s3s::dto::{Timestamp, TimestampFormat};

const COPY_IF_MODIFIED_SINCE: HeaderName = HeaderName::from_static("x-amz-copy-source-if-modified-since");
const COPY_IF_UNMODIFIED_SINCE: HeaderName = HeaderName::from_static("x-amz-copy-source-if-unmodified-since");

/// Removes headers that S3 ignores and s3s would refuse: malformed ranges and times. Call this only
/// after the signature that covers them was verified.
pub(crate) fn remove_malformed(headers: &mut HeaderMap) {
    if headers.get(RANGE).is_some_and(|range| !is_range(range.as_bytes())) {
        headers.remove(RANGE);
    }
    for name in [IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE, COPY_IF_MODIFIED_SINCE, COPY_IF_UNMODIFIED_SINCE] {
        let is_time = |value: &HeaderValue| {
            value.to_str().is_ok_and(|text| Timestamp::parse(TimestampFormat::HttpDate, text).is_ok())
        };
        if headers.get(&name).is_some_and(|value| !is_time(value)) {
            headers.remove(&name);
        }
    }
}

/// Whether `text` is a single byte range; S3 ignores lists of ranges.
fn is_range(text: &[u8]) -> bool {
    let Some((first, last)) = std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.strip_prefix("bytes="))
        .and_then(|range| range.split_once('-'))
    else {
        return false;
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let number = |text: &str| text.parse::<i64>().ok();
    match (first, last) {
        _ if !digits(first) || !digits(last) => false,
        ("", last) => number(last).is_some(),
        (first, "") => number(first).is_some(),
        (first, last) => number(first).zip(number(last)).is_some_and(|(first, last)| first <= last),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_single_ranges_are_ranges() {
        for range in ["bytes=0-5", "bytes=3-", "bytes=-7", "bytes=5-5", "bytes=-0"] {
            assert!(is_range(range.as_bytes()), "{range}");
        }
        for none in [
            "bytes=5-3",
            "bytes=x-y",
            "lines=0-5",
            "bytes",
            "bytes=0-1,5-6",
            "bytes=-",
            "bytes=1.5-2",
            "",
            "bytes=99999999999999999999-",
            "bytes=+1-2",
        ] {
            assert!(!is_range(none.as_bytes()), "{none}");
        }
    }
}
