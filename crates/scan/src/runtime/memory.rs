//! Memory budgets.
//!
//! A [`MemoryBudget`] has a limit in bytes. Work takes a [`Reservation`] before it allocates, grows
//! it as data arrives, and releases the bytes by dropping it. A [share](MemoryBudget::share) is a
//! budget within another: its reservations count against the whole as well, and never exceed the
//! limit of the share.
//!
//! Work that has not started may wait for memory ([`MemoryBudget::reserve`]), first come, first
//! served, until at most three quarters are reserved. Work that already holds memory never waits
//! for more, since two such waits could deadlock: it uses the last quarter, continues with less
//! memory, or fails with an error that says what was too large ([`Shortage`]).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bytes::Bytes;
use pushdowndb_contract::{Error, ErrorKind};
use tokio::sync::{Mutex, Notify};

/// The number of quarters of a budget that work may reserve to start.
const ADMISSION_QUARTERS: usize = 3;

/// The minimum interval between two queries of the process's memory.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A memory limit that is shared by concurrent work. Clones share their state.
#[derive(Clone, Debug, Default)]
pub struct MemoryBudget(Option<Arc<Pool>>);

struct Pool {
    limit: usize,
    used: AtomicUsize,
    peak: AtomicUsize,
    refused: AtomicU64,
    /// The budget of which this one is a share.
    whole: Option<Arc<Pool>>,
    /// Locked by the first waiter.
    queue: Mutex<()>,
    /// The number of waiters for this budget or its shares, and the signal that wakes them. Only
    /// those of the root are used.
    waiting: AtomicUsize,
    freed: Notify,
    process: Option<Process>,
}

/// The limit on the process's memory as the operating system reports it.
struct Process {
    limit: usize,
    resident: fn() -> Option<usize>,
    since: Instant,
    /// The time of the last query, in milliseconds after `since`.
    looked_at: AtomicU64,
    is_over: AtomicBool,
}

/// The error that less memory is left than was requested.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Shortage {
    /// The limit that was reached.
    limit: usize,
    /// True if the limit is that of the requesting work alone, not a shared one.
    own: bool,
}

impl MemoryBudget {
    /// Creates a budget without a limit.
    pub fn unbounded() -> Self {
        Self(None)
    }

    /// Creates a budget of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self(Some(Arc::new(Pool::new(limit, None, None))))
    }

    /// Creates a budget of `limit` bytes that also refuses reservations while the process holds
    /// more than `process_limit` bytes, since libraries make allocations that are not reserved.
    /// `resident` returns the bytes that the process holds, if known.
    pub fn of_process(limit: usize, process_limit: usize, resident: fn() -> Option<usize>) -> Self {
        let (looked_at, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        let process = Process { limit: process_limit, resident, since: Instant::now(), looked_at, is_over };
        Self(Some(Arc::new(Pool::new(limit, None, Some(process)))))
    }

    /// Creates a budget of `limit` bytes within this one.
    #[must_use]
    pub fn share(&self, limit: usize) -> Self {
        let Some(whole) = &self.0 else { return Self(None) };
        Self(Some(Arc::new(Pool::new(limit.min(whole.limit), Some(Arc::clone(whole)), None))))
    }

    /// Returns the maximum number of bytes that may be reserved.
    pub fn limit(&self) -> usize {
        self.0.as_ref().map_or(usize::MAX, |pool| pool.limit)
    }

    /// Returns the number of bytes that are reserved now.
    pub fn used(&self) -> usize {
        self.0.as_ref().map_or(0, |pool| pool.used.load(Relaxed))
    }

    /// Returns the maximum number of bytes that were reserved at the same time.
    pub fn peak(&self) -> usize {
        self.0.as_ref().map_or(0, |pool| pool.peak.load(Relaxed))
    }

    /// Returns the number of refused reservations.
    pub fn refused(&self) -> u64 {
        self.0.as_ref().map_or(0, |pool| pool.refused.load(Relaxed))
    }

    /// Returns whether nothing is reserved and this is the only handle of the budget.
    pub fn is_idle(&self) -> bool {
        self.0.as_ref().is_none_or(|pool| Arc::strong_count(pool) == 1 && pool.used.load(Relaxed) == 0)
    }

    /// Reserves `bytes` without waiting.
    ///
    /// # Errors
    ///
    /// Returns an error if fewer bytes are left.
    pub fn try_reserve(&self, bytes: usize) -> Result<Reservation, Shortage> {
        let reservation = self.empty();
        reservation.grow(bytes)?;
        Ok(reservation)
    }

    /// Returns an empty reservation, which can be grown.
    pub fn empty(&self) -> Reservation {
        Reservation { budget: self.clone(), bytes: AtomicUsize::new(0) }
    }

    /// Waits until work may start with `bytes`, and reserves them. The caller must not hold a
    /// reservation.
    ///
    /// # Errors
    ///
    /// Returns an error if `bytes` exceeds the limit.
    pub async fn reserve(&self, bytes: usize) -> Result<Reservation, Shortage> {
        let reservation = self.empty();
        let Some(pool) = &self.0 else { return Ok(reservation) };
        if let Some(small) = pool.chain().find(|pool| bytes > pool.limit) {
            return Err(pool.shortage(small));
        }
        // Earlier waiters come first.
        let is_first = pool.queue.try_lock().is_ok();
        if !is_first || !pool.may_begin(bytes) || pool.take(bytes).is_err() {
            let _front = pool.queue.lock().await;
            let root = pool.root();
            let _waiting = Waiting::begin(root);
            loop {
                let freed = root.freed.notified();
                if pool.may_begin(bytes) && pool.take(bytes).is_ok() {
                    break;
                }
                // The process may release memory only some time after a reservation was dropped.
                drop(tokio::time::timeout(POLL_INTERVAL * 5, freed).await);
            }
        }
        reservation.bytes.store(bytes, Relaxed);
        Ok(reservation)
    }
}

/// A guard that counts a waiter.
struct Waiting<'a>(&'a Pool);

impl<'a> Waiting<'a> {
    fn begin(root: &'a Pool) -> Self {
        root.waiting.fetch_add(1, Relaxed);
        Self(root)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}

impl Pool {
    fn new(limit: usize, whole: Option<Arc<Self>>, process: Option<Process>) -> Self {
        Self {
            limit,
            used: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
            whole,
            queue: Mutex::new(()),
            waiting: AtomicUsize::new(0),
            freed: Notify::new(),
            process,
        }
    }

    /// Returns this budget and those of which it is a share.
    fn chain(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |pool| pool.whole.as_deref())
    }

    fn root(&self) -> &Self {
        self.chain().last().unwrap_or(self)
    }

    /// Returns whether work may start with `bytes`, leaving the last quarter to running work.
    fn may_begin(&self, bytes: usize) -> bool {
        self.chain().all(|pool| {
            let used = pool.used.load(Relaxed);
            used == 0 || used.saturating_add(bytes) <= pool.limit / 4 * ADMISSION_QUARTERS
        })
    }

    fn take(&self, bytes: usize) -> Result<(), Shortage> {
        for pool in self.chain() {
            let more = |used: usize| used.checked_add(bytes).filter(|used| *used <= pool.limit);
            let is_over = pool.process.as_ref().is_some_and(Process::is_over);
            let taken = if is_over { Err(0) } else { pool.used.fetch_update(Relaxed, Relaxed, more) };
            match taken {
                Ok(before) => {
                    pool.peak.fetch_max(before + bytes, Relaxed);
                }
                Err(_) => {
                    self.chain().take_while(|before| !std::ptr::eq(*before, pool)).for_each(|taken| {
                        taken.used.fetch_sub(bytes, Relaxed);
                    });
                    self.chain().for_each(|pool| {
                        pool.refused.fetch_add(1, Relaxed);
                    });
                    return Err(self.shortage(pool));
                }
            }
        }
        Ok(())
    }

    fn give_back(&self, bytes: usize) {
        for pool in self.chain() {
            pool.used.fetch_sub(bytes, Relaxed);
            if pool.whole.is_none() && pool.waiting.load(Relaxed) > 0 {
                pool.freed.notify_waiters();
            }
        }
    }

    fn shortage(&self, of: &Self) -> Shortage {
        Shortage { limit: of.limit, own: std::ptr::eq(self, of) }
    }
}

impl Process {
    fn is_over(&self) -> bool {
        let now = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let before = self.looked_at.load(Relaxed);
        if now.saturating_sub(before) as u128 >= POLL_INTERVAL.as_millis()
            && self.looked_at.compare_exchange(before, now, Relaxed, Relaxed).is_ok()
        {
            let is_over = (self.resident)().is_some_and(|resident| resident > self.limit);
            self.is_over.store(is_over, Relaxed);
        }
        self.is_over.load(Relaxed)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("limit", &self.limit).field("used", &self.used).finish_non_exhaustive()
    }
}

impl Shortage {
    /// Converts the shortage to an error of work that needs memory for `what`. The kind is
    /// [`Limit`](ErrorKind::Limit), with `code`, if the work's own limit is too small. If a shared
    /// limit was reached, the error asks to retry.
    pub fn error(self, what: impl fmt::Display, code: &'static str) -> Error {
        if self.own {
            let message = format!("{what} needs more than {} bytes of memory", self.limit);
            return Error::new(ErrorKind::Limit, message).with_code(code);
        }
        let message = format!("{what} needs memory that other work has taken; try again later");
        Error::new(ErrorKind::Throttled, message).with_code("SlowDown")
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.own {
            return write!(f, "more than {} bytes of memory are needed", self.limit);
        }
        f.write_str("other work has taken the memory that is needed")
    }
}

impl std::error::Error for Shortage {}

/// Reserved bytes of a [`MemoryBudget`]. Dropping it releases them.
#[derive(Debug)]
pub struct Reservation {
    budget: MemoryBudget,
    bytes: AtomicUsize,
}

impl Reservation {
    /// Returns the number of bytes reserved.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Reserves `bytes` more.
    ///
    /// # Errors
    ///
    /// Returns an error, and leaves the reservation unchanged, if fewer bytes are left.
    pub fn grow(&self, bytes: usize) -> Result<(), Shortage> {
        if let Some(pool) = self.budget.0.as_ref().filter(|_| bytes > 0) {
            pool.take(bytes)?;
            self.bytes.fetch_add(bytes, Relaxed);
        }
        Ok(())
    }

    /// Releases `bytes`, or all if fewer are reserved.
    pub fn shrink(&self, bytes: usize) {
        let Some(pool) = &self.budget.0 else { return };
        let before = self.bytes.fetch_update(Relaxed, Relaxed, |now| Some(now.saturating_sub(bytes)));
        let freed = before.unwrap_or_else(|now| now).min(bytes);
        if freed > 0 {
            pool.give_back(freed);
        }
    }

    /// Changes the reservation to exactly `bytes`.
    ///
    /// # Errors
    ///
    /// Returns an error, and leaves the reservation unchanged, if fewer bytes are left.
    pub fn resize(&self, bytes: usize) -> Result<(), Shortage> {
        let now = self.bytes();
        match bytes.checked_sub(now) {
            Some(more) => self.grow(more),
            None => {
                self.shrink(now - bytes);
                Ok(())
            }
        }
    }

    /// Wraps `bytes` so that the reservation is held until the last reference to them is dropped.
    pub fn hold(self, bytes: impl AsRef<[u8]> + Send + 'static) -> Bytes {
        Bytes::from_owner(Held { bytes, _reservation: self })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink(usize::MAX);
    }
}

struct Held<T> {
    bytes: T,
    _reservation: Reservation,
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for Held<T> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn never_more_than_the_limit_is_taken_and_all_of_it_is_given_back() {
        let budget = MemoryBudget::new(100);
        let first = budget.try_reserve(60).unwrap();
        assert!(budget.try_reserve(41).is_err());
        let second = budget.try_reserve(40).unwrap();
        assert!(first.grow(1).is_err());
        assert_eq!((budget.used(), budget.refused()), (100, 2));
        second.resize(10).unwrap();
        first.resize(90).unwrap();
        assert_eq!((first.bytes(), second.bytes(), budget.used()), (90, 10, 100));
        let held = first.hold(vec![7u8; 3]);
        let part = held.slice(1..2);
        drop(held);
        assert_eq!(budget.used(), 100, "a part of the bytes is still there");
        drop((part, second));
        assert_eq!((budget.used(), budget.peak()), (0, 100));
    }

    #[test]
    fn a_share_is_bounded_by_itself_and_by_the_whole() {
        let whole = MemoryBudget::new(100);
        let (a, b) = (whole.share(70), whole.share(70));
        let in_a = a.try_reserve(60).unwrap();
        let own = in_a.grow(20).unwrap_err();
        assert_eq!(own.error("a page", "TooLarge").kind(), ErrorKind::Limit);
        let others = b.try_reserve(50).unwrap_err();
        assert_eq!(others.error("a page", "TooLarge").code(), Some("SlowDown"));
        assert_eq!((a.used(), b.used(), whole.used()), (60, 0, 60), "what was refused is not kept");
        drop(in_a);
        assert!(b.try_reserve(50).is_ok());
        let share = a.share(1);
        assert!(!a.is_idle(), "somebody may still reserve of it");
        drop(share);
        assert!(a.is_idle());
        assert!(MemoryBudget::unbounded().share(1).try_reserve(usize::MAX).is_ok());
    }

    #[tokio::test]
    async fn what_begins_waits_its_turn_and_leaves_the_last_quarter_to_what_runs() {
        let budget = MemoryBudget::new(100);
        let running = budget.reserve(70).await.unwrap();
        let mut first = Box::pin(budget.reserve(30));
        let mut second = Box::pin(budget.reserve(1));
        assert!((&mut first).now_or_never().is_none());
        assert!((&mut second).now_or_never().is_none(), "it would fit, and is not first");
        running.grow(25).expect("what runs takes the last quarter");
        running.resize(40).unwrap();
        assert_eq!(first.await.unwrap().bytes(), 30);
        assert_eq!(second.await.unwrap().bytes(), 1);
        assert!(budget.reserve(101).await.is_err(), "that would be waited for for ever");
    }

    #[test]
    fn nothing_is_given_while_the_process_holds_too_much() {
        static RESIDENT: AtomicUsize = AtomicUsize::new(0);
        let budget = MemoryBudget::of_process(1000, 500, || Some(RESIDENT.load(Relaxed)));
        let share = budget.share(900);
        let looked = || std::thread::sleep(POLL_INTERVAL * 2);
        looked();
        assert!(share.try_reserve(10).is_ok());
        RESIDENT.store(501, Relaxed);
        looked();
        let shortage = share.try_reserve(10).unwrap_err();
        assert_eq!(shortage.error("x", "y").kind(), ErrorKind::Throttled);
        assert_eq!((share.used(), budget.used()), (0, 0));
        RESIDENT.store(500, Relaxed);
        looked();
        assert!(share.try_reserve(10).is_ok());
    }
}
