//! A sort that can be interrupted.

use std::cmp::Ordering;

use pushdowndb_contract::Result;

use crate::runtime::interrupt::{Steps, check_interrupt};

/// The number of rows that are sorted at a time.
const RUN_ROWS: usize = 4096;

/// The cost of comparing two rows, in bytes that could be read in the same time.
const STEPS_PER_ROW: usize = 64;

/// Returns the indexes of `rows` rows in sorted order. The sort is stable.
///
/// Runs are sorted and then merged in pairs. The sort of the standard library could be interrupted
/// only by an inconsistent comparison.
pub(crate) fn sorted(rows: usize, compare: &dyn Fn(u32, u32) -> Ordering) -> Result<Vec<u32>> {
    let mut order: Vec<u32> = (0..u32::try_from(rows).unwrap_or(u32::MAX)).collect();
    for run in order.chunks_mut(RUN_ROWS) {
        check_interrupt()?;
        run.sort_by(|a, b| compare(*a, *b));
    }
    let (mut width, mut steps) = (RUN_ROWS, Steps::default());
    let mut merged = Vec::with_capacity(order.len());
    while width < order.len() {
        merged.clear();
        for pair in order.chunks(2 * width) {
            let (first, second) = pair.split_at(width.min(pair.len()));
            merge(first, second, compare, &mut merged, &mut steps)?;
        }
        std::mem::swap(&mut order, &mut merged);
        width *= 2;
    }
    Ok(order)
}

fn merge(
    first: &[u32],
    second: &[u32],
    compare: &dyn Fn(u32, u32) -> Ordering,
    into: &mut Vec<u32>,
    steps: &mut Steps,
) -> Result<()> {
    let (mut first, mut second) = (first.iter().copied().peekable(), second.iter().copied().peekable());
    while let (Some(a), Some(b)) = (first.peek(), second.peek()) {
        steps.did(STEPS_PER_ROW)?;
        into.extend(if compare(*a, *b).is_gt() { second.next() } else { first.next() });
    }
    into.extend(first);
    into.extend(second);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::runtime::interrupt::Interrupt;

    #[test]
    fn rows_come_in_order_and_equal_ones_as_they_were() {
        let mut random = StdRng::seed_from_u64(1);
        for rows in [0, 1, 2, RUN_ROWS - 1, RUN_ROWS, RUN_ROWS + 1, 3 * RUN_ROWS + 7, 8 * RUN_ROWS] {
            let keys: Vec<u32> = (0..rows).map(|_| random.random_range(0..1_000)).collect();
            let mut expected: Vec<u32> = (0..rows as u32).collect();
            expected.sort_by_key(|row| keys[*row as usize]);
            let order = sorted(rows, &|a, b| keys[a as usize].cmp(&keys[b as usize])).unwrap();
            assert_eq!(order, expected, "{rows} rows");
        }
    }

    #[test]
    fn an_interrupt_ends_it() {
        let (interrupt, compared) = (Interrupt::new(), Cell::new(0));
        let compare = |a: u32, b: u32| {
            compared.set(compared.get() + 1);
            if compared.get() == 20 * RUN_ROWS {
                interrupt.cancel();
            }
            b.cmp(&a)
        };
        assert!(interrupt.scope_sync(|| sorted(100 * RUN_ROWS, &compare)).is_err());
        assert!(compared.get() < 50 * RUN_ROWS, "{} comparisons", compared.get());
    }
}
