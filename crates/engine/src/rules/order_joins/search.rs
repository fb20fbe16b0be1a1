//! Search for the best left-deep join order, by dynamic programming over the sets of relations
//! (Selinger et al., Access Path Selection, 1979, Section 5).
//!
//! The cost of an order is the bytes that it fetches. A relation is filtered by the keys of earlier
//! ones, so the one that filters best goes first (YourSQL, Section 3.1.1).

use std::cmp::Ordering;

/// Maximum relations that are reordered: the search visits 2^n sets.
pub(super) const MAX_RELATIONS: usize = 12;

/// Bytes over the network that take as long as one result row of a join in the engine.
const RESULT_ROW_BYTES: f64 = 4.0;

/// A relation to join, after its own conditions.
#[derive(Clone, Debug)]
pub(super) struct Relation {
    pub(super) rows: f64,
    /// Bytes of a row.
    pub(super) width: f64,
    /// The classes of equal expressions that it has a member of, each with the number of distinct
    /// values in the whole table.
    pub(super) keys: Vec<(usize, f64)>,
}

/// The best order of a set of relations.
#[derive(Clone, Debug)]
struct Best {
    order: Vec<usize>,
    cost: f64,
    rows: f64,
    /// The number of distinct values left in each class; `None` if no relation has the class yet.
    values: Vec<Option<f64>>,
}

impl Best {
    fn alone(index: usize, relation: &Relation, classes: usize) -> Self {
        let mut values = vec![None; classes];
        for (class, of_table) in &relation.keys {
            if let Some(slot) = values.get_mut(*class) {
                *slot = Some(of_table.min(relation.rows).max(1.0));
            }
        }
        Self { order: vec![index], cost: relation.rows * relation.width, rows: relation.rows, values }
    }

    /// Appends a relation that is filtered by the keys of those before it. Returns `None` if no key
    /// joins it.
    fn with(&self, index: usize, relation: &Relation) -> Option<Self> {
        let shared = relation.keys.iter().filter_map(|(class, of_table)| {
            let before = self.values.get(*class).copied().flatten()?;
            Some((before, of_table.max(before).max(1.0)))
        });
        // Of several equalities only the most selective one counts, since their correlation is
        // unknown.
        let (passing, matching) = shared.fold((None, 1.0_f64), |(passing, matching), (before, of_table)| {
            let share: f64 = before / of_table;
            (Some(passing.map_or(share, |passing: f64| passing.min(share))), matching.min(1.0 / of_table))
        });
        let fetched = relation.rows * passing?;
        let rows = self.rows * relation.rows * matching;
        let mut values = self.values.clone();
        for (class, of_table) in &relation.keys {
            if let Some(slot) = values.get_mut(*class) {
                let own = of_table.min(fetched);
                *slot = Some(slot.map_or(own, |before| before.min(own)));
            }
        }
        values.iter_mut().flatten().for_each(|left| *left = left.min(rows).max(1.0));
        let cost = self.cost + fetched * relation.width + rows * RESULT_ROW_BYTES;
        let order = self.order.iter().copied().chain([index]).collect();
        Some(Self { order, cost, rows, values })
    }
}

/// Returns the best order of `relations`; `None` if keys do not connect them all, or if there are
/// too many.
pub(super) fn best_order(relations: &[Relation]) -> Option<Vec<usize>> {
    let count = relations.len();
    if count > MAX_RELATIONS {
        return None;
    }
    let keys = relations.iter().flat_map(|relation| &relation.keys);
    let classes = keys.map(|(class, _)| class + 1).max().unwrap_or(0);
    let mut best: Vec<Option<Best>> = vec![None; 1 << count];
    for (index, relation) in relations.iter().enumerate() {
        *best.get_mut(1 << index)? = Some(Best::alone(index, relation, classes));
    }
    for set in 1..(1_usize << count) {
        let Some(before) = best.get(set).cloned().flatten() else { continue };
        for (index, relation) in relations.iter().enumerate().filter(|(index, _)| set & (1 << index) == 0) {
            let Some(next) = before.with(index, relation) else { continue };
            let slot = best.get_mut(set | (1 << index))?;
            if slot.as_ref().is_none_or(|other| next.cost.total_cmp(&other.cost) == Ordering::Less) {
                *slot = Some(next);
            }
        }
    }
    best.pop().flatten().map(|all| all.order)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Q5 of TPC-H at scale 1: customer, orders, lineitem, supplier, nation, region.
    fn q5() -> Vec<Relation> {
        let relation = |rows, width, keys: &[(usize, f64)]| Relation { rows, width, keys: keys.to_vec() };
        vec![
            relation(150_000.0, 12.0, &[(0, 150_000.0), (3, 25.0)]),
            relation(227_000.0, 20.0, &[(0, 100_000.0), (1, 1_500_000.0)]),
            relation(6_000_000.0, 40.0, &[(1, 1_500_000.0), (2, 10_000.0)]),
            relation(10_000.0, 12.0, &[(2, 10_000.0), (3, 25.0)]),
            relation(25.0, 30.0, &[(3, 25.0), (4, 5.0)]),
            relation(1.0, 30.0, &[(4, 5.0)]),
        ]
    }

    #[test]
    fn the_best_filter_goes_first_and_the_largest_relation_last() {
        let order = best_order(&q5()).unwrap();
        assert_eq!(order.len(), 6);
        let place = |relation| order.iter().position(|other| *other == relation).unwrap();
        assert!(
            place(5) < place(4) && place(4) < place(0),
            "{order:?}: the region tells the nations, these the customers"
        );
        assert!(place(0) < place(2) && place(1) < place(2), "{order:?}: the lines by the keys of the orders");
    }

    #[test]
    fn every_order_joins_connected_relations() {
        let relations = q5();
        let order = best_order(&relations).unwrap();
        let classes = |relation: &usize| relations[*relation].keys.iter().map(|(class, _)| *class).collect::<Vec<_>>();
        for (place, relation) in order.iter().enumerate().skip(1) {
            let before: Vec<usize> = order[..place].iter().flat_map(classes).collect();
            assert!(classes(relation).iter().any(|class| before.contains(class)), "{order:?}");
        }
        let mut apart = relations;
        apart[5].keys.clear();
        assert_eq!(best_order(&apart), None);
    }

    #[test]
    fn too_many_relations_are_not_ordered() {
        assert_eq!(
            best_order(&vec![Relation { rows: 1.0, width: 1.0, keys: vec![(0, 1.0)] }; MAX_RELATIONS + 1]),
            None
        );
    }
}
