//! Rendering of predicates: connectives, comparisons, and guards against NULL for backends without
//! three-valued logic.

use arrow_schema::DataType;
use pushdowndb_contract::{Expr, LikePart, Literal, Result, like_parts, like_pattern};

use super::{Renderer, quoted, unsupported};

impl Renderer<'_> {
    /// Renders a predicate as SQL that is TRUE for exactly the same rows.
    pub(super) fn predicate(&self, expr: &Expr) -> Result<String> {
        match expr {
            Expr::And(all) | Expr::Or(all) if !all.is_empty() => {
                let word = if matches!(expr, Expr::And(_)) { " AND " } else { " OR " };
                let parts: Vec<String> = all
                    .iter()
                    .map(|part| {
                        let sql = self.predicate(part)?;
                        Ok(if matches!(part, Expr::And(_) | Expr::Or(_)) { format!("({sql})") } else { sql })
                    })
                    .collect::<Result<_>>()?;
                Ok(parts.join(word))
            }
            atom if self.dialect.three_valued => self.condition(atom),
            atom => self.guarded_atom(atom),
        }
    }

    /// Renders an atom (a predicate without AND and OR) for a backend that has no NULL in text.
    fn guarded_atom(&self, atom: &Expr) -> Result<String> {
        match atom {
            Expr::IsNull(inner) => return self.is_null(inner, false),
            Expr::Not(inner) => match &**inner {
                Expr::IsNull(inner) => return self.is_null(inner, true),
                Expr::And(_) | Expr::Or(_) => return Err(unsupported("the negation of AND and OR")),
                _ => {}
            },
            _ => {}
        }
        let sql = self.condition(atom)?;
        let mut guards = Vec::new();
        for index in atom.columns() {
            let raw = self.raw(index)?;
            guards.extend(self.null_texts(index)?.into_iter().map(|text| format!("{raw} != {}", quoted(text, '\''))));
            if self.csv().is_none() && self.field(index)?.is_nullable() {
                guards.push(format!("{raw} IS NOT NULL"));
            }
        }
        if guards.is_empty() {
            return Ok(sql);
        }
        guards.push(sql);
        Ok(format!("({})", guards.join(" AND ")))
    }

    fn is_null(&self, inner: &Expr, negated: bool) -> Result<String> {
        let Expr::Column(index) = inner else {
            return Err(unsupported("IS NULL of an expression"));
        };
        let raw = self.raw(*index)?;
        if self.csv().is_none() {
            return Ok(format!("{raw} IS {}NULL", if negated { "NOT " } else { "" }));
        }
        let (op, word, none) = if negated { ("!=", " AND ", "TRUE") } else { ("=", " OR ", "FALSE") };
        let tests: Vec<String> =
            self.null_texts(*index)?.into_iter().map(|text| format!("{raw} {op} {}", quoted(text, '\''))).collect();
        Ok(match tests.as_slice() {
            [] => none.to_owned(),
            [one] => one.clone(),
            all => format!("({})", all.join(word)),
        })
    }

    /// Renders a condition for three-valued logic, without guards against NULL.
    pub(super) fn condition(&self, expr: &Expr) -> Result<String> {
        Ok(match expr {
            Expr::And(all) if all.is_empty() => "TRUE".to_owned(),
            Expr::Or(all) if all.is_empty() => "FALSE".to_owned(),
            Expr::And(_) | Expr::Or(_) => self.predicate(expr)?,
            Expr::Compare(op, a, b) => {
                // One server parses `<>` but refuses it.
                let op = if op.sql() == "<>" { "!=" } else { op.sql() };
                let typed = !self.dialect.three_valued && self.is_text(a) && self.is_text(b);
                let side = |expr: &Expr| -> Result<String> {
                    let sql = self.value(expr)?;
                    // MinIO compares two untyped operands as numbers if they look like numbers.
                    Ok(if typed { format!("CAST({sql} AS STRING)") } else { sql })
                };
                format!("{} {op} {}", side(a)?, side(b)?)
            }
            Expr::Not(inner) => match &**inner {
                Expr::IsNull(inner) => format!("{} IS NOT NULL", self.null_test(inner)?),
                inner => format!("NOT ({})", self.condition(inner)?),
            },
            Expr::IsNull(inner) => format!("{} IS NULL", self.null_test(inner)?),
            Expr::InList { expr, list, negated } => {
                let items: Vec<String> = list.iter().map(|item| self.value(item)).collect::<Result<_>>()?;
                negate(format!("{} IN ({})", self.value(expr)?, items.join(", ")), *negated)
            }
            Expr::Like { expr, pattern, negated, case_insensitive: false } => {
                let Expr::Literal(Literal::Utf8(pattern)) = &**pattern else {
                    return Err(unsupported("LIKE with a pattern that is no constant"));
                };
                let parts = like_parts(pattern, Some('\\'))
                    .ok_or_else(|| unsupported("LIKE with an escape before an ordinary character"))?;
                let special = parts.iter().any(|part| matches!(part, LikePart::Char('%' | '_')));
                let pattern = like_pattern(&parts, special.then_some('\\'));
                let escape = if special { " ESCAPE '\\'" } else { "" };
                negate(format!("{} LIKE {}{escape}", self.value(expr)?, quoted(&pattern, '\'')), *negated)
            }
            Expr::Like { .. } => return Err(unsupported("ILIKE")),
            value => self.value(value)?,
        })
    }

    /// Renders the operand of IS NULL: the raw text of a column, so that no cast can fail.
    fn null_test(&self, expr: &Expr) -> Result<String> {
        match expr {
            Expr::Column(index) => self.guarded(*index),
            other => self.value(other),
        }
    }

    /// Returns whether `expr` is a column that is untyped text on the backend.
    fn is_text(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Column(index) => self.field(*index).is_ok_and(|field| {
                matches!(
                    field.data_type(),
                    DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Date32
                )
            }),
            _ => false,
        }
    }
}

fn negate(sql: String, negated: bool) -> String {
    if negated { format!("NOT ({sql})") } else { sql }
}
