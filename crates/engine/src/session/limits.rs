//! Limits that no setting of a session can exceed.

use crate::settings::PushdownOptions;

/// The limits on a user's queries, whatever the session sets; 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UserLimits {
    /// Bytes over the network of one query, as `pushdown.max_bytes`.
    pub max_bytes: u64,
    /// Dollars of one query, as `pushdown.max_usd`.
    pub max_usd: f64,
    /// Seconds of one query, as `pushdown.query_timeout_s`.
    pub query_timeout_s: u64,
    /// Bytes of memory of all queries of the user together.
    pub memory_bytes: u64,
}

impl UserLimits {
    /// Lowers the caps of `options` to these limits.
    pub(super) fn lower(&self, options: &mut PushdownOptions) {
        let lower = |cap: &mut u64, most: u64| {
            if most > 0 && (*cap == 0 || *cap > most) {
                *cap = most;
            }
        };
        lower(&mut options.max_bytes, self.max_bytes);
        lower(&mut options.query_timeout_s, self.query_timeout_s);
        if self.max_usd > 0.0 && (options.max_usd == 0.0 || options.max_usd > self.max_usd) {
            options.max_usd = self.max_usd;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_lower_caps_and_never_raise_them() {
        let limits = UserLimits { max_bytes: 100, max_usd: 0.5, query_timeout_s: 9, memory_bytes: 0 };
        let lowered = |max_bytes, max_usd, query_timeout_s| {
            let mut options = PushdownOptions { max_bytes, max_usd, query_timeout_s, ..PushdownOptions::default() };
            limits.lower(&mut options);
            (options.max_bytes, options.max_usd, options.query_timeout_s)
        };
        assert_eq!(lowered(0, 0.0, 0), (100, 0.5, 9));
        assert_eq!(lowered(7, 0.1, 8), (7, 0.1, 8));
        assert_eq!(lowered(101, 0.6, 10), (100, 0.5, 9));
        let mut options = PushdownOptions { max_bytes: 7, ..PushdownOptions::default() };
        UserLimits::default().lower(&mut options);
        assert_eq!((options.max_bytes, options.max_usd), (7, 0.0), "no limit is no cap");
    }
}
