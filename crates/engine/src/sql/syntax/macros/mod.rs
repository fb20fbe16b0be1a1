//! Functions of DuckDB and PostgreSQL that other functions express: a call is replaced by its
//! meaning.
//!
//! [`table`] lists them. A `FILTER` or an `OVER` of the call moves to the aggregates in its
//! meaning.

mod special;
mod table;

use std::collections::HashMap;
use std::sync::LazyLock;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, Ident, ObjectName, ObjectNamePart, Value, ValueWithSpan,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use pushdowndb_contract::{Error, Result};

use super::calls::arguments;
use super::visit::each_expression;

/// Maximum number of replacements in a row: a meaning may consist of other functions of the table.
const MAX_DEPTH: usize = 8;

/// The meanings by name and number of arguments. In a meaning, `$1` stands for the first argument.
static MEANINGS: LazyLock<HashMap<(&str, usize), Expr>> = LazyLock::new(|| {
    let parsed = |meaning: &str| Parser::new(&GenericDialect {}).try_with_sql(meaning)?.parse_expr();
    let all = table::MEANINGS.iter().filter_map(|(name, arguments, meaning)| {
        let meaning = parsed(meaning).ok()?;
        Some(((*name, *arguments), meaning))
    });
    all.collect()
});

/// Other names of functions.
static RENAMED: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| table::RENAMED.iter().copied().collect());

/// Returns the functions of this module with their meanings.
pub(crate) fn listed() -> impl Iterator<Item = (&'static str, String)> {
    let renamed = table::RENAMED.iter().map(|(name, meant)| (*name, (*meant).to_owned()));
    let meanings = table::MEANINGS.iter().map(|(name, arguments, meaning)| {
        let places = (1..=*arguments).map(|place| format!("${place}")).collect::<Vec<_>>().join(", ");
        (*name, format!("`{name}({places})` is `{meaning}`"))
    });
    let special = special::LISTED.iter().map(|(name, meaning)| (*name, (*meaning).to_owned()));
    renamed.chain(meanings).chain(special)
}

/// Replaces `expr` by its meaning, if it is a call of one of this module's functions.
///
/// # Errors
///
/// Returns an error if the function does not take these arguments.
pub(super) fn expand(expr: &mut Expr) -> Result<()> {
    for _ in 0..MAX_DEPTH {
        let Expr::Function(function) = expr else { return Ok(()) };
        let Some(name) = own_name(&function.name) else { return Ok(()) };
        if let Some(meant) = RENAMED.get(name.as_str()) {
            function.name = ObjectName::from(vec![Ident::new(*meant)]);
            continue;
        }
        if let Some(meaning) = special::meaning(&name, function)? {
            *expr = meaning;
            continue;
        }
        let Some(arguments) = arguments(function) else { return Ok(()) };
        let Some(meaning) = MEANINGS.get(&(name.as_str(), arguments.len())) else { return Ok(()) };
        *expr = filled(meaning, &arguments, function, &name)?;
    }
    Ok(())
}

/// Returns the name of a function without a schema, in lower case unless it is in quotes.
fn own_name(name: &ObjectName) -> Option<String> {
    match name.0.as_slice() {
        [ObjectNamePart::Identifier(Ident { value, quote_style: None, .. })] => Some(value.to_lowercase()),
        [ObjectNamePart::Identifier(Ident { value, .. })] => Some(value.clone()),
        _ => None,
    }
}

/// Returns `meaning` with the arguments of `call`, named `name`.
fn filled(meaning: &Expr, arguments: &[Expr], call: &Function, name: &str) -> Result<Expr> {
    let mut filled = meaning.clone();
    if call.filter.is_some() || call.over.is_some() {
        let aggregates = visit_aggregates(&mut filled, |aggregate| {
            if let Some(condition) = &call.filter {
                aggregate.filter = Some(match aggregate.filter.take() {
                    None => condition.clone(),
                    Some(own) => Box::new(Expr::BinaryOp {
                        left: Box::new(Expr::Nested(own)),
                        op: BinaryOperator::And,
                        right: Box::new(Expr::Nested(condition.clone())),
                    }),
                });
            }
            aggregate.over.clone_from(&call.over);
        });
        if aggregates == 0 {
            return Err(Error::invalid(format!("{name} is no aggregate: it takes neither FILTER nor OVER")));
        }
    }
    each_expression(&mut filled, &mut |expr| {
        if let Expr::Value(ValueWithSpan { value: Value::Placeholder(place), .. }) = expr
            && let Some(argument) = place.strip_prefix('$').and_then(|place| place.parse::<usize>().ok())
            && let Some(argument) = argument.checked_sub(1).and_then(|place| arguments.get(place))
        {
            *expr = match argument {
                Expr::Value(_) | Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Function(_) => {
                    argument.clone()
                }
                other => Expr::Nested(Box::new(other.clone())),
            };
        }
    });
    Ok(match filled {
        function @ (Expr::Function(_) | Expr::Case { .. } | Expr::Cast { .. }) => function,
        other => Expr::Nested(Box::new(other)),
    })
}

/// Calls `change` for each aggregate in `meaning`, and returns their number.
fn visit_aggregates(meaning: &mut Expr, mut change: impl FnMut(&mut Function)) -> usize {
    let mut found = 0;
    each_expression(meaning, &mut |expr| {
        if let Expr::Function(function) = expr
            && own_name(&function.name).is_some_and(|name| table::AGGREGATES.contains(&name.as_str()))
        {
            change(function);
            found += 1;
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use super::super::visit::any_expression;
    use super::*;

    /// Whether `part` has a placeholder.
    fn has_placeholder(part: &Expr) -> bool {
        any_expression(part, &mut |expr| {
            matches!(expr, Expr::Value(ValueWithSpan { value: Value::Placeholder(_), .. }))
        })
    }

    fn expanded(sql: &str) -> Result<String> {
        let mut expr = Parser::new(&GenericDialect {}).try_with_sql(sql).unwrap().parse_expr().unwrap();
        expand(&mut expr).map(|()| expr.to_string())
    }

    #[test]
    fn every_meaning_can_be_read_and_ends() {
        assert_eq!(MEANINGS.len(), table::MEANINGS.len(), "all parse, and none stands there twice");
        for ((name, arguments), meaning) in MEANINGS.iter() {
            assert_eq!(has_placeholder(meaning), *arguments > 0, "{name}");
            let calls_itself = match meaning {
                Expr::Function(function) => {
                    own_name(&function.name).as_deref() == Some(*name)
                        && super::arguments(function).is_some_and(|all| all.len() == *arguments)
                }
                _ => false,
            };
            assert!(!calls_itself, "{name} would not end");
        }
    }

    #[test]
    fn calls_become_what_they_mean() {
        for (sql, expected) in [
            ("year(a + 1)", "date_part('year', (a + 1))"),
            ("Strlen(x)", "octet_length(x)"),
            ("list(DISTINCT x ORDER BY x)", "array_agg(DISTINCT x ORDER BY x)"),
            ("count_if(a > 1) FILTER (WHERE b)", "count(*) FILTER (WHERE ((a > 1)) AND (b))"),
            ("struct_pack(a := 1, b := x)", "named_struct('a', 1, 'b', x)"),
            ("list_aggregate(l, 'sum')", "list_sum(l)"),
            (
                "percentile_disc(0.5) WITHIN GROUP (ORDER BY x)",
                "array_element(array_agg(x ORDER BY x) FILTER (WHERE x IS NOT NULL), CAST(greatest(CEIL(CAST(0.5 AS \
                 DOUBLE) * count(x)), 1) AS BIGINT))",
            ),
            ("mode() WITHIN GROUP (ORDER BY x)", "mode(x)"),
            ("s.year(a)", "s.year(a)"),
            ("year(a, b)", "year(a, b)"),
        ] {
            assert_eq!(expanded(sql).unwrap(), expected, "{sql}");
        }
        assert!(expanded("year(a) OVER ()").unwrap_err().to_string().contains("no aggregate"));
    }
}
