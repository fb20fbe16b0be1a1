//! NameFiles: replaces `input_file_name()` by a column of the scan below it.
//!
//! Only DataFusion's own file scans can evaluate this function. If a statement calls it, this rule
//! adds a column to each table of objects in the statement. Like a partition column, it is constant
//! for each object, so its value is right wherever the scan runs. `*` is expanded before and does
//! not include it.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::catalog::default_table_source::{provider_as_source, source_as_provider};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, plan_err};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::analyzer::AnalyzerRule;

use super::rewrite::rewrite_exprs;
use crate::provider::ObjectTable;

/// Name of the function, and of the column that replaces it.
const INPUT_FILE_NAME: &str = "input_file_name";

/// The rule.
#[derive(Debug)]
pub(super) struct NameFiles;

impl AnalyzerRule for NameFiles {
    fn name(&self) -> &'static str {
        "name_files"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        if !is_called(&plan)? {
            return Ok(plan);
        }
        // Names of the columns with file names: the added column, and those declared with tables.
        let mut names = BTreeSet::from([INPUT_FILE_NAME.to_owned()]);
        let plan = plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::TableScan(scan) => {
                let provider = source_as_provider(&scan.source)?;
                let Some(table) = provider.downcast_ref::<ObjectTable>() else {
                    return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
                };
                if let Some(name) = &table.definition().options.filename {
                    names.insert(name.clone());
                    return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
                }
                let Some(named) = table.with_filename(INPUT_FILE_NAME).filter(|_| scan.projection.is_none()) else {
                    return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
                };
                let source = provider_as_source(Arc::new(named));
                let scan = LogicalPlanBuilder::scan_with_filters_fetch(
                    scan.table_name,
                    source,
                    None,
                    scan.filters,
                    scan.fetch,
                )?;
                scan.build().map(Transformed::yes)
            }
            other => other.recompute_schema().map(Transformed::yes),
        })?;
        rewrite_exprs(plan.data, |expr, schema| replace(expr, schema, &names))
    }
}

fn is_called(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        for expr in node.expressions() {
            found |= expr.exists(|expr| Ok(is_call(expr)))?;
        }
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

fn is_call(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(function) if function.func.name() == INPUT_FILE_NAME)
}

fn replace(expr: Expr, schema: &DFSchema, names: &BTreeSet<String>) -> Result<Transformed<Expr>> {
    if !is_call(&expr) {
        return Ok(Transformed::no(expr));
    }
    let mut found = schema.iter().filter(|(_, field)| names.contains(field.name()));
    match (found.next(), found.next()) {
        (Some((table, field)), None) => {
            Ok(Transformed::yes(Expr::Column(Column::new(table.cloned(), field.name().clone()))))
        }
        (None, _) => plan_err!(
            "input_file_name() is known in the SELECT that reads the objects; name it there, and use that name here"
        ),
        (Some(_), Some(_)) => plan_err!(
            "input_file_name() is ambiguous: there are several tables of objects; read one with filename = true"
        ),
    }
}
