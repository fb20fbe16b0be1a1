//! Tables with clauses that DataFusion lacks, rewritten to subqueries:
//!
//! | written | rewritten to |
//! | --- | --- |
//! | `t TABLESAMPLE BERNOULLI (10)` | `(SELECT * FROM t WHERE random() < 0.1) AS t` |
//! | `t TABLESAMPLE SYSTEM (10)` | `(SELECT * FROM t WHERE sampled_splits(…)) AS t` ([`crate::rules::sample_splits`]) |
//! | `t TABLESAMPLE (5 ROWS)` | five rows by `ORDER BY random()` |
//! | `t TABLESAMPLE … REPEATABLE (1)` | the same, by `hash(1, all columns)` |
//! | `t PIVOT (sum(v) FOR k IN ('a', 'b'))` | `(SELECT * EXCLUDE (v, k), sum(v) FILTER (WHERE k = 'a') AS "a", … FROM t GROUP BY ALL)` |
//! | `LATERAL unnest(l)`, `unnest(l)` | `UNNEST(l) AS unnest(unnest)` |
//! | `t UNPIVOT (v FOR n IN (a, b))` | `(SELECT * EXCLUDE (a, b), unnest(['a', 'b']) AS n, unnest([a, b]) AS v FROM t)` without NULLs |

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};

use datafusion::sql::sqlparser::ast::{
    Expr, ExprWithAlias, FunctionArg, FunctionArgExpr, Ident, JoinOperator, NullInclusion, ObjectNamePart,
    PivotValueSource, Select, TableAlias, TableAliasColumnDef, TableFactor, TableSample, TableSampleKind,
    TableSampleMethod, TableSampleUnit, Value, ValueWithSpan,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use pushdowndb_contract::{Error, Result};

use super::calls::call;
use super::marks;
use super::parsed::query;
use super::visit::{any_expression, each_expression};
use crate::functions::sampled_splits::NAME;
use crate::plan::split_sample::WHOLE;

/// Rewrites `table`, if it is one of these.
pub(super) fn rewrite(table: &mut TableFactor) -> Result<()> {
    let (sql, alias) = match table {
        TableFactor::Table { sample: sample @ Some(_), alias, name, .. } => {
            let sample = sample.take();
            let named = alias.take().or_else(|| {
                let name = name.0.last().and_then(ObjectNamePart::as_ident)?.clone();
                Some(TableAlias { explicit: true, name, columns: vec![], at: None })
            });
            let Some(sample) = sample else { return Ok(()) };
            (sampled(&table.to_string(), &sample)?, named)
        }
        TableFactor::Derived { sample: sample @ Some(_), alias, .. } => {
            let (sample, alias) = (sample.take(), alias.take());
            let Some(sample) = sample else { return Ok(()) };
            (sampled(&table.to_string(), &sample)?, alias)
        }
        TableFactor::Function { name, args, alias, .. } if name.to_string().eq_ignore_ascii_case("unnest") => {
            let exprs = args.iter().map(|arg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Ok(expr.clone()),
                _ => Err(Error::invalid("unnest takes lists")),
            });
            let array_exprs = exprs.collect::<Result<Vec<_>>>()?;
            let alias = alias.take();
            *table = TableFactor::UNNEST {
                alias,
                array_exprs,
                with_offset: false,
                with_offset_alias: None,
                with_ordinality: false,
            };
            return rewrite(table);
        }
        TableFactor::UNNEST { alias, array_exprs, with_ordinality, .. } => {
            array_exprs.iter_mut().for_each(call_for_arrays);
            if std::mem::take(with_ordinality) {
                number_elements(array_exprs, alias)?;
                return Ok(());
            }
            if array_exprs.len() == 1 {
                let unnamed = || TableAlias { explicit: true, name: Ident::new("unnest"), columns: vec![], at: None };
                let alias = alias.get_or_insert_with(unnamed);
                if alias.columns.is_empty() {
                    alias.columns.push(TableAliasColumnDef { name: alias.name.clone(), data_type: None });
                }
            }
            return Ok(());
        }
        TableFactor::Pivot { table, aggregate_functions, value_column, value_source, default_on_null, alias } => {
            if default_on_null.is_some() {
                return Err(Error::unsupported("DEFAULT ON NULL in PIVOT is not supported; coalesce() the columns"));
            }
            let PivotValueSource::List(values) = value_source else {
                return Err(Error::unsupported("PIVOT takes a list of values here: FOR k IN ('a', 'b')"));
            };
            let [key] = value_column.as_slice() else {
                return Err(Error::unsupported("PIVOT takes one column behind FOR"));
            };
            (pivoted(&table.to_string(), aggregate_functions, key, values, None)?, alias.take())
        }
        TableFactor::Unpivot { table, value, name, columns, null_inclusion, alias } => {
            let nulls = matches!(null_inclusion, Some(NullInclusion::IncludeNulls));
            (unpivoted(&table.to_string(), &value.to_string(), name, columns, nulls)?, alias.take())
        }
        _ => return Ok(()),
    };
    let lateral = false;
    *table = TableFactor::Derived { lateral, subquery: Box::new(query(&sql)?), alias, sample: None };
    Ok(())
}

/// Adds the ordinal numbers of the elements as another list, for WITH ORDINALITY.
fn number_elements(lists: &mut Vec<Expr>, alias: &mut Option<TableAlias>) -> Result<()> {
    let [list] = lists.as_slice() else {
        return Err(Error::unsupported("WITH ORDINALITY takes one list"));
    };
    let one = Expr::value(Value::Number("1".to_owned(), false));
    let numbers = call("generate_series", [one, call("array_length", [list.clone()])]);
    lists.push(numbers);
    let name = |name: &str| TableAliasColumnDef { name: Ident::new(name), data_type: None };
    let named = || TableAlias { explicit: true, name: Ident::new("unnest"), columns: vec![], at: None };
    let columns = &mut alias.get_or_insert_with(named).columns;
    if columns.is_empty() {
        columns.push(name("unnest"));
    }
    if columns.len() == 1 {
        columns.push(name("ordinality"));
    }
    Ok(())
}

/// Turns semi and anti joins into left semi and left anti joins, as the planner requires.
pub(super) fn name_halves_of_joins(select: &mut Select) {
    for join in select.from.iter_mut().flat_map(|from| &mut from.joins) {
        join.join_operator = match std::mem::replace(&mut join.join_operator, JoinOperator::CrossApply) {
            JoinOperator::Semi(constraint) => JoinOperator::LeftSemi(constraint),
            JoinOperator::Anti(constraint) => JoinOperator::LeftAnti(constraint),
            other => other,
        };
    }
}

/// Replaces array literals by calls: the planner does not find columns of other tables in a
/// literal.
fn call_for_arrays(expr: &mut Expr) {
    each_expression(expr, &mut |expr| {
        if let Expr::Array(array) = expr {
            *expr = call("make_array", std::mem::take(&mut array.elem));
        }
    });
}

/// Returns a query for a sample of `table`. With a seed, rows are chosen by a hash of their values,
/// so that they are the same each time.
fn sampled(table: &str, sample: &TableSampleKind) -> Result<String> {
    let (TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) = sample;
    let TableSample { name, quantity, seed, bucket, offset, .. } = sample.as_ref();
    let (Some(quantity), None, None) = (quantity, bucket, offset) else {
        return Err(Error::unsupported("TABLESAMPLE takes a percentage or a number of rows"));
    };
    let Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) = &quantity.value else {
        return Err(Error::invalid("the size of a TABLESAMPLE is a number"));
    };
    let seed = match seed.as_ref().map(|seed| seed.value.value.clone()) {
        None => None,
        Some(Value::Number(seed, _)) if seed.parse::<u32>().is_ok() => Some(seed),
        Some(_) => return Err(Error::invalid("REPEATABLE takes a whole number, from 0 to 4294967295")),
    };
    let in_rows = match (quantity.unit, name) {
        (Some(TableSampleUnit::Rows), Some(TableSampleMethod::Bernoulli | TableSampleMethod::System)) => {
            return Err(Error::invalid("TABLESAMPLE BERNOULLI and SYSTEM take a percentage"));
        }
        (unit, _) => unit == Some(TableSampleUnit::Rows),
    };
    let of_row = seed.as_ref().map(|seed| format!("hash({seed}, {})", marks::unpacked()));
    if in_rows {
        let order = of_row.unwrap_or_else(|| "random()".to_owned());
        // The number remains a column up to the sort, which fails without any column.
        return Ok(format!(
            "SELECT * EXCLUDE (sampled_by) FROM (SELECT *, {order} AS sampled_by FROM {table} ORDER BY sampled_by \
             LIMIT {number})"
        ));
    }
    let percent = number.parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent));
    let percent = percent.ok_or_else(|| Error::invalid("a TABLESAMPLE takes from 0 to 100 percent"))?;
    if matches!(name, Some(TableSampleMethod::System)) {
        let share = (percent / 100.0 * WHOLE as f64).round() as u64;
        let (seed, is_repeatable) = match seed {
            Some(seed) => (seed, 1),
            // Each statement without a seed gets another one.
            None => ((RandomState::new().build_hasher().finish() >> 32).to_string(), 0),
        };
        return Ok(format!("SELECT * FROM {table} WHERE {NAME}({share}, {seed}, {is_repeatable})"));
    }
    let condition = match of_row {
        Some(number) => format!("{number} % 1000000000 < {}", (percent * 1e7).round() as u64),
        None => format!("random() < CAST('{}' AS DOUBLE)", percent / 100.0),
    };
    Ok(format!("SELECT * FROM {table} WHERE {condition}"))
}

/// Returns the query that turns rows into columns: one for each of `values` and each aggregate.
pub(crate) fn pivoted(
    table: &str,
    aggregates: &[ExprWithAlias],
    key: &Expr,
    values: &[ExprWithAlias],
    groups: Option<&str>,
) -> Result<String> {
    let mut used = BTreeSet::new();
    for expr in aggregates.iter().map(|aggregate| &aggregate.expr).chain([key]) {
        any_expression(expr, &mut |expr| {
            match expr {
                Expr::Identifier(name) => drop(used.insert(name.to_string())),
                Expr::CompoundIdentifier(parts) => used.extend(parts.last().map(ToString::to_string)),
                _ => {}
            }
            false
        });
    }
    let mut columns = Vec::new();
    for ExprWithAlias { expr: value, alias } in values {
        let shown = match (alias, value) {
            (Some(alias), _) => alias.value.clone(),
            (None, Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. })) => text.clone(),
            (None, Expr::Identifier(text)) => text.value.clone(),
            (None, other) => other.to_string(),
        };
        for ExprWithAlias { expr: aggregate, alias } in aggregates {
            let Expr::Function(function) = aggregate else {
                return Err(Error::unsupported("PIVOT takes aggregates: sum(v), count(*)"));
            };
            let mut function = function.clone();
            let is_value = format!("({key}) IS NOT DISTINCT FROM ({value})");
            let condition = match function.filter.take() {
                Some(own) => format!("({own}) AND {is_value}"),
                None => is_value,
            };
            let parser = Parser::new(&GenericDialect {}).try_with_sql(&condition);
            let condition = parser.and_then(|mut parser| parser.parse_expr());
            function.filter = Some(Box::new(condition.map_err(|error| Error::invalid(error.to_string()))?));
            let name = match (alias, aggregates.len()) {
                (Some(alias), _) => format!("{shown}_{}", alias.value),
                (None, 1) => shown.clone(),
                (None, _) => format!("{shown}_{}", aggregate.to_string().to_lowercase()),
            };
            columns.push(format!("{function} AS {}", Ident::with_quote('"', name)));
        }
    }
    let columns = columns.join(", ");
    let used = used.into_iter().collect::<Vec<_>>().join(", ");
    Ok(match groups {
        Some("") => format!("SELECT {columns} FROM {table}"),
        Some(groups) => format!("SELECT {groups}, {columns} FROM {table} GROUP BY {groups}"),
        None => format!("SELECT * EXCLUDE ({used}), {columns} FROM {table} GROUP BY ALL"),
    })
}

/// Returns the query that turns `columns` into rows of their names and values.
pub(crate) fn unpivoted(
    table: &str,
    value: &str,
    name: &Ident,
    columns: &[ExprWithAlias],
    with_nulls: bool,
) -> Result<String> {
    let mut names = Vec::new();
    for ExprWithAlias { expr, alias } in columns {
        let Expr::Identifier(column) = expr else {
            return Err(Error::unsupported("UNPIVOT takes names of columns, and makes one column of their values"));
        };
        let shown = alias.as_ref().map_or(&column.value, |alias| &alias.value);
        names.push(Expr::value(Value::SingleQuotedString(shown.clone())).to_string());
    }
    let columns = columns.iter().map(|column| column.expr.to_string()).collect::<Vec<_>>().join(", ");
    let names = names.join(", ");
    let unnested = format!(
        "SELECT * EXCLUDE ({columns}), unnest(make_array({names})) AS {name}, unnest(make_array({columns})) AS {value} \
         FROM {table}"
    );
    Ok(match with_nulls {
        true => unnested,
        false => format!("SELECT * FROM ({unnested}) WHERE {value} IS NOT NULL"),
    })
}
