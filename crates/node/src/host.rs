//! What other programs leave of the machine's cores.
//!
//! A scan tells afterwards what share of a core its threads got. Who plans the next one wants to know before: how many threads of
//! the machine want to run at this moment says about what one more would get.

use std::fs;
use std::sync::{Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::scans::Scans;

/// The kernel is asked no more often than this.
const LOOK: Duration = Duration::from_millis(10);

/// A larger share is not told: at any moment some thread or other wants to run.
const TOLD: f64 = 0.5;

/// The machine that the node runs on.
#[derive(Debug)]
pub(crate) struct Host {
    cores: f64,
    scans: Weak<Scans>,
    /// When the kernel was asked, and what it said.
    seen: Mutex<Option<(Instant, Option<usize>)>>,
}

impl Host {
    /// `None` where the system does not tell.
    pub fn of(scans: Weak<Scans>) -> Option<Self> {
        let cores = cores_in(&fs::read_to_string("/sys/devices/system/cpu/online").ok()?)?;
        Some(Self { cores: cores as f64, scans, seen: Mutex::default() })
    }

    /// The share of a core that a scan would get now, where others leave little.
    pub fn share(&self) -> Option<f64> {
        let scans = self.scans.upgrade()?;
        // One of those that run is this one, and those that scan are no others.
        let own = 1 + scans.scanning();
        let share = self.cores / (self.running()?.saturating_sub(own) + 1) as f64;
        (share < TOLD).then_some(share)
    }

    /// How many threads of the machine want to run.
    fn running(&self) -> Option<usize> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, running)) = seen.filter(|(at, _)| at.elapsed() < LOOK) {
            return running;
        }
        let running = fs::read_to_string("/proc/loadavg").ok().and_then(|text| running_in(&text));
        *seen = Some((Instant::now(), running));
        running
    }
}

/// The number before the slash, as in `0.20 0.18 0.12 3/80 11206`.
fn running_in(loadavg: &str) -> Option<usize> {
    loadavg.split_whitespace().nth(3)?.split_once('/')?.0.parse().ok()
}

/// How many are in a list such as `0-3,6`.
fn cores_in(list: &str) -> Option<usize> {
    let mut cores = 0;
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        cores += last.parse::<usize>().ok()?.checked_sub(first.parse().ok()?)? + 1;
    }
    Some(cores)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Limits;
    use crate::zones::ZoneCache;

    #[test]
    fn what_the_kernel_says_is_read() {
        assert_eq!(running_in("0.20 0.18 0.12 3/80 11206\n"), Some(3));
        assert_eq!((running_in(""), running_in("0 0 0 x/1 2"), running_in("0 0 0 1 2")), (None, None, None));
        assert_eq!(["0-3,6\n", "0", "0-1,4-5"].map(cores_in), [Some(5), Some(1), Some(4)]);
        assert_eq!(["", "a", "3-1", "1,"].map(cores_in), [None; 4]);
    }

    #[tokio::test]
    async fn little_is_left_where_many_want_to_run() {
        let scans = Arc::new(Scans::new(&Limits::default(), ZoneCache::new(0, None)).unwrap());
        let host = Host { cores: 2.0, scans: Arc::downgrade(&scans), seen: Mutex::default() };
        let share = |running| {
            *host.seen.lock().unwrap() = Some((Instant::now(), Some(running)));
            host.share()
        };
        assert_eq!((share(0), share(2), share(4)), (None, None, None), "about a core for each");
        assert_eq!(share(8), Some(0.25), "seven others");
        let turn = scans.turn(None).await.unwrap();
        assert_eq!(share(8), Some(2.0 / 7.0), "one of them is ours");
        drop((turn, scans));
        assert_eq!(share(8), None);
    }
}
