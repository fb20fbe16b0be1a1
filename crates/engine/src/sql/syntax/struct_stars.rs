//! `SELECT s.* FROM t`, the fields of a column `s`, which the planner reads as a table.

use std::ops::ControlFlow;

use arrow::datatypes::{DataType, Fields};
use datafusion::common::{DFSchemaRef, DataFusionError};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Ident, ObjectName, ObjectNamePart, Select, SelectItem, SelectItemQualifiedWildcardKind,
    Subscript, Value, VisitorMut,
};

use super::calls::call;
use super::sources;
use super::visit::visit;
use super::wildcards::excluded;

/// A name before `.*` that is not a table.
pub(crate) struct StructStar(String);

impl StructStar {
    /// Returns the name before `.*` that made planning fail with `error`; `None` for other errors.
    pub(crate) fn of(error: &DataFusionError) -> Option<Self> {
        let message = error.find_root().to_string();
        message.split_once("Invalid qualifier ").map(|(_, name)| Self(name.replace('"', "")))
    }

    fn is(&self, item: &SelectItem) -> bool {
        match item {
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                name.to_string().replace('"', "").eq_ignore_ascii_case(&self.0)
            }
            _ => false,
        }
    }

    /// Returns queries of the tables of the SELECTs that have this star.
    pub(crate) fn sources(&self, statement: &mut Statement) -> Vec<Statement> {
        sources::of_selects(statement, &mut |select| select.projection.iter().any(|item| self.is(item)))
    }

    /// Replaces `s.*` by the fields of the column `s` in `tables`, or by `unnest(s)` if they do not
    /// have it. Returns whether anything was replaced.
    pub(crate) fn unpack(&self, statement: &mut Statement, tables: &[DFSchemaRef]) -> bool {
        let mut stars = Stars { star: self, tables, replaced: false };
        let done = visit(statement, &mut stars);
        debug_assert!(done.is_continue(), "nothing breaks off");
        stars.replaced
    }
}

struct Stars<'a> {
    star: &'a StructStar,
    tables: &'a [DFSchemaRef],
    replaced: bool,
}

impl Stars<'_> {
    /// Returns the fields of the column of this name. A name without quotes also matches in another
    /// case.
    fn fields(&self, name: &ObjectName) -> Option<&Fields> {
        let column = name.0.last()?.as_ident()?;
        let all = || self.tables.iter().flat_map(|schema| schema.fields());
        let exact = all().find(|field| *field.name() == column.value);
        let like = || all().find(|field| field.name().eq_ignore_ascii_case(&column.value));
        match exact.or_else(|| like().filter(|_| column.quote_style.is_none()))?.data_type() {
            DataType::Struct(fields) => Some(fields),
            _ => None,
        }
    }
}

impl VisitorMut for Stars<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if !select.projection.iter().any(|item| self.star.is(item)) {
            return ControlFlow::Continue(());
        }
        let mut items = Vec::with_capacity(select.projection.len());
        for mut item in std::mem::take(&mut select.projection) {
            let star = self.star.is(&item);
            let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) = &mut item
            else {
                items.push(item);
                continue;
            };
            if !star || options.opt_replace.is_some() || options.opt_rename.is_some() {
                items.push(item);
                continue;
            }
            self.replaced = true;
            let parts: Vec<Ident> = name.0.iter().filter_map(ObjectNamePart::as_ident).cloned().collect();
            let column = match parts.as_slice() {
                [one] => Expr::Identifier(one.clone()),
                _ => Expr::CompoundIdentifier(parts),
            };
            let Some(fields) = self.fields(name) else {
                let alias = Ident::with_quote('"', format!("unnest({name})"));
                items.push(SelectItem::ExprWithAlias { expr: call("unnest", [column]), alias });
                continue;
            };
            let left_out = excluded(options);
            for field in fields {
                if left_out.iter().any(|name| name.value.eq_ignore_ascii_case(field.name())) {
                    continue;
                }
                let index = Expr::value(Value::SingleQuotedString(field.name().clone()));
                let access_chain = vec![AccessExpr::Subscript(Subscript::Index { index })];
                let expr = Expr::CompoundFieldAccess { root: Box::new(column.clone()), access_chain };
                let alias = Ident::with_quote('"', field.name().clone());
                items.push(SelectItem::ExprWithAlias { expr, alias });
            }
        }
        select.projection = items;
        ControlFlow::Continue(())
    }
}
