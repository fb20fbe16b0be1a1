//! Filter and projection: on plainly read bytes (`compute`), or in storage with S3 Select (`storage`).
//!
//! PushdownDB, Section IV. Storage is asked for the columns the plan reads and for the rows that pass the
//! strongest predicate it evaluates without ever dropping a row that counts. Where that predicate is weaker
//! than the query's, the scan evaluates the query's again on what comes back.

use std::sync::Arc;

use pushdown::Result;
use pushdown::{Capability, Exactness, Expr, Format, Fragment, Level, NamedExpr, Output, classify};

use crate::settings::{PushdownOptions, Side};

/// What storage is asked to do, or why it is asked for plain bytes.
#[derive(Clone, Debug)]
pub(crate) enum Choice {
    /// Plain reads; the text says why.
    Compute(String),
    /// S3 Select.
    Storage {
        /// What is sent.
        request: Box<Fragment>,
        /// Whether what comes back needs no further filter.
        exact: bool,
    },
}

/// Chooses for a fragment that yields rows. Its output is columns only.
pub(crate) fn choose(fragment: &Fragment, capability: &Capability, options: &PushdownOptions) -> Result<Choice> {
    let Output::Rows(outputs) = &fragment.output else {
        return Ok(Choice::Compute("aggregates are chosen elsewhere".to_owned()));
    };
    if let Some(reason) = not_at_storage(fragment, capability, options, options.filter_side()?)? {
        return Ok(Choice::Compute(reason));
    }
    let Some(dialect) = &capability.select else { return Ok(Choice::Compute(no_select(capability))) };

    let (predicate, exact) = match &fragment.predicate {
        None => (None, true),
        Some(asked) => match classify(asked, &fragment.schema, &fragment.format, dialect) {
            Exactness::Exact(predicate) => (Some(predicate), true),
            Exactness::Inexact(weaker) => (Some(weaker), false),
            Exactness::Unsupported => (None, false),
        },
    };

    let mut columns: Vec<usize> = outputs.iter().flat_map(|output| output.expr.columns()).collect();
    if !exact {
        columns.extend(fragment.predicate.iter().flat_map(Expr::columns));
    }
    columns.sort_unstable();
    columns.dedup();
    if columns.is_empty() {
        // S3 Select cannot return rows without columns, and the rows must be counted.
        columns.push(narrowest(fragment));
    }

    if predicate.is_none() {
        if options.filter_side()? == Side::Auto && matches!(fragment.format, Format::Parquet) {
            return Ok(Choice::Compute("nothing to filter, and Parquet columns are read on their own".to_owned()));
        }
        if columns.len() == fragment.schema.fields().len() && fragment.limit.is_none() {
            return Ok(Choice::Compute("every column of every row is needed".to_owned()));
        }
    }

    let name = |index: &usize| fragment.schema.field(*index).name().clone();
    let output = columns.iter().map(|i| NamedExpr { expr: Expr::Column(*i), name: name(i) }).collect();
    let request = Fragment {
        format: fragment.format.clone(),
        schema: Arc::clone(&fragment.schema),
        predicate,
        output: Output::Rows(output),
        // The residual filter could drop the very rows that storage picked.
        order: vec![],
        limit: fragment.limit.filter(|_| exact),
        project: None,
    };
    Ok(match pushdowndb_select::render(&request, dialect) {
        Ok(_) => Choice::Storage { request: Box::new(request), exact },
        Err(error) => Choice::Compute(error.to_string()),
    })
}

/// The reasons for plain reads that hold for every operator.
pub(super) fn not_at_storage(
    fragment: &Fragment,
    capability: &Capability,
    options: &PushdownOptions,
    side: Side,
) -> Result<Option<String>> {
    if side == Side::Compute {
        return Ok(Some("asked for by SET".to_owned()));
    }
    if options.level_cap()? == Some(Level::None) {
        return Ok(Some("pushdown.level is none".to_owned()));
    }
    if capability.level(&fragment.format) == Level::None {
        return Ok(Some(match &capability.select {
            None => no_select(capability),
            Some(_) => {
                format!(
                    "the S3 Select of backend {} is not used on {}",
                    capability.profile.name(),
                    fragment.format.name()
                )
            }
        }));
    }
    Ok(None)
}

fn no_select(capability: &Capability) -> String {
    format!("backend {} has no S3 Select", capability.profile.name())
}

/// The column that probably takes the fewest bytes.
fn narrowest(fragment: &Fragment) -> usize {
    let width = |index: &usize| crate::remote_scan::estimate::column_bytes(fragment.schema.field(*index).data_type());
    (0..fragment.schema.fields().len()).min_by_key(width).unwrap_or(0)
}
