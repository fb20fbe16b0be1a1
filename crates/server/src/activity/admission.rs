//! Which queries run and which wait: fair between users.
//!
//! A place that becomes free goes to the waiting user who runs the fewest queries, and among equals
//! to the one who waits longest. So one user's hundred queries delay another's first by at most one.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pushdowndb_contract::{Error, ErrorKind, Result};
use tokio::sync::oneshot;

/// The places for queries.
#[derive(Debug)]
pub(crate) struct Admission {
    /// Queries that run at once.
    places: usize,
    /// Queries that wait.
    most_waiting: usize,
    patience: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: usize,
    by_user: HashMap<Arc<str>, usize>,
    waiting: VecDeque<Waiting>,
    next: u64,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    user: Arc<str>,
    /// The queries that the user may run at once.
    most: usize,
    place: oneshot::Sender<Place>,
}

/// A place, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    admission: Arc<Admission>,
    user: Arc<str>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.admission.release(&self.user);
    }
}

/// Leaves the queue when it is dropped.
struct InQueue<'a> {
    admission: &'a Admission,
    number: u64,
}

impl Drop for InQueue<'_> {
    fn drop(&mut self) {
        self.admission.state.lock().waiting.retain(|waiting| waiting.number != self.number);
    }
}

impl State {
    fn running_of(&self, user: &str) -> usize {
        self.by_user.get(user).copied().unwrap_or_default()
    }

    fn take(&mut self, user: &Arc<str>) {
        self.running += 1;
        *self.by_user.entry(Arc::clone(user)).or_default() += 1;
    }

    fn give_back(&mut self, user: &str) {
        self.running = self.running.saturating_sub(1);
        if let Some(running) = self.by_user.get_mut(user) {
            *running = running.saturating_sub(1);
            if *running == 0 {
                self.by_user.remove(user);
            }
        }
    }

    /// The one whose turn it is.
    fn next(&self) -> Option<usize> {
        let may = self.waiting.iter().enumerate().filter(|(_, w)| self.running_of(&w.user) < w.most);
        // The first of those with the fewest.
        may.min_by_key(|(_, waiting)| self.running_of(&waiting.user)).map(|(at, _)| at)
    }
}

impl Admission {
    /// `places` queries run at once and `most_waiting` wait, each for up to `patience`.
    pub fn new(places: usize, most_waiting: usize, patience: Duration) -> Arc<Self> {
        Arc::new(Self { places, most_waiting, patience, state: Mutex::default() })
    }

    /// Waits for a place for a query of `user`, who may run `most` at once.
    ///
    /// # Errors
    ///
    /// Too many queries wait, or this one has waited for too long.
    pub async fn enter(self: &Arc<Self>, user: &Arc<str>, most: Option<usize>) -> Result<Place> {
        let granted = tokio::time::timeout(self.patience, self.queue(user, most, self.most_waiting)).await;
        // A place that was granted at the last moment is given back by dropping it.
        granted.unwrap_or_else(|_| {
            let seconds = self.patience.as_secs();
            let message = format!("the server is busy: the query waited for {seconds} seconds; try again later");
            Err(Error::new(ErrorKind::Throttled, message))
        })
    }

    /// Waits for a place for a query of `user` that has left its own for a while, as long as it takes.
    ///
    /// # Errors
    ///
    /// None that could be met: the queue has no limit for such queries.
    pub async fn enter_again(self: &Arc<Self>, user: &Arc<str>, most: Option<usize>) -> Result<Place> {
        self.queue(user, most, usize::MAX).await
    }

    /// Waits for a place behind at most `most_waiting` others.
    async fn queue(self: &Arc<Self>, user: &Arc<str>, most: Option<usize>, most_waiting: usize) -> Result<Place> {
        let most = most.unwrap_or(usize::MAX);
        let (number, place) = {
            let mut state = self.state.lock();
            if state.running < self.places && state.running_of(user) < most {
                state.take(user);
                return Ok(Place { admission: Arc::clone(self), user: Arc::clone(user) });
            }
            if state.waiting.len() >= most_waiting {
                let message = format!(
                    "the server is busy: {} queries run and {} wait already; try again later",
                    state.running,
                    state.waiting.len()
                );
                return Err(Error::new(ErrorKind::Throttled, message));
            }
            let (place, granted) = oneshot::channel();
            let number = state.next;
            state.next += 1;
            state.waiting.push_back(Waiting { number, user: Arc::clone(user), most, place });
            (number, granted)
        };
        let in_queue = InQueue { admission: self, number };
        let granted = place.await;
        drop(in_queue);
        granted.map_err(|_| Error::internal("a place in the queue was lost"))
    }

    fn release(self: &Arc<Self>, user: &str) {
        self.state.lock().give_back(user);
        self.admit();
    }

    /// Gives free places to those who wait.
    fn admit(self: &Arc<Self>) {
        loop {
            let (waiting, place) = {
                let mut state = self.state.lock();
                if state.running >= self.places {
                    return;
                }
                let Some(waiting) = state.next().and_then(|at| state.waiting.remove(at)) else { return };
                state.take(&waiting.user);
                let place = Place { admission: Arc::clone(self), user: Arc::clone(&waiting.user) };
                (waiting, place)
            };
            // If it went away, dropping the place admits the next.
            drop(waiting.place.send(place));
        }
    }

    /// The queries that run, and those that wait.
    pub fn load(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.running, state.waiting.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(user: &str) -> Arc<str> {
        user.into()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_free_place_goes_to_the_user_who_runs_fewest() {
        let admission = Admission::new(2, 100, Duration::from_secs(60));
        let (greedy, modest) = (name("greedy"), name("modest"));
        let held = [admission.enter(&greedy, None).await.unwrap(), admission.enter(&greedy, None).await.unwrap()];
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for (at, user) in [&greedy, &greedy, &modest].into_iter().enumerate() {
            let (own, user, order) = (Arc::clone(&admission), Arc::clone(user), Arc::clone(&order));
            tasks.push(tokio::spawn(async move {
                let place = own.enter(&user, None).await.unwrap();
                order.lock().push(user.to_string());
                tokio::time::sleep(Duration::from_millis(20)).await;
                drop(place);
            }));
            // They wait in this order.
            while admission.load().1 <= at {
                tokio::task::yield_now().await;
            }
        }
        let [first, second] = held;
        drop(first);
        for task in tasks.drain(2..) {
            task.await.unwrap();
        }
        drop(second);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(order.lock()[0], "modest", "who waited behind two others");
        assert_eq!(admission.load(), (0, 0));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_user_runs_no_more_than_its_own_number() {
        let admission = Admission::new(10, 10, Duration::from_millis(50));
        let user = name("ann");
        let place = admission.enter(&user, Some(1)).await.unwrap();
        let error = admission.enter(&user, Some(1)).await.unwrap_err();
        assert!(error.kind() == ErrorKind::Throttled && error.to_string().contains("busy"), "{error}");
        admission.enter(&name("bob"), Some(1)).await.unwrap();
        drop(place);
        admission.enter(&user, Some(1)).await.unwrap();
        assert_eq!(admission.load(), (0, 0));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn who_gives_up_waiting_takes_no_place() {
        let admission = Admission::new(1, 1, Duration::from_secs(60));
        let user = name("ann");
        let place = admission.enter(&user, None).await.unwrap();
        let waiting = tokio::spawn({
            let (admission, user) = (Arc::clone(&admission), Arc::clone(&user));
            async move { admission.enter(&user, None).await.map(drop) }
        });
        while admission.load().1 == 0 {
            tokio::task::yield_now().await;
        }
        assert!(admission.enter(&user, None).await.unwrap_err().to_string().contains("1 wait already"));
        waiting.abort();
        let _ = waiting.await;
        drop(place);
        assert_eq!(admission.load(), (0, 0));
    }
}
