//! Scans that reuse the rows of an earlier scan of the same query.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt, stream};
use pushdowndb_contract::{Error, Expr, Fragment, NamedExpr, Output, Result};
use pushdowndb_scan::{ScanOptions, scan_rows};

use super::RemoteScanExec;
use super::{Reuse, Rewrite};
use crate::context::QueryContext;
use crate::cost::scan::{Pushed, ScanCosts};
use crate::error::to_datafusion;
use crate::exec::shared_rows::{SharedRows, SharedRowsReader};
use crate::plan::placement::{Choice, Route};
use crate::plan::scan_plan::ScanPlan;

impl RemoteScanExec {
    /// Returns how to compute the rows of this scan from those of `other`, regardless of join keys;
    /// `None` if `other` lacks rows or columns.
    pub(crate) fn rewrite_of(&self, other: &Self) -> Option<Rewrite> {
        let (own, others) = (&self.plan, &other.plan);
        let same_objects = || own.objects.iter().map(|o| &o.path).eq(others.objects.iter().map(|o| &o.path));
        if !self.yields_all_rows() || !other.yields_all_rows() || own.table != others.table || !same_objects() {
            return None;
        }
        if let Some(aggregate) = &others.aggregate {
            let same = own.aggregate.as_ref().is_some_and(|own| own.computes_the_same(aggregate));
            return (same && own.predicate == others.predicate).then_some(Rewrite::Same);
        }
        let conjuncts = |predicate: &Option<Expr>| predicate.clone().map(Expr::into_conjuncts).unwrap_or_default();
        let (mut left, passed) = (conjuncts(&own.predicate), conjuncts(&others.predicate));
        if !passed.iter().all(|conjunct| left.contains(conjunct)) {
            return None;
        }
        left.retain(|conjunct| !passed.contains(conjunct));
        if left.is_empty() && own.aggregate.is_none() && own.projection == others.projection {
            return Some(Rewrite::Same);
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
                    Some(pushdowndb_contract::AggregateCall { argument, ..call.clone() })
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
        Some(Rewrite::By(Arc::new(Fragment {
            format: own.table.format.clone(),
            schema: Arc::clone(&other.schema),
            predicate: left.into_iter().reduce(Expr::and),
            output,
            order: vec![],
            limit: None,
            project: None,
        })))
    }

    /// Returns whether the scan yields all rows that pass its filter and may reuse those of another
    /// scan.
    fn yields_all_rows(&self) -> bool {
        let plan = &self.plan;
        let has_all = plan.limit.is_none()
            && plan.top_k.is_none()
            && self.placement().sampling.is_none()
            && self.placement().top_k_fragment.is_none();
        has_all && !self.context.options.is_baseline()
    }

    /// Returns the scan with the columns that `other` needs appended to its own. Returns `None` if
    /// no column is missing, or if the additional columns cost more than scanning `other`.
    pub(crate) fn widened_for(&self, other: &Self) -> Result<Option<Self>> {
        let (own, wanted) = (&self.plan, &other.plan);
        if own.aggregate.is_some() || !self.yields_all_rows() || own.table != wanted.table {
            return Ok(None);
        }
        let mut columns = other.fragment.columns();
        if wanted.aggregate.is_none() {
            // Fragments have no partition columns.
            columns.extend(&wanted.projection);
        }
        columns.retain(|column| !own.projection.contains(column));
        columns.sort_unstable();
        columns.dedup();
        if columns.is_empty() {
            return Ok(None);
        }
        let projection = own.projection.iter().copied().chain(columns).collect();
        let wide = self.in_place(ScanPlan { projection, ..own.clone() })?;
        // Readers are attached later. The partition count may have changed.
        let shared_rows =
            self.shared_rows.as_ref().map(|shared| Arc::new(SharedRows::new(shared.number(), wide.partition_count())));
        let wide = Self { shared_rows, ..self.counting(wide) };
        Ok((wide.price() - self.price() < other.price()).then_some(wide))
    }

    /// Returns the estimated fraction of the scan's bytes that pass the join key filters.
    pub(crate) fn keyed_share(&self) -> f64 {
        self.decisions.joins.iter().filter_map(|join| join.share_of("bloom", "filtered")).fold(1.0, f64::min)
    }

    /// Estimates the price of the scan with its join key filters, in seconds or dollars.
    fn price(&self) -> f64 {
        let share = self.keyed_share();
        let route = match &self.placement().choice {
            Choice::Storage { route, .. } => Some(*route),
            // With join keys, storage filters even if plain reads were better without them.
            Choice::Compute(_) => self.placement().capability.fragment.filter(|_| share < 1.0).map(|_| Route::Fragment),
        };
        let costs = ScanCosts::of(&self.plan, &self.context, &self.fragment, route);
        let scan = costs.filtering();
        let estimate = match route {
            Some(_) => costs.pushed(Pushed { returned: (scan.returned as f64 * share) as u64, ..scan }),
            None => costs.plain(0.0),
        };
        let counts = costs.model().counts(&estimate);
        // Plain reads can evaluate join keys too, though not keys rendered as SQL.
        match share < 1.0 && route == Some(Route::Fragment) {
            true => counts.min(costs.model().counts(&costs.plain_keyed(share, 0.0))),
            false => counts,
        }
    }

    /// Returns the same scan with its rows shared, and those rows. They are numbered `number`
    /// unless the scan shares them already.
    pub(crate) fn sharing_rows(&self, number: usize) -> (Self, Arc<SharedRows>) {
        let shared = match &self.shared_rows {
            Some(shared) => Arc::clone(shared),
            None => Arc::new(SharedRows::new(number, self.partition_count())),
        };
        (Self { shared_rows: Some(Arc::clone(&shared)), ..self.clone() }, shared)
    }

    /// Returns the same scan reusing the rows of `other`; `None` if `other` does not share them or
    /// lacks some. `waits` is whether to wait until they are complete.
    pub(crate) fn reusing(&self, other: &Self, waits: bool) -> Option<Self> {
        let (rows, rewrite) =
            (SharedRowsReader::of(Arc::clone(other.shared_rows.as_ref()?), waits), self.rewrite_of(other)?);
        Some(Self { reuse: Some(Reuse { rows, rewrite }), ..self.clone() })
    }

    pub(crate) fn shared_rows(&self) -> Option<&Arc<SharedRows>> {
        self.shared_rows.as_ref()
    }

    /// Returns whether the scan may reuse the rows of another scan.
    pub(crate) fn reuses(&self) -> bool {
        self.reuse.is_some()
    }

    /// Formats the numbers of the reused and the shared rows, for EXPLAIN.
    pub(crate) fn shown_reuse(&self) -> String {
        let taken = self.reuse.as_ref().map(|reuse| format!(", takes the rows kept as #{}", reuse.rows.number()));
        let kept = self.shared_rows.as_ref().map(|kept| format!(", keeps its rows as #{}", kept.number()));
        taken.into_iter().chain(kept).collect()
    }

    /// Returns the part of another scan's rows that belongs to `partition`; `None` if those rows
    /// are incomplete.
    pub(super) async fn read_shared_rows(
        &self,
        reuse: &Reuse,
        partition: usize,
        query: &QueryContext,
    ) -> Option<Result<SendableRecordBatchStream>> {
        // Wait for the join keys, so that their counts can be recorded below.
        for filter in &self.plan.key_filters {
            self.context.keys_of(filter).outcome().await;
        }
        let batches = reuse.rows.rows().await?;
        self.note_keys().await;
        query.meter.strategy(format!("{}: rows that an earlier scan has kept", self.plan.name));
        let partitions = self.partition_count().max(1);
        let own = batches.iter().skip(partition).step_by(partitions).cloned().collect();
        Some(self.rewritten(&reuse.rewrite, own))
    }

    /// Computes the rows of this scan from `batches` of another scan.
    fn rewritten(&self, rewrite: &Rewrite, batches: Vec<RecordBatch>) -> Result<SendableRecordBatchStream> {
        let rows = match rewrite {
            Rewrite::Same => stream::iter(batches).map(Ok).boxed(),
            Rewrite::By(fragment) => {
                // The plan above merges duplicate groups.
                let options =
                    ScanOptions { partial_group_bytes: Some(self.plan.group_bytes), ..ScanOptions::default() };
                let scan = self.clone();
                let rows = scan_rows(fragment, batches, &options)?;
                rows.map(move |batch| scan.as_planned(&batch?)).boxed()
            }
        };
        let (counters, schema) = (Arc::clone(&self.counters), Arc::clone(&self.schema));
        let counted = rows.inspect_ok(move |batch: &RecordBatch| {
            counters.busy();
            counters.rows(batch.num_rows() as u64);
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, counted.map_err(to_datafusion))))
    }

    /// Converts `batch` to the planned schema.
    fn as_planned(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let unfit = |error| Error::internal("rows that do not fit the scan that takes them").with_source(error);
        let columns = match &self.plan.aggregate {
            Some(aggregate) => aggregate.columns(batch).map_err(unfit)?,
            None => batch.columns().to_vec(),
        };
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options).map_err(unfit)
    }
}
