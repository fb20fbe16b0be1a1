//! Lowering expressions of the contract to DataFusion's physical expressions.
//!
//! The meaning is DataFusion's, and operand types follow its coercion rules
//! ([`crate::expr::coerce`]), with these exceptions: casts are strict, casts from text follow
//! [`crate::values`], integer overflow is an error, there is a single NaN, and a comparison with a
//! bare NULL is NULL. An expression nested deeper than the contract allows is refused before any
//! function recurses into it.

use std::cell::Cell;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::can_cast_types;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion_common::ScalarValue;
use datafusion_common::config::ConfigOptions;
use datafusion_expr::type_coercion::other::get_coerce_type_for_case_expression;
use datafusion_expr::{Operator, ScalarUDF};
use datafusion_functions::core;
use datafusion_physical_expr::ScalarFunctionExpr;
use datafusion_physical_expr::expressions::{
    BinaryExpr, CaseExpr, Column, InListExpr, IsNullExpr, Literal as Constant, NotExpr, lit, negative,
};
use pushdowndb_contract::{ArithmeticOp, CompareOp, Error, Expr, Function, Literal, Result, limits};

use crate::error::from_datafusion;
use crate::expr::bloom::Probe;
use crate::expr::coerce;
use crate::expr::decimal::DecimalArithmetic;
use crate::expr::floats::FloatArithmetic;
use crate::expr::functions::json::TokenFunction;
use crate::expr::functions::like::Like;
use crate::expr::functions::substring::ConstantSubstring;
use crate::expr::functions::text::TextFunction;
use crate::expr::functions::time::TimeFunction;
use crate::expr::physical::Physical;
use crate::runtime::interrupt::check_interrupt;
use crate::types::sql_type;

/// The maximum length of an IN list that is compared item by item; longer lists are hashed.
pub(crate) const MAX_SHORT_LIST: usize = 16;

/// Lowers `expr` over the columns of `schema`.
pub(crate) fn lower(expr: &Expr, schema: &SchemaRef) -> Result<Physical> {
    check_depth(expr)?;
    Lowering::new(schema).expr(expr)
}

/// Lowers each conjunct of a predicate.
pub(crate) fn lower_conjuncts(predicate: &Expr, schema: &SchemaRef) -> Result<Vec<Physical>> {
    check_depth(predicate)?;
    let lowering = Lowering::new(schema);
    predicate.clone().into_conjuncts().iter().map(|conjunct| lowering.boolean(conjunct)).collect()
}

/// Refuses expressions nested deeper than a peer may send. Does not itself recurse any deeper.
pub(crate) fn check_depth(expr: &Expr) -> Result<()> {
    fn within(expr: &Expr, levels: usize) -> bool {
        levels > 0 && expr.children().into_iter().all(|child| within(child, levels - 1))
    }
    if within(expr, limits::EXPRESSION_DEPTH) {
        Ok(())
    } else {
        let message = format!("the expression is nested deeper than {} levels", limits::EXPRESSION_DEPTH);
        Err(Error::invalid(message).with_code("UnsupportedSqlStructure"))
    }
}

struct Lowering<'a> {
    schema: &'a Schema,
    config: Arc<ConfigOptions>,
    /// The number of nodes lowered so far.
    nodes: Cell<usize>,
}

/// The number of nodes after which the interrupt is checked again.
const MAX_NODES: usize = 1024;

impl<'a> Lowering<'a> {
    fn new(schema: &'a Schema) -> Self {
        Self { schema, config: Arc::new(ConfigOptions::default()), nodes: Cell::new(0) }
    }

    fn expr(&self, expr: &Expr) -> Result<Physical> {
        self.nodes.set(self.nodes.get() + 1);
        if self.nodes.get().is_multiple_of(MAX_NODES) {
            check_interrupt()?;
        }
        match expr {
            Expr::Column(index) => match self.schema.fields().get(*index) {
                Some(field) => Ok(Arc::new(Column::new(field.name(), *index))),
                None => Err(Error::internal(format!("column {index} of {}", self.schema.fields().len()))),
            },
            Expr::Literal(value) => Ok(lit(scalar(value))),
            Expr::Compare(op, a, b) => self.compare(*op, a, b),
            Expr::And(all) => self.logical(all, Operator::And),
            Expr::Or(all) => self.logical(all, Operator::Or),
            Expr::Not(a) => Ok(Arc::new(NotExpr::new(self.boolean(a)?))),
            Expr::IsNull(a) => Ok(Arc::new(IsNullExpr::new(self.expr(a)?))),
            Expr::Arithmetic(op, a, b) => self.arithmetic(*op, a, b),
            Expr::Negate(a) => self.negate(a),
            Expr::InList { expr, list, negated } => self.in_list(expr, list, *negated),
            Expr::Like { expr, pattern, negated, case_insensitive } => {
                self.like(expr, pattern, *negated, *case_insensitive)
            }
            Expr::Cast(a, to) => self.explicit_cast(a, to),
            Expr::Case { branches, otherwise } => self.case(branches, otherwise.as_deref()),
            Expr::Call(function, args) => self.call(*function, args),
            Expr::Bloom { keys, filter } => {
                let probe = Probe::new(Arc::clone(filter), keys.iter().map(Expr::is_token).collect());
                self.own(ScalarUDF::from(probe), keys)
            }
        }
    }

    fn type_of(&self, expr: &Physical) -> Result<DataType> {
        expr.data_type(self.schema).map_err(from_datafusion)
    }

    fn cast(&self, expr: Physical, to: &DataType) -> Result<Physical> {
        coerce::cast(expr, to, self.schema)
    }

    fn compare(&self, op: CompareOp, a: &Expr, b: &Expr) -> Result<Physical> {
        let (a, b) = (self.expr(a)?, self.expr(b)?);
        let (left, right) = (self.type_of(&a)?, self.type_of(&b)?);
        if left.is_null() || right.is_null() {
            return Ok(lit(ScalarValue::Boolean(None)));
        }
        let common = coerce::comparison_type(&[(&a, &left), (&b, &right)])?;
        let (a, b) = (self.cast(a, &common)?, self.cast(b, &common)?);
        Ok(Arc::new(BinaryExpr::new(a, operator(op), b)))
    }

    /// Lowers a condition, which must be Boolean or NULL.
    fn boolean(&self, expr: &Expr) -> Result<Physical> {
        let lowered = self.expr(expr)?;
        match self.type_of(&lowered)? {
            DataType::Boolean => Ok(lowered),
            DataType::Null => Ok(lit(ScalarValue::Boolean(None))),
            other => Err(Error::invalid(format!(
                "{} is {}, where a condition is needed",
                expr.display(self.schema),
                sql_type(&other)
            ))),
        }
    }

    /// Lowers a conjunction or disjunction to a balanced tree, so that the evaluation of a long
    /// chain does not recurse deeply.
    fn logical(&self, all: &[Expr], op: Operator) -> Result<Physical> {
        match all {
            [] => Ok(lit(op == Operator::And)),
            [one] => self.boolean(one),
            many => {
                let (left, right) = many.split_at(many.len() / 2);
                Ok(Arc::new(BinaryExpr::new(self.logical(left, op)?, op, self.logical(right, op)?)))
            }
        }
    }

    fn arithmetic(&self, op: ArithmeticOp, a: &Expr, b: &Expr) -> Result<Physical> {
        let op = match op {
            ArithmeticOp::Add => Operator::Plus,
            ArithmeticOp::Subtract => Operator::Minus,
            ArithmeticOp::Multiply => Operator::Multiply,
            ArithmeticOp::Divide => Operator::Divide,
            ArithmeticOp::Modulo => Operator::Modulo,
        };
        let (a, b) = self.operands(op, a, b)?;
        let (left, right) = (self.type_of(&a)?, self.type_of(&b)?);
        if let Some(decimals) = DecimalArithmetic::new(op, &left, &right) {
            return self.scalar(ScalarUDF::from(decimals), vec![a, b]);
        }
        if let Some(floats) = FloatArithmetic::new(op, &left, &right) {
            return self.scalar(ScalarUDF::from(floats), vec![a, b]);
        }
        Ok(Arc::new(BinaryExpr::new(a, op, b).with_fail_on_overflow(true)))
    }

    /// Lowers a negation. DataFusion's integer negation wraps around, so a checked subtraction from
    /// zero is used.
    fn negate(&self, a: &Expr) -> Result<Physical> {
        let value = self.expr(a)?;
        let data_type = self.type_of(&value)?;
        if let Some(negation) = FloatArithmetic::negation(&data_type) {
            return self.scalar(ScalarUDF::from(negation), vec![value]);
        }
        if !data_type.is_signed_integer() {
            return negative(value, self.schema).map_err(from_datafusion);
        }
        let zero = lit(ScalarValue::new_zero(&data_type).map_err(from_datafusion)?);
        Ok(Arc::new(BinaryExpr::new(zero, Operator::Minus, value).with_fail_on_overflow(true)))
    }

    /// Lowers both operands of an operator and coerces their types.
    fn operands(&self, op: Operator, a: &Expr, b: &Expr) -> Result<(Physical, Physical)> {
        let (a, b) = (self.expr(a)?, self.expr(b)?);
        let (left, right) = coerce::operand_types(&self.type_of(&a)?, op, &self.type_of(&b)?)?;
        Ok((self.cast(a, &left)?, self.cast(b, &right)?))
    }

    fn in_list(&self, expr: &Expr, list: &[Expr], negated: bool) -> Result<Physical> {
        if list.is_empty() {
            return Ok(lit(negated));
        }
        let value = self.expr(expr)?;
        if let Some(numbers) = long_list(list).filter(|_| !negated) {
            let data_type = self.type_of(&value)?;
            if data_type.is_integer() && data_type != DataType::UInt64 {
                return self.scalar(ScalarUDF::from(Probe::one_of(numbers.into_iter())), vec![value]);
            }
        }
        let list: Vec<Physical> = list.iter().map(|e| self.expr(e)).collect::<Result<_>>()?;
        let types: Vec<DataType> = list.iter().map(|e| self.type_of(e)).collect::<Result<_>>()?;
        let value_type = self.type_of(&value)?;
        let mut operands = vec![(&value, &value_type)];
        operands.extend(list.iter().zip(&types).filter(|(_, data_type)| !data_type.is_null()));
        let common = coerce::comparison_type(&operands)?;
        if common.is_null() {
            return Ok(lit(ScalarValue::Boolean(None)));
        }
        let value = self.cast(value, &common)?;
        let list = list.into_iter().map(|e| self.cast(e, &common)).collect::<Result<Vec<_>>>()?;
        let among = |list, negated| -> Result<Physical> {
            let value = Arc::clone(&value);
            Ok(Arc::new(InListExpr::try_new(value, list, negated, self.schema).map_err(from_datafusion)?))
        };
        // A CASE evaluates to one value when there are no rows, so DataFusion would treat it as a
        // constant.
        let (chosen, plain): (Vec<Physical>, Vec<Physical>) = list.into_iter().partition(has_case);
        if chosen.is_empty() {
            return among(plain, negated);
        }
        let mut any = if plain.is_empty() { None } else { Some(among(plain, false)?) };
        for item in chosen {
            let equal: Physical = Arc::new(BinaryExpr::new(Arc::clone(&value), Operator::Eq, item));
            any = Some(match any {
                Some(any) => Arc::new(BinaryExpr::new(any, Operator::Or, equal)),
                None => equal,
            });
        }
        let any = any.unwrap_or_else(|| lit(false));
        Ok(if negated { Arc::new(NotExpr::new(any)) } else { any })
    }

    fn like(&self, expr: &Expr, pattern: &Expr, negated: bool, case_insensitive: bool) -> Result<Physical> {
        let (value, pattern) = (self.expr(expr)?, self.expr(pattern)?);
        let (value_type, pattern_type) = (self.type_of(&value)?, self.type_of(&pattern)?);
        if value_type.is_null() || pattern_type.is_null() {
            return Ok(lit(ScalarValue::Boolean(None)));
        }
        let common = coerce::like_type(&value_type, &pattern_type)?;
        let (value, pattern) = (self.cast(value, &common)?, self.cast(pattern, &common)?);
        let like = Like::new(negated, case_insensitive, constant(&pattern));
        self.scalar(ScalarUDF::from(like), vec![value, pattern])
    }

    fn explicit_cast(&self, expr: &Expr, to: &DataType) -> Result<Physical> {
        let lowered = self.expr(expr)?;
        let from = self.type_of(&lowered)?;
        if !can_cast_types(&from, to) {
            return Err(Error::invalid(format!(
                "{} is {} and cannot be cast to {}",
                expr.display(self.schema),
                sql_type(&from),
                sql_type(to)
            )));
        }
        self.cast(lowered, to)
    }

    fn case(&self, branches: &[(Expr, Expr)], otherwise: Option<&Expr>) -> Result<Physical> {
        let whens: Vec<Physical> = branches.iter().map(|(when, _)| self.boolean(when)).collect::<Result<_>>()?;
        let thens: Vec<Physical> = branches.iter().map(|(_, then)| self.expr(then)).collect::<Result<_>>()?;
        let otherwise = otherwise.map(|e| self.expr(e)).transpose()?;
        self.first_match(whens, thens, otherwise)
    }

    fn first_match(&self, whens: Vec<Physical>, thens: Vec<Physical>, otherwise: Option<Physical>) -> Result<Physical> {
        let types: Vec<DataType> = thens.iter().map(|e| self.type_of(e)).collect::<Result<_>>()?;
        let otherwise_type = otherwise.as_ref().map(|e| self.type_of(e)).transpose()?;
        let common = get_coerce_type_for_case_expression(&types, otherwise_type.as_ref())
            .ok_or_else(|| Error::invalid("the branches of CASE have types that do not go together"))?;
        let thens = thens.into_iter().map(|e| self.cast(e, &common));
        let branches = whens.into_iter().zip(thens).map(|(w, t)| Ok((w, t?))).collect::<Result<Vec<_>>>()?;
        let otherwise = otherwise.map(|e| self.cast(e, &common)).transpose()?;
        Ok(Arc::new(CaseExpr::try_new(None, branches, otherwise).map_err(from_datafusion)?))
    }

    fn call(&self, function: Function, args: &[Expr]) -> Result<Physical> {
        match (function, args) {
            (Function::Concat, [first, rest @ ..]) => self.concat(first, rest),
            (Function::Coalesce, [first @ .., last]) => {
                // DataFusion itself evaluates COALESCE only in this form.
                let values: Vec<Physical> = first.iter().map(|e| self.expr(e)).collect::<Result<_>>()?;
                let last = self.expr(last)?;
                if values.is_empty() {
                    return Ok(last);
                }
                let present =
                    |e: &Physical| -> Physical { Arc::new(NotExpr::new(Arc::new(IsNullExpr::new(Arc::clone(e))))) };
                let whens = values.iter().map(present).collect();
                self.first_match(whens, values, Some(last))
            }
            (Function::NullIf, [_, _]) => {
                let function = core::nullif();
                let args = args.iter().map(|e| self.expr(e)).collect::<Result<_>>()?;
                let args = coerce::arguments(&function, args, self.schema)?;
                self.scalar(function, args)
            }
            (Function::Lower | Function::Upper | Function::CharLength, [_]) => self.of_text(function, args),
            (Function::Substring, [Expr::Literal(Literal::Utf8(text)), rest @ ..]) if matches!(rest.len(), 1 | 2) => {
                self.own(ScalarUDF::from(ConstantSubstring::new(text)), rest)
            }
            (Function::Substring, [_, _] | [_, _, _]) => self.of_text(function, args),
            (Function::Trim | Function::TrimLeading | Function::TrimTrailing, [_] | [_, _]) => {
                self.of_text(function, args)
            }
            _ => self.own_call(function, args),
        }
    }

    /// Lowers an S3 Select function that DataFusion does not have.
    fn own_call(&self, function: Function, args: &[Expr]) -> Result<Physical> {
        if let Some(time) = TimeFunction::new(function, args)? {
            let (time, rest) = time;
            return self.own(ScalarUDF::from(time), rest);
        }
        match TokenFunction::new(function) {
            Some(own) if own.arity() == args.len() => self.own(ScalarUDF::from(own), args),
            _ => Err(Error::invalid(format!("{} does not take {} arguments", function.sql(), args.len()))),
        }
    }

    /// Lowers a call whose arguments are not coerced.
    fn own(&self, function: ScalarUDF, args: &[Expr]) -> Result<Physical> {
        let args = args.iter().map(|e| self.expr(e)).collect::<Result<_>>()?;
        self.scalar(function, args)
    }

    fn scalar(&self, function: impl Into<Arc<ScalarUDF>>, args: Vec<Physical>) -> Result<Physical> {
        ScalarFunctionExpr::try_new(function.into(), args, self.schema, Arc::clone(&self.config))
            .map(|call| Arc::new(call) as Physical)
            .map_err(from_datafusion)
    }

    /// Lowers `a || b || …`, which is NULL if any operand is; DataFusion's CONCAT would skip NULLs.
    fn concat(&self, first: &Expr, rest: &[Expr]) -> Result<Physical> {
        let mut joined = self.expr(first)?;
        for next in rest {
            let next = self.expr(next)?;
            let (left, right) =
                coerce::operand_types(&self.type_of(&joined)?, Operator::StringConcat, &self.type_of(&next)?)?;
            let args = vec![self.cast(joined, &left)?, self.cast(next, &right)?];
            let Some(concat) = TokenFunction::new(Function::Concat) else {
                return Err(Error::internal("there is no function for ||"));
            };
            let call = self.scalar(ScalarUDF::from(concat), args)?;
            joined = if left.is_string() { self.cast(call, &left)? } else { call };
        }
        Ok(joined)
    }

    /// Lowers a call of a text function.
    fn of_text(&self, function: Function, args: &[Expr]) -> Result<Physical> {
        let Some(text) = TextFunction::new(function) else {
            return Err(Error::internal(format!("{} is no function on text", function.sql())));
        };
        let mut lowered: Vec<Physical> = args.iter().map(|e| self.expr(e)).collect::<Result<_>>()?;
        if function == Function::Substring {
            for arg in lowered.iter_mut().skip(1) {
                *arg = self.cast(Arc::clone(arg), &DataType::Int64)?;
            }
        }
        let args = coerce::arguments(text.own(), lowered, self.schema)?;
        let text = match args.get(1).and_then(constant) {
            Some(value) => text.with_constant(value),
            None => text,
        };
        self.scalar(ScalarUDF::from(text), args)
    }
}

fn has_case(expr: &Physical) -> bool {
    expr.is::<CaseExpr>() || expr.children().into_iter().any(has_case)
}

/// Returns the value of a constant expression; `None` if it is not constant.
fn constant(expr: &Physical) -> Option<&ScalarValue> {
    expr.downcast_ref::<Constant>().map(Constant::value)
}

/// Converts a literal.
pub(crate) fn scalar(value: &Literal) -> ScalarValue {
    match value {
        Literal::Null => ScalarValue::Null,
        Literal::Boolean(value) => ScalarValue::Boolean(Some(*value)),
        Literal::Int64(value) => ScalarValue::Int64(Some(*value)),
        Literal::Decimal(value, precision, scale) => ScalarValue::Decimal128(Some(*value), *precision, *scale),
        Literal::Float64(value) => ScalarValue::Float64(Some(*value)),
        Literal::Utf8(value) => ScalarValue::Utf8(Some(value.clone())),
        Literal::Date(days) => ScalarValue::Date32(Some(*days)),
        Literal::Timestamp(micros, utc) => {
            ScalarValue::TimestampMicrosecond(Some(*micros), utc.then(|| Arc::from("+00:00")))
        }
    }
}

/// Returns the integers of a list that is too long to lower each of them to an expression. Such
/// lists of join keys come with every request, with up to a few megabytes. Returns `None` for other
/// lists.
fn long_list(list: &[Expr]) -> Option<Vec<i64>> {
    let number = |item: &Expr| match item {
        Expr::Literal(Literal::Int64(number)) => Some(*number),
        _ => None,
    };
    if list.len() > MAX_SHORT_LIST { list.iter().map(number).collect() } else { None }
}

/// Converts literals to arrays, in order. Consecutive literals of the same type form one array.
pub(crate) fn arrays_of(literals: &[&Literal]) -> Result<Vec<ArrayRef>> {
    let values: Vec<ScalarValue> = literals.iter().map(|literal| scalar(literal)).collect();
    let runs = values.chunk_by(|a, b| a.data_type() == b.data_type());
    runs.map(|run| ScalarValue::iter_to_array(run.iter().cloned()).map_err(from_datafusion)).collect()
}

fn operator(op: CompareOp) -> Operator {
    match op {
        CompareOp::Eq => Operator::Eq,
        CompareOp::NotEq => Operator::NotEq,
        CompareOp::Lt => Operator::Lt,
        CompareOp::LtEq => Operator::LtEq,
        CompareOp::Gt => Operator::Gt,
        CompareOp::GtEq => Operator::GtEq,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_in_a_list_is_no_constant() {
        let fields = ["a", "b"].map(|name| arrow::datatypes::Field::new(name, DataType::Int64, true));
        let schema = Arc::new(Schema::new(fields.to_vec()));
        let column = |values: Vec<i64>| Arc::new(arrow::array::Int64Array::from(values)) as ArrayRef;
        let columns = vec![column(vec![1, 2, 3, 9]), column(vec![1, 5, 3, 5])];
        let batch = arrow::array::RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
        let when = |n| Expr::compare(CompareOp::Eq, Expr::Column(0), Expr::int(n));
        let branches = vec![(when(1), Expr::Column(1)), (when(2), Expr::Column(1)), (when(3), Expr::Column(1))];
        let item = Expr::Case { branches, otherwise: Some(Box::new(Expr::int(0))) };
        for (negated, wanted) in [(false, [true, false, true, true]), (true, [false, true, false, false])] {
            let list = vec![Expr::int(9), item.clone()];
            let found = Expr::InList { expr: Box::new(Expr::Column(0)), list, negated };
            let values = lower(&found, &schema).unwrap().evaluate(&batch).unwrap().into_array(4).unwrap();
            assert_eq!(values.as_ref(), &arrow::array::BooleanArray::from(wanted.to_vec()) as &dyn arrow::array::Array);
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let mut expr = Expr::Literal(Literal::Boolean(true));
        for _ in 0..limits::EXPRESSION_DEPTH {
            expr = Expr::Not(Box::new(expr));
        }
        let error = lower(&expr, &Arc::new(Schema::empty())).map(|_| ()).map_err(|e| e.to_string());
        assert_eq!(error, Err("the expression is nested deeper than 128 levels".into()));
    }
}
