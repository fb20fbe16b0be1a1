//! A small cache of the most recently created values.

use std::collections::VecDeque;
use std::fmt;

use parking_lot::{Mutex, MutexGuard};

/// A cache of the values that were created last. Lookups are linear, so it should have few entries.
pub struct Latest<T>(Mutex<VecDeque<T>>);

impl<T: Clone> Latest<T> {
    /// Returns the cached value for which `is` is true, or else calls `make` and caches its result.
    /// At most `most` values are kept.
    ///
    /// The cache is not locked during `make`, so several threads may create the same value; one of
    /// these values is cached and returned to all of them.
    ///
    /// # Errors
    ///
    /// Returns the error of `make`. Nothing is cached then.
    pub fn get_or_make<E>(
        &self,
        most: usize,
        is: impl Fn(&T) -> bool,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        if let Some(known) = self.lock().iter().find(|known| is(known)) {
            return Ok(known.clone());
        }
        let made = make()?;
        let mut all = self.lock();
        if let Some(known) = all.iter().find(|known| is(known)) {
            return Ok(known.clone());
        }
        all.push_front(made.clone());
        let kept = most.min(all.len());
        let gone = all.split_off(kept);
        // Dropping large values may take a while, so it is done without the lock.
        drop(all);
        drop(gone);
        Ok(made)
    }
}

impl<T> Latest<T> {
    /// True if the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.0.lock()
    }
}

impl<T> Default for Latest<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> fmt::Debug for Latest<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Latest").field("kept", &self.lock().len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_are_kept() {
        let latest = Latest::default();
        let get = |n: i32| latest.get_or_make(2, |known: &(i32, bool)| known.0 == n, || Ok::<_, ()>((n, true)));
        let is_known = |n: i32| latest.get_or_make(2, |known: &(i32, bool)| known.0 == n, || Err(())).is_ok();
        assert!(latest.is_empty());
        for n in 0..3 {
            assert_eq!(get(n), Ok((n, true)));
        }
        assert_eq!([0, 1, 2].map(is_known), [false, true, true]);
    }

    #[test]
    fn of_two_that_make_the_same_one_is_kept() {
        let latest = Latest::default();
        let is = |known: &&str| known.starts_with('a');
        let slow = latest.get_or_make(4, is, || {
            // Another thread finishes first.
            latest.get_or_make(4, is, || Ok::<_, ()>("a, first"))?;
            Ok::<_, ()>("a, second")
        });
        assert_eq!(slow, Ok("a, first"));
        assert_eq!(latest.lock().len(), 1);
    }
}
