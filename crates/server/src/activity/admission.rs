//! Admission of queries: which ones run and which wait, fair between users.
//!
//! A slot that becomes free goes to the waiting user who runs the fewest queries, and among equals
//! to the one who has waited longest. So one user's hundred queries delay another's first by at
//! most one.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pushdowndb_contract::{Error, ErrorKind, Result};
use tokio::sync::oneshot;

/// The slots for running queries, and the queue of waiting ones.
#[derive(Debug)]
pub(crate) struct Admission {
    /// Maximum queries that run at once.
    places: usize,
    /// Maximum queries that wait.
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
    /// Maximum queries of the user that run at once.
    most: usize,
    place: oneshot::Sender<Place>,
}

/// A slot for a running query, released on drop.
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

/// Removes a query from the queue on drop.
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

    /// The index of the waiting query that gets the next free slot; `None` if no user may run more.
    fn next(&self) -> Option<usize> {
        let may = self.waiting.iter().enumerate().filter(|(_, w)| self.running_of(&w.user) < w.most);
        // Of several with the fewest, `min_by_key` returns the first, which has waited longest.
        may.min_by_key(|(_, waiting)| self.running_of(&waiting.user)).map(|(at, _)| at)
    }
}

impl Admission {
    /// Admits `places` running and `most_waiting` waiting queries, each of which waits at most
    /// `patience`.
    pub fn new(places: usize, most_waiting: usize, patience: Duration) -> Arc<Self> {
        Arc::new(Self { places, most_waiting, patience, state: Mutex::default() })
    }

    /// Waits for a slot for a query of `user`, who may run `most` queries at once (`None`: any
    /// number).
    ///
    /// # Errors
    ///
    /// Too many queries wait, or this one has waited for too long.
    pub async fn enter(self: &Arc<Self>, user: &Arc<str>, most: Option<usize>) -> Result<Place> {
        let granted = tokio::time::timeout(self.patience, self.queue(user, most, self.most_waiting)).await;
        // If a slot was granted at the last moment, dropping it releases it.
        granted.unwrap_or_else(|_| {
            let seconds = self.patience.as_secs();
            let message = format!("the server is busy: the query waited for {seconds} seconds; try again later");
            Err(Error::new(ErrorKind::Throttled, message))
        })
    }

    /// Waits as long as it takes for a slot for a query of `user` that had given up its own slot.
    ///
    /// # Errors
    ///
    /// None in practice, since the queue has no limit for such queries.
    pub async fn enter_again(self: &Arc<Self>, user: &Arc<str>, most: Option<usize>) -> Result<Place> {
        self.queue(user, most, usize::MAX).await
    }

    /// Waits for a slot. Returns an error if `most_waiting` queries are waiting already.
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

    /// Gives free slots to waiting queries.
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
            // If the query was dropped meanwhile, dropping its slot admits the next one.
            drop(waiting.place.send(place));
        }
    }

    /// The numbers of running and of waiting queries.
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
            // Waits until the task is in the queue, so that the queue has the order of the tasks.
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
