//! Conditions on the current object under which a write takes place.
//!
//! They are checked inside the index transaction that makes the write visible, so that of several
//! concurrent writers with the same condition only one succeeds.

use super::{ObjectMeta, Result, StoreError};

/// The conditions of a write; the default always holds.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Condition {
    pub if_match: Option<Match>,
    pub if_none_match: Option<Match>,
    /// The expected modification time of the object, in seconds since 1970.
    pub modified_s: Option<u64>,
    /// The expected size of the object.
    pub size: Option<u64>,
}

/// The object that a condition matches.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Match {
    /// `*`: any object.
    Any,
    /// An ETag without quotes.
    Etag(String),
}

impl Match {
    fn covers(&self, meta: &ObjectMeta) -> bool {
        match self {
            Self::Any => true,
            Self::Etag(etag) => *etag == meta.etag,
        }
    }
}

impl Condition {
    /// Checks the conditions of a write to `key`, whose current object is `present`, if any.
    pub fn check(&self, key: &str, present: Option<&ObjectMeta>) -> Result<()> {
        let Some(present) = present else {
            return match &self.if_match {
                Some(_) => Err(StoreError::NoSuchKey(key.to_owned())),
                None => Ok(()),
            };
        };
        if self.if_match.as_ref().is_some_and(|wanted| !wanted.covers(present)) {
            return Err(StoreError::Precondition("If-Match"));
        }
        if self.if_none_match.as_ref().is_some_and(|known| known.covers(present)) {
            return Err(StoreError::Precondition("If-None-Match"));
        }
        if self.modified_s.is_some_and(|wanted| wanted != present.modified_ms / 1000) {
            return Err(StoreError::Precondition("x-amz-if-match-last-modified-time"));
        }
        if self.size.is_some_and(|wanted| wanted != present.size) {
            return Err(StoreError::Precondition("x-amz-if-match-size"));
        }
        Ok(())
    }

    /// Checks the conditions of a removal, which a missing key always satisfies.
    pub fn check_removal(&self, key: &str, present: Option<&ObjectMeta>) -> Result<()> {
        if present.is_none() { Ok(()) } else { self.check(key, present) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_speak_of_what_is_there() {
        let there = ObjectMeta { etag: "a".into(), size: 3, modified_ms: 9_500, ..ObjectMeta::default() };
        let etag = |text: &str| Some(Match::Etag(text.to_owned()));
        let ok = |condition: &Condition, present| condition.check("k", present).is_ok();
        let always = Condition::default();
        assert!(ok(&always, None) && ok(&always, Some(&there)));
        let absent = Condition { if_none_match: Some(Match::Any), ..Condition::default() };
        assert!(ok(&absent, None) && !ok(&absent, Some(&there)));
        let present = Condition { if_match: Some(Match::Any), ..Condition::default() };
        assert!(matches!(present.check("k", None), Err(StoreError::NoSuchKey(_))) && ok(&present, Some(&there)));
        assert!(present.check_removal("k", None).is_ok());
        let same = Condition { if_match: etag("a"), modified_s: Some(9), size: Some(3), ..Condition::default() };
        assert!(ok(&same, Some(&there)));
        assert!(!ok(&Condition { size: Some(4), ..same.clone() }, Some(&there)));
        assert!(!ok(&Condition { modified_s: Some(8), ..same.clone() }, Some(&there)));
        assert!(!ok(&Condition { if_match: etag("b"), ..same.clone() }, Some(&there)));
        assert!(!ok(&Condition { if_none_match: etag("a"), ..Condition::default() }, Some(&there)));
        assert!(ok(&Condition { if_none_match: etag("b"), ..Condition::default() }, Some(&there)));
    }
}
