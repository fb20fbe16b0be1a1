//! Functions whose meaning depends on the form of their arguments.

use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Interval, OrderByExpr, OrderByOptions,
    TimezoneInfo, TypedString, Value, ValueWithSpan,
};
use pushdowndb_contract::{Error, Result};

use super::super::calls::{arguments, call};

/// The functions of this file for the page of functions.
pub(super) const LISTED: &[(&str, &str)] = &[
    ("date_part", "`date_part(['year', 'month'], t)` is a struct of these parts"),
    (
        "json_extract",
        "`json_extract(j, ['$.a', '$.b'])` is a list; of a path with `*`, `json_extract_all(j, '$.a[*]')`",
    ),
    ("json_object", "`json_object('a', x, 'b', y)` is `to_json(named_struct('a', x, 'b', y))`"),
    ("list_aggregate", "`list_aggregate(l, 'sum')` is `list_sum(l)`, and so on"),
    ("quantile_cont", "`quantile_cont(x, [0.1, 0.9])` is a list, as of `quantile_disc` and `approx_quantile`"),
    ("regexp_extract", "`regexp_extract(s, '(a)(b)', ['x', 'y'])` is a struct of the groups"),
    ("strptime", "`strptime(s, ['%d.%m.%Y', '%Y-%m-%d'])` takes the first format that fits"),
    ("percentile_disc", "`percentile_disc(q) WITHIN GROUP (ORDER BY x)` is `quantile_disc(x, q)`"),
    ("struct_pack", "`struct_pack(a := x, b := y)` is `named_struct('a', x, 'b', y)`"),
    ("time_bucket", "`time_bucket(width, t[, origin])` is `date_bin(width, t, origin)`; origins as in DuckDB"),
];

/// Returns the meaning of a call of `name`; `None` if it is none of these functions.
pub(super) fn meaning(name: &str, function: &Function) -> Result<Option<Expr>> {
    match name {
        "mode" | "percentile_disc" if !function.within_group.is_empty() => within_group(name, function).map(Some),
        "struct_pack" => struct_pack(function).map(Some),
        "json_object" => Ok(arguments(function).map(|all| call("to_json", [call("named_struct", all)]))),
        "list_aggregate" => list_aggregate(function),
        "time_bucket" => Ok(time_bucket(function)),
        "date_part" | "datepart" => {
            Ok(of_list(function, 0, |part, [_, time]| (Some(part.clone()), call("date_part", [part, time]))))
        }
        "regexp_extract" => Ok(regexp_extract(function)),
        "strptime" | "try_strptime" => Ok(strptime(name, function)),
        "quantile_cont" | "quantile_disc" | "approx_percentile_cont" | "percentile_cont" => {
            Ok(of_list(function, 1, |share, [value, _]| (None, as_call(function, [value, share]))))
        }
        "json_extract" | "json_extract_string" | "json_extract_path" | "json_value" => Ok(json_extract(name, function)),
        _ => Ok(None),
    }
}

/// Rewrites `percentile_disc(q) WITHIN GROUP (ORDER BY x)` to `quantile_disc(x, q)`, and `mode()`
/// likewise to `mode(x)`.
fn within_group(name: &str, function: &Function) -> Result<Expr> {
    let [OrderByExpr { expr, options: OrderByOptions { asc: None | Some(true), nulls_first: None }, .. }] =
        function.within_group.as_slice()
    else {
        return Err(Error::unsupported(format!("{name} takes WITHIN GROUP (ORDER BY x) with one x, ascending")));
    };
    let mut args = vec![expr.clone()];
    args.extend(arguments(function).into_iter().flatten());
    let mut meaning = call(if name == "mode" { "mode" } else { "quantile_disc" }, args);
    if let Expr::Function(meant) = &mut meaning {
        meant.filter.clone_from(&function.filter);
        meant.over.clone_from(&function.over);
    }
    Ok(meaning)
}

/// Returns the elements of a list literal; `None` for other expressions.
fn elements(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Array(list) => Some(list.elem.clone()),
        _ => None,
    }
}

/// Applies `each` to the elements of the list that is the argument number `place` of two. Returns a
/// struct of the results if these have names, else a list.
fn of_list(function: &Function, place: usize, each: impl Fn(Expr, [Expr; 2]) -> (Option<Expr>, Expr)) -> Option<Expr> {
    let both = <[Expr; 2]>::try_from(arguments(function)?).ok()?;
    let parts = elements(both.get(place)?)?;
    let mut all = Vec::new();
    let mut named = false;
    for part in parts {
        let (name, value) = each(part, both.clone());
        named |= name.is_some();
        all.extend(name.into_iter().chain([value]));
    }
    Some(call(if named { "named_struct" } else { "make_array" }, all))
}

/// Returns a call like `function` with these arguments.
fn as_call(function: &Function, arguments: [Expr; 2]) -> Expr {
    let mut new = call(&function.name.to_string(), arguments);
    if let Expr::Function(new) = &mut new {
        new.filter.clone_from(&function.filter);
        new.over.clone_from(&function.over);
    }
    new
}

/// Returns the groups of a pattern as a struct, if a list names them.
fn regexp_extract(function: &Function) -> Option<Expr> {
    let [text, pattern, names] = <[Expr; 3]>::try_from(arguments(function)?).ok()?;
    let mut all = Vec::new();
    for (number, name) in (1..).zip(elements(&names)?) {
        let group = Expr::value(Value::Number(number.to_string(), false));
        all.extend([name, call("regexp_extract", [text.clone(), pattern.clone(), group])]);
    }
    Some(call("named_struct", all))
}

/// Returns the time by the first format of a list that fits. The last format reports the error.
fn strptime(name: &str, function: &Function) -> Option<Expr> {
    let [text, formats] = <[Expr; 2]>::try_from(arguments(function)?).ok()?;
    let formats = elements(&formats)?;
    let last = formats.len().checked_sub(1)?;
    let each = formats.into_iter().enumerate();
    let each =
        each.map(|(number, format)| call(if number == last { name } else { "try_strptime" }, [text.clone(), format]));
    Some(call("coalesce", each))
}

/// Returns the values at several paths, or at one path with `*`.
fn json_extract(name: &str, function: &Function) -> Option<Expr> {
    let [document, path] = <[Expr; 2]>::try_from(arguments(function)?).ok()?;
    if let Some(paths) = elements(&path) {
        return Some(call("make_array", paths.into_iter().map(|path| call(name, [document.clone(), path]))));
    }
    let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) = &path else { return None };
    let is_about_all = text.starts_with('$') && (text.contains("[*]") || text.contains(".*"));
    let all =
        if matches!(name, "json_extract" | "json_extract_path") { "json_extract_all" } else { "json_extract_all_text" };
    is_about_all.then(|| call(all, [document, path]))
}

fn struct_pack(function: &Function) -> Result<Expr> {
    let FunctionArguments::List(list) = &function.args else {
        return Err(Error::invalid("struct_pack takes fields: struct_pack(a := 1)"));
    };
    let mut fields = Vec::new();
    for arg in &list.args {
        let (name, value) = match arg {
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => (name.value.clone(), value),
            FunctionArg::ExprNamed { name: Expr::Identifier(name), arg: FunctionArgExpr::Expr(value), .. } => {
                (name.value.clone(), value)
            }
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value @ Expr::Identifier(name))) => (name.value.clone(), value),
            _ => return Err(Error::invalid("struct_pack takes fields with their names: struct_pack(a := 1)")),
        };
        fields.extend([Expr::value(Value::SingleQuotedString(name)), value.clone()]);
    }
    Ok(call("named_struct", fields))
}

fn list_aggregate(function: &Function) -> Result<Option<Expr>> {
    let Some([list, Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(name), .. })]) =
        arguments(function).and_then(|all| <[Expr; 2]>::try_from(all).ok())
    else {
        return Err(Error::unsupported("list_aggregate takes a list and the name of an aggregate, a constant"));
    };
    match name.as_str() {
        "sum" | "avg" | "min" | "max" | "count" | "first" | "last" | "product" => {
            Ok(Some(call(&format!("list_{name}"), [list])))
        }
        other => Err(Error::unsupported(format!(
            "list_aggregate knows sum, avg, min, max, count, first, last and product, not {other}; unnest the list"
        ))),
    }
}

/// Rewrites to `date_bin`. As in DuckDB, buckets of whole months count from the year 2000, and
/// others from its first Monday.
fn time_bucket(function: &Function) -> Option<Expr> {
    let mut all = arguments(function)?;
    if all.len() == 2 {
        let width = match all.first()? {
            Expr::Interval(Interval { value, leading_field, .. }) => {
                format!("{value} {}", leading_field.as_ref().map(ToString::to_string).unwrap_or_default())
            }
            other => other.to_string(),
        };
        let width = width.to_lowercase();
        let counts_months =
            ["month", "mon ", "year", "quarter", "decade", "centur"].iter().any(|unit| width.contains(unit));
        let origin = if counts_months { "2000-01-01 00:00:00" } else { "2000-01-03 00:00:00" };
        all.push(Expr::TypedString(TypedString {
            data_type: DataType::Timestamp(None, TimezoneInfo::None),
            value: Value::SingleQuotedString(origin.to_owned()).into(),
            uses_odbc_syntax: false,
        }));
    }
    Some(call("date_bin", all))
}
