//! Tags in headers and documents, with the limits of S3.

use std::collections::HashSet;

use s3s::xml::{Deserialize, Deserializer};
use s3s::{S3Result, s3_error};

use crate::store::Tag;

/// Maximum tags of one object, as in S3.
pub(crate) const MAX_OBJECT_TAGS: usize = 10;

/// Maximum tags of one bucket, as in S3.
pub(crate) const MAX_BUCKET_TAGS: usize = 50;

const MAX_KEY_CHARACTERS: usize = 128;
const MAX_VALUE_CHARACTERS: usize = 256;

/// Converts the tags of `set`. More than `most` tags, and tags that S3 does not allow, are an
/// error.
pub(crate) fn from_set(set: Vec<s3s::dto::Tag>, most: usize) -> S3Result<Vec<Tag>> {
    let tags =
        set.into_iter().map(|tag| Tag { key: tag.key.unwrap_or_default(), value: tag.value.unwrap_or_default() });
    checked(tags.collect(), most)
}

/// Parses an `x-amz-tagging` header, which has the syntax of a query string.
pub(crate) fn from_header(text: &str) -> S3Result<Vec<Tag>> {
    let pairs = url::form_urlencoded::parse(text.as_bytes());
    checked(
        pairs.map(|(key, value)| Tag { key: key.into_owned(), value: value.into_owned() }).collect(),
        MAX_OBJECT_TAGS,
    )
}

/// Parses a tagging document in XML, as in the field `tagging` of upload forms.
pub(crate) fn from_document(text: &str) -> S3Result<Vec<Tag>> {
    let mut reader = Deserializer::new(text.as_bytes());
    let read = s3s::dto::Tagging::deserialize(&mut reader);
    let read = read.map_err(|_| s3_error!(MalformedXML, "the field 'tagging' is no document of tags"))?;
    from_set(read.tag_set, MAX_OBJECT_TAGS)
}

/// The tags as S3 lists them: sorted by key.
pub(crate) fn to_set(mut tags: Vec<Tag>) -> Vec<s3s::dto::Tag> {
    tags.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    tags.into_iter().map(|tag| s3s::dto::Tag { key: Some(tag.key), value: Some(tag.value) }).collect()
}

fn checked(tags: Vec<Tag>, most: usize) -> S3Result<Vec<Tag>> {
    if tags.len() > most {
        return Err(s3_error!(InvalidTag, "at most {} tags are allowed, not {}", most, tags.len()));
    }
    let mut keys = HashSet::new();
    for tag in &tags {
        let length = tag.key.chars().count();
        if length == 0 || length > MAX_KEY_CHARACTERS {
            return Err(s3_error!(InvalidTag, "a tag's key has 1 to {} characters", MAX_KEY_CHARACTERS));
        }
        if tag.value.chars().count() > MAX_VALUE_CHARACTERS {
            return Err(s3_error!(InvalidTag, "a tag's value has at most {} characters", MAX_VALUE_CHARACTERS));
        }
        let allowed = |c: char| c.is_alphanumeric() || c == ' ' || "+-=._:/@".contains(c);
        if !tag.key.chars().chain(tag.value.chars()).all(allowed) {
            return Err(s3_error!(InvalidTag, "tags are made of letters, digits, spaces and + - = . _ : / @"));
        }
        if tag.key.starts_with("aws:") {
            return Err(s3_error!(InvalidTag, "tags that start with aws: are reserved"));
        }
        if !keys.insert(&tag.key) {
            return Err(s3_error!(InvalidTag, "Cannot provide multiple Tags with the same key"));
        }
    }
    Ok(tags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_like_queries() {
        let tags = from_header("a=b&c+d=%C3%BC&flag").unwrap();
        let pairs: Vec<_> = tags.iter().map(|tag| (tag.key.as_str(), tag.value.as_str())).collect();
        assert_eq!(pairs, [("a", "b"), ("c d", "ü"), ("flag", "")]);
        assert_eq!(from_header("").unwrap(), []);
    }

    #[test]
    fn documents_are_read() {
        let text = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";
        assert_eq!(from_document(text).unwrap(), [Tag { key: "a".into(), value: "b".into() }]);
        assert!(from_document("<Tagging>").is_err() && from_document("").is_err());
    }

    #[test]
    fn what_s3_refuses_is_refused() {
        let many: Vec<String> = (0..11).map(|number| format!("k{number}=v")).collect();
        assert!(from_header(&many[..10].join("&")).is_ok());
        let (long_key, long_value) = ("k".repeat(129), format!("k={}", "v".repeat(257)));
        for wrong in [many.join("&").as_str(), "=v", &long_key, &long_value, "a=1&a=2", "aws:x=y"] {
            assert!(from_header(wrong).is_err(), "{wrong}");
        }
        assert!(from_header(&format!("{}={}", "k".repeat(128), "v".repeat(256))).is_ok());
    }
}
