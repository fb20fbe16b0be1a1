//! What other programs leave of the machine's cores.
//!
//! A scan tells afterwards what share of a core its threads got. Who plans the next one wants to know before: how many threads of
//! the machine want to run at this moment says about what one more would get.

use std::collections::VecDeque;
use std::fs;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::task::AbortOnDropHandle;

use crate::scans::Scans;

/// The kernel is asked so often, and the least of so many answers counts: at any moment some threads or others want to run.
const LOOK: Duration = Duration::from_millis(20);
const LOOKS: usize = 4;

/// A larger share is not told.
const TOLD: f64 = 0.5;

/// The machine that the node runs on.
#[derive(Debug)]
pub(crate) struct Host {
    cores: f64,
    /// How many other threads wanted to run, the last few times.
    others: Arc<Mutex<VecDeque<usize>>>,
    _looking: Option<AbortOnDropHandle<()>>,
}

impl Host {
    /// Looks at it from now on, until this is dropped; `None` where the system does not tell. Needs a Tokio runtime.
    pub fn watch(scans: Weak<Scans>) -> Option<Self> {
        let cores = cores_in(&fs::read_to_string("/sys/devices/system/cpu/online").ok()?)?;
        let others = Arc::<Mutex<VecDeque<usize>>>::default();
        let seen = Arc::clone(&others);
        let looking = tokio::spawn(async move {
            let mut ticks = interval(LOOK);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let Some(scans) = scans.upgrade() else { return };
                match running() {
                    // One of those that run is this one, and those that scan are no others.
                    Some(running) => note(&seen, running.saturating_sub(1 + scans.scanning())),
                    None => seen.lock().unwrap_or_else(PoisonError::into_inner).clear(),
                }
            }
        });
        Some(Self { cores: cores as f64, others, _looking: Some(AbortOnDropHandle::new(looking)) })
    }

    /// The share of a core that a scan would get, where others have left little for some time.
    pub fn share(&self) -> Option<f64> {
        let others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        let least = others.iter().min().filter(|_| others.len() == LOOKS)?;
        let share = self.cores / (least + 1) as f64;
        (share < TOLD).then_some(share)
    }
}

fn note(seen: &Mutex<VecDeque<usize>>, others: usize) {
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    seen.truncate(LOOKS - 1);
    seen.push_front(others);
}

/// How many threads of the machine want to run.
fn running() -> Option<usize> {
    running_in(&fs::read_to_string("/proc/loadavg").ok()?)
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

    #[test]
    fn little_is_left_where_many_want_to_run_for_some_time() {
        let host = Host { cores: 2.0, others: Arc::default(), _looking: None };
        let share = |others: usize| {
            note(&host.others, others);
            host.share()
        };
        assert_eq!([9, 9, 9].map(share), [None; 3], "not long enough");
        assert_eq!(share(7), Some(0.25), "the least of them");
        assert_eq!(share(3), None, "half a core");
        assert_eq!([9, 9, 9, 9].map(share), [None, None, None, Some(0.2)]);
    }

    #[tokio::test]
    async fn the_kernel_is_asked_while_the_node_serves() {
        let limits = Limits::default();
        let memory = Arc::new(crate::memory::NodeMemory::new(&limits));
        let scans = Arc::new(Scans::new(&limits, memory, ZoneCache::new(0, None)).unwrap());
        let Some(host) = Host::watch(Arc::downgrade(&scans)) else { return };
        while host.others.lock().unwrap().len() < LOOKS {
            tokio::task::yield_now().await;
        }
        let others = Arc::downgrade(&host.others);
        drop(host);
        while others.upgrade().is_some() {
            tokio::task::yield_now().await;
        }
    }
}
