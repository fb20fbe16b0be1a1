//! Threads that keep to a core each.
//!
//! Threads that scan wake each other while those that answer have a core for a moment. Linux then leaves two of them on one
//! core and the other core idle, until it balances them anew 5 to 10 ms later: as long as a scan of 50 MB takes. A thread
//! that may run on one core only is woken there. Where others need that core too, pieces of an object go to whoever is free.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::Builder;

/// Has so many workers of a runtime keep to a core each, if this process has exactly as many: with a share of a
/// larger machine, as containers have, they would all keep to its first cores.
pub(crate) fn keep_to(builder: &mut Builder, workers: usize) -> &mut Builder {
    let cores = own();
    if workers < 2 || cores.len() != workers {
        return builder;
    }
    // The threads for work that waits start later, from one of these, whose core they would take over: they may run anywhere.
    let started = AtomicUsize::new(0);
    builder.on_thread_start(move || match cores.get(started.fetch_add(1, Ordering::Relaxed)) {
        Some(core) => keep_this_thread_to(&[*core]),
        None => keep_this_thread_to(&cores),
    })
}

/// The cores that this process may run on; none where that cannot be told.
#[cfg(target_os = "linux")]
fn own() -> Vec<usize> {
    use nix::sched::{CpuSet, sched_getaffinity};
    let allowed = sched_getaffinity(nix::unistd::Pid::from_raw(0)).unwrap_or_default();
    (0..CpuSet::count()).filter(|core| allowed.is_set(*core).unwrap_or(false)).collect()
}

#[cfg(not(target_os = "linux"))]
fn own() -> Vec<usize> {
    Vec::new()
}

/// A core that was taken away meanwhile is no reason to stop.
#[cfg(target_os = "linux")]
fn keep_this_thread_to(cores: &[usize]) {
    use nix::sched::{CpuSet, sched_setaffinity};
    let mut only = CpuSet::new();
    let set = cores.iter().try_for_each(|core| only.set(*core));
    let kept = set.and_then(|()| sched_setaffinity(nix::unistd::Pid::from_raw(0), &only));
    if let Err(error) = kept {
        tracing::debug!(?cores, %error, "a thread does not keep to its core");
    }
}

#[cfg(not(target_os = "linux"))]
fn keep_this_thread_to(_: &[usize]) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use super::*;

    /// Where so many tasks run at the same time, each told the cores of its thread; and a thread that waits.
    fn cores_of(workers: usize) -> (BTreeSet<Vec<usize>>, Vec<usize>) {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(workers);
        let runtime = keep_to(&mut builder, workers).build().unwrap();
        let all = Arc::new(std::sync::Barrier::new(workers));
        let task = |_| {
            let all = Arc::clone(&all);
            runtime.spawn(async move {
                all.wait();
                own()
            })
        };
        let tasks: Vec<_> = (0..workers).map(task).collect();
        let cores = tasks.into_iter().map(|task| runtime.block_on(task).unwrap()).collect();
        let waits = runtime.spawn(async { tokio::task::spawn_blocking(own).await });
        (cores, runtime.block_on(waits).unwrap().unwrap())
    }

    #[test]
    fn each_worker_has_a_core_of_its_own_if_there_are_as_many() {
        let all = own();
        let apart: BTreeSet<Vec<usize>> = all.iter().map(|core| vec![*core]).collect();
        assert_eq!(cores_of(all.len()), (apart, all.clone()));
        let together = BTreeSet::from([all.clone()]);
        assert_eq!(cores_of(all.len() + 1), (together.clone(), all.clone()), "a share of a machine is not told apart");
        assert_eq!(cores_of(1), (together, all), "one has nobody to be kept from");
    }
}
