//! Scans that take their rows from an earlier scan of the same query.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt, stream};
use pushdown::{Error, Expr, Fragment, NamedExpr, Output, Result};
use pushdowndb_scan::{ScanOptions, scan_rows};

use super::{RemoteScanExec, ScanSpec};
use crate::error::to_datafusion;
use crate::kept_rows::{KeptRows, Taking};
use crate::query::QueryContext;
use crate::strategies::costs::{Pushed, ScanCosts};
use crate::strategies::filter::{Choice, Route};

/// Where a scan finds its rows, if they are kept to the end.
#[derive(Clone, Debug)]
pub(super) struct Reuse {
    rows: Taking,
    /// What is made of them.
    derivation: Derivation,
}

/// How the rows of a scan come of those of another one.
#[derive(Clone, Debug)]
pub(crate) enum Derivation {
    /// They are the same.
    Same,
    /// By a fragment over these rows.
    By(Arc<Fragment>),
}

impl RemoteScanExec {
    /// How its rows come of those of another scan, as far as that does not depend on the keys of joins; `None` if they do not. The
    /// other one has at least the rows that this one wants, with at least their columns.
    pub(crate) fn derivation(&self, other: &Self) -> Option<Derivation> {
        let (own, others) = (&self.spec, &other.spec);
        let same_objects = || own.objects.iter().map(|o| &o.path).eq(others.objects.iter().map(|o| &o.path));
        if !self.is_of_all_rows()
            || !other.is_of_all_rows()
            || !Arc::ptr_eq(&own.table, &others.table)
            || !same_objects()
        {
            return None;
        }
        if let Some(aggregate) = &others.aggregate {
            let same = own.aggregate.as_ref().is_some_and(|own| own.computes_the_same(aggregate));
            return (same && own.predicate == others.predicate).then_some(Derivation::Same);
        }
        let conjuncts = |predicate: &Option<Expr>| predicate.clone().map(Expr::into_conjuncts).unwrap_or_default();
        let (mut left, passed) = (conjuncts(&own.predicate), conjuncts(&others.predicate));
        if !passed.iter().all(|conjunct| left.contains(conjunct)) {
            return None;
        }
        left.retain(|conjunct| !passed.contains(conjunct));
        if left.is_empty() && own.aggregate.is_none() && own.projection == others.projection {
            return Some(Derivation::Same);
        }
        let place = |column: usize| others.projection.iter().position(|other| *other == column).ok_or(());
        let moved = |expr: &Expr| expr.clone().replace_columns(&mut |column| place(column).map(Expr::Column)).ok();
        let named = |named: &NamedExpr| Some(NamedExpr { expr: moved(&named.expr)?, name: named.name.clone() });
        let output = match &own.aggregate {
            Some(aggregate) => {
                let calls = aggregate.calls.iter().map(|call| {
                    let argument = match &call.argument {
                        Some(argument) => Some(moved(argument)?),
                        None => None,
                    };
                    Some(pushdown::AggregateCall { argument, ..call.clone() })
                });
                Output::Aggregate {
                    groups: aggregate.groups.iter().map(named).collect::<Option<_>>()?,
                    calls: calls.collect::<Option<_>>()?,
                }
            }
            None => {
                let columns = own.projection.iter().zip(self.schema.fields()).map(|(column, field)| {
                    Some(NamedExpr { expr: Expr::Column(place(*column).ok()?), name: field.name().clone() })
                });
                Output::Rows(columns.collect::<Option<_>>()?)
            }
        };
        let left = left.iter().map(moved).collect::<Option<Vec<_>>>()?;
        Some(Derivation::By(Arc::new(Fragment {
            format: own.table.format.clone(),
            schema: Arc::clone(&other.schema),
            predicate: left.into_iter().reduce(Expr::and),
            output,
            order: vec![],
            limit: None,
            project: None,
        })))
    }

    /// Whether it has all rows that pass its filter, however it runs, and may take them from another one.
    fn is_of_all_rows(&self) -> bool {
        let spec = &self.spec;
        let has_all = spec.limit.is_none() && spec.top_k.is_none() && self.sampling.is_none() && self.first.is_none();
        has_all && !spec.options.is_baseline()
    }

    /// The scan with those columns besides that the rows of another one are made of, after its own. `None` if it has them, or if they
    /// cost more than the other one does.
    pub(crate) fn widened_for(&self, other: &Self) -> Result<Option<Self>> {
        let (own, wanted) = (&self.spec, &other.spec);
        if own.aggregate.is_some() || !self.is_of_all_rows() || !Arc::ptr_eq(&own.table, &wanted.table) {
            return Ok(None);
        }
        let mut columns = other.fragment.columns();
        if wanted.aggregate.is_none() {
            // Those of its paths are in no fragment.
            columns.extend(&wanted.projection);
        }
        columns.retain(|column| !own.projection.contains(column));
        columns.sort_unstable();
        columns.dedup();
        if columns.is_empty() {
            return Ok(None);
        }
        let projection = own.projection.iter().copied().chain(columns).collect();
        let wide = self.in_place(ScanSpec { projection, ..own.clone() })?;
        // Who takes its rows is told of them later. It may be cut into other partitions now.
        let kept = self.kept.as_ref().map(|kept| Arc::new(KeptRows::new(kept.number(), wide.partitions.len())));
        let wide = Self { kept, ..self.counting(wide) };
        Ok((wide.price() - self.price() < other.price()).then_some(wide))
    }

    /// About what the scan takes of what counts, seconds or dollars, with the keys of joins.
    fn price(&self) -> f64 {
        let share = self.spec.joins.iter().filter_map(|join| join.share_of("bloom", "filtered")).fold(1.0, f64::min);
        let route = match &self.choice {
            Choice::Storage { route, .. } => Some(*route),
            // Once it has them, storage looks for the keys.
            Choice::Compute(_) => self.capability.fragment.filter(|_| share < 1.0).map(|_| Route::Fragment),
        };
        let costs = ScanCosts::of(&self.spec, &self.fragment, route);
        let scan = costs.filtering();
        let estimate = match route {
            Some(_) => costs.pushed(Pushed { returned: (scan.returned as f64 * share) as u64, ..scan }),
            None => costs.plain(0.0),
        };
        let counts = costs.model().counts(&estimate);
        // Plain reads look keys up as well, where these are no SQL.
        match share < 1.0 && route == Some(Route::Fragment) {
            true => counts.min(costs.model().counts(&costs.plain_keyed(share, 0.0))),
            false => counts,
        }
    }

    /// The same scan, with its rows kept for others, under this number if they are not yet.
    pub(crate) fn keeping(&self, number: usize) -> (Self, Arc<KeptRows>) {
        let kept = match &self.kept {
            Some(kept) => Arc::clone(kept),
            None => Arc::new(KeptRows::new(number, self.partitions.len())),
        };
        (Self { kept: Some(Arc::clone(&kept)), ..self.clone() }, kept)
    }

    /// The same scan, of rows that another one keeps, or waits for; `None` if that does not keep them.
    pub(crate) fn reusing(&self, other: &Self, waits: bool) -> Option<Self> {
        let (rows, derivation) = (Taking::of(Arc::clone(other.kept.as_ref()?), waits), self.derivation(other)?);
        Some(Self { reuse: Some(Reuse { rows, derivation }), ..self.clone() })
    }

    /// Where its rows are kept for others, if they are.
    pub(crate) fn kept(&self) -> Option<&Arc<KeptRows>> {
        self.kept.as_ref()
    }

    /// Whether it may find its rows with another scan.
    pub(super) fn reuses(&self) -> bool {
        self.reuse.is_some()
    }

    /// Whose rows it takes, and which it keeps, for EXPLAIN.
    pub(super) fn shown_reuse(&self) -> String {
        let taken = self.reuse.as_ref().map(|reuse| format!(", takes the rows kept as #{}", reuse.rows.number()));
        let kept = self.kept.as_ref().map(|kept| format!(", keeps its rows as #{}", kept.number()));
        taken.into_iter().chain(kept).collect()
    }

    /// One partition, of the rows that were kept if they are all to be had, otherwise as planned.
    pub(super) fn execute_reusing(
        &self,
        reuse: &Reuse,
        query: Arc<QueryContext>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> SendableRecordBatchStream {
        let (scan, reuse) = (Self { reuse: None, ..self.clone() }, reuse.clone());
        let rows = async move {
            // They are the keys of rows that come after those that are kept.
            for filter in &scan.spec.key_filters {
                filter.keys.outcome().await;
            }
            let Some(batches) = reuse.rows.rows().await else { return scan.execute(partition, context) };
            scan.note_keys().await;
            query.meter.strategy(format!("{}: rows that an earlier scan has kept", scan.spec.name));
            let partitions = scan.partitions.len().max(1);
            let own = batches.iter().skip(partition).step_by(partitions).cloned().collect();
            scan.derived(&reuse.derivation, own).map_err(to_datafusion)
        };
        let rows = stream::once(rows).try_flatten();
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows.boxed()))
    }

    /// Its rows, of some of those that were kept.
    fn derived(self, derivation: &Derivation, kept: Vec<RecordBatch>) -> Result<SendableRecordBatchStream> {
        let rows = match derivation {
            Derivation::Same => stream::iter(kept).map(Ok).boxed(),
            Derivation::By(fragment) => {
                // The plan above merges groups that come out more than once.
                let options =
                    ScanOptions { partial_group_bytes: Some(self.spec.group_bytes), ..ScanOptions::default() };
                let scan = self.clone();
                let rows = scan_rows(fragment, kept, &options)?;
                rows.map(move |batch| scan.as_planned(&batch?)).boxed()
            }
        };
        let (tally, schema) = (Arc::clone(&self.tally), Arc::clone(&self.schema));
        let told = rows.inspect_ok(move |batch: &RecordBatch| {
            tally.busy();
            tally.rows(batch.num_rows() as u64);
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, told.map_err(to_datafusion))))
    }

    /// What was made of rows, in the types that the plan was promised.
    fn as_planned(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let unfit = |error| Error::internal("rows that do not fit the scan that takes them").with_source(error);
        let columns = match &self.spec.aggregate {
            Some(aggregate) => aggregate.columns(batch).map_err(unfit)?,
            None => batch.columns().to_vec(),
        };
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options).map_err(unfit)
    }
}
