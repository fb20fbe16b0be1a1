//! Functions over values without a declared type: JSON tokens, whose kind may differ from record to
//! record.
//!
//! A token is a value as JSON text; `null` is NULL. Comparison and arithmetic depend on the kinds
//! of values: values of different kinds are not equal, and their order and arithmetic are NULL. For
//! numbers see [`crate::expr::number`].

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryBuilder, BooleanArray, BooleanBuilder, StringArray, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion_common::{Result as DfResult, ScalarValue};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use pushdowndb_contract::{Error, ErrorKind, Function, Result, like_with_backslash, token};

use crate::error::{from_arrow, into_datafusion};
use crate::expr::number::{Arithmetic, Number};
use crate::limits;
use crate::types::sql_type;
use crate::values::fields::shorten;
use crate::values::json::{scalar_text, unescape};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Null,
    Boolean(bool),
    Number(Number),
    Text(Cow<'a, str>),
    /// An object or array, as it is written.
    Nested(&'a str),
}

impl<'a> Value<'a> {
    pub(crate) fn of(token: &'a str) -> Self {
        match token.as_bytes().first() {
            None | Some(b'n') => Self::Null,
            Some(b't') => Self::Boolean(true),
            Some(b'f') => Self::Boolean(false),
            Some(b'"') => match token.get(1..token.len().saturating_sub(1)) {
                Some(plain) if !plain.contains('\\') => Self::Text(Cow::Borrowed(plain)),
                _ => unescape(token).map_or(Self::Null, |text| Self::Text(Cow::Owned(text))),
            },
            Some(b'{' | b'[') => Self::Nested(token),
            Some(_) => Number::parse(token).map_or(Self::Null, Self::Number),
        }
    }

    fn equals(&self, other: &Self) -> Option<bool> {
        match (self, other) {
            (Self::Null, _) | (_, Self::Null) => None,
            (Self::Number(a), Self::Number(b)) => Some(a.compare(*b) == Ordering::Equal),
            (a, b) => Some(a == b),
        }
    }

    /// Returns the order of two values; `None` if they are of different kinds.
    fn order(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => Some(a.compare(*b)),
            (Self::Text(a), Self::Text(b)) => Some(a.cmp(b)),
            (Self::Boolean(a), Self::Boolean(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }

    /// Appends bytes that sort like the values: Booleans, numbers, text, other values.
    pub(crate) fn sort_key(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => {}
            Self::Boolean(value) => out.extend([1, u8::from(*value)]),
            Self::Number(number) => {
                out.push(2);
                number.sort_key(out);
            }
            Self::Text(text) => {
                out.push(3);
                out.extend_from_slice(text.as_bytes());
            }
            Self::Nested(text) => {
                out.push(4);
                out.extend_from_slice(text.as_bytes());
            }
        }
    }
}

#[derive(Debug, Eq, Hash, PartialEq)]
pub(crate) struct TokenFunction {
    function: Function,
    signature: Signature,
}

impl TokenFunction {
    /// Returns `None` if `function` is not a function of tokens.
    pub(crate) fn new(function: Function) -> Option<Self> {
        use Function::*;
        let known = matches!(
            function,
            JsonText
                | JsonWhole
                | JsonTruth
                | JsonString
                | JsonBoolean
                | JsonValue
                | ToToken
                | ToNumber
                | TokenEq
                | TokenLt
                | TokenLtEq
                | TokenAdd
                | TokenSubtract
                | TokenMultiply
                | TokenDivide
                | TokenModulo
                | TokenOrder
                | LikePattern
                | Concat
        );
        known.then(|| Self { function, signature: Signature::variadic_any(Volatility::Immutable) })
    }

    /// Returns the number of arguments.
    pub(crate) fn arity(&self) -> usize {
        use Function::*;
        match self.function {
            TokenEq | TokenLt | TokenLtEq | TokenAdd | TokenSubtract | TokenMultiply | TokenDivide | TokenModulo
            | LikePattern | Concat => 2,
            _ => 1,
        }
    }

    fn on_arrays(&self, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
        let array = |index: usize| -> Result<ArrayRef> {
            let arg = args.get(index).cloned().ok_or_else(|| Error::internal("a function lacks an argument"))?;
            arg.into_array(rows).map_err(crate::error::from_datafusion)
        };
        let text = |index| as_text(&array(index)?);
        Ok(match self.function {
            Function::JsonText => strings(&text(0)?, scalar_text),
            Function::JsonWhole => strings(&text(0)?, whole_text),
            Function::JsonTruth => strings(&text(0)?, truth_text),
            Function::JsonString => strings(&text(0)?, |token| match Value::of(token) {
                Value::Text(text) => Some(text.into_owned()),
                _ => None,
            }),
            Function::JsonValue => {
                let tokens = text(0)?;
                if tokens.iter().any(|token| token == Some("null")) {
                    Arc::new(tokens.iter().map(|t| t.filter(|t| *t != "null")).collect::<StringArray>())
                } else {
                    Arc::new(tokens)
                }
            }
            Function::JsonBoolean => {
                let truth = |token: &str| match Value::of(token) {
                    Value::Boolean(value) => Some(value),
                    _ => None,
                };
                Arc::new(text(0)?.iter().map(|t| t.and_then(truth)).collect::<BooleanArray>())
            }
            Function::ToToken => to_token(&array(0)?)?,
            Function::ToNumber => to_number(&array(0)?)?,
            Function::TokenOrder => {
                let tokens = text(0)?;
                let mut keys = BinaryBuilder::new();
                let mut key = Vec::new();
                for token in &tokens {
                    key.clear();
                    let value = token.map_or(Value::Null, Value::of);
                    value.sort_key(&mut key);
                    keys.append_option((value != Value::Null).then_some(&key));
                }
                Arc::new(keys.finish())
            }
            Function::LikePattern => {
                let (patterns, escapes) = (text(0)?, text(1)?);
                let rewritten = patterns.iter().zip(&escapes).map(|(pattern, escape)| match (pattern, escape) {
                    (Some(pattern), Some(escape)) => like(pattern, escape.chars().next()).map(Some),
                    _ => Ok(None),
                });
                Arc::new(rewritten.collect::<Result<StringArray>>()?)
            }
            Function::Concat => {
                let (a, b) = self.operands(args)?;
                concat(&a, &b, rows)?
            }
            Function::TokenEq => self.compare(args, rows, |a, b| a.equals(b))?,
            Function::TokenLt => self.compare(args, rows, |a, b| a.order(b).map(Ordering::is_lt))?,
            Function::TokenLtEq => self.compare(args, rows, |a, b| a.order(b).map(Ordering::is_le))?,
            Function::TokenAdd => self.calculate(args, rows, Arithmetic::Add)?,
            Function::TokenSubtract => self.calculate(args, rows, Arithmetic::Subtract)?,
            Function::TokenMultiply => self.calculate(args, rows, Arithmetic::Multiply)?,
            Function::TokenDivide => self.calculate(args, rows, Arithmetic::Divide)?,
            Function::TokenModulo => self.calculate(args, rows, Arithmetic::Modulo)?,
            other => return Err(Error::internal(format!("{} is no function of tokens", other.sql()))),
        })
    }

    fn compare(
        &self,
        args: &[ColumnarValue],
        rows: usize,
        test: impl Fn(&Value<'_>, &Value<'_>) -> Option<bool>,
    ) -> Result<ArrayRef> {
        let (a, b) = self.operands(args)?;
        let (a, b) = (a.values(), b.values());
        let mut results = BooleanBuilder::with_capacity(rows);
        for row in 0..rows {
            results.append_option(test(&a.get(row), &b.get(row)));
        }
        Ok(Arc::new(results.finish()))
    }

    fn calculate(&self, args: &[ColumnarValue], rows: usize, op: Arithmetic) -> Result<ArrayRef> {
        let (a, b) = self.operands(args)?;
        let (a, b) = (a.values(), b.values());
        let mut results = StringBuilder::with_capacity(rows, rows * 8);
        for row in 0..rows {
            match (a.get(row).as_ref(), b.get(row).as_ref()) {
                (Value::Number(a), Value::Number(b)) => results.append_value(a.calculate(op, *b)?.to_text()),
                _ => results.append_null(),
            }
        }
        Ok(Arc::new(results.finish()))
    }

    fn operands(&self, args: &[ColumnarValue]) -> Result<(Operand, Operand)> {
        match args {
            [a, b] => Ok((Operand::new(a)?, Operand::new(b)?)),
            _ => Err(Error::internal("a function of two arguments was called with another number")),
        }
    }
}

/// An argument: a token for each row, or a constant.
enum Operand {
    Constant(Option<String>),
    Rows(StringArray),
}

/// An operand whose constant, if it is one, is already parsed.
enum Values<'a> {
    Constant(Value<'a>),
    Rows(&'a StringArray),
}

impl Operand {
    fn new(arg: &ColumnarValue) -> Result<Self> {
        Ok(match arg {
            ColumnarValue::Array(array) => Self::Rows(as_text(array)?),
            ColumnarValue::Scalar(value) => {
                let array = value.to_array().map_err(crate::error::from_datafusion)?;
                Self::Constant(as_text(&array)?.iter().next().flatten().map(str::to_owned))
            }
        })
    }

    /// Returns the bytes of its text in `rows` rows.
    fn bytes(&self, rows: usize) -> usize {
        match self {
            Self::Constant(text) => text.as_ref().map_or(0, String::len).saturating_mul(rows),
            Self::Rows(text) => match text.value_offsets() {
                [first, .., last] => usize::try_from(last - first).unwrap_or(usize::MAX),
                _ => 0,
            },
        }
    }

    fn text(&self, row: usize) -> Option<&str> {
        match self {
            Self::Constant(text) => text.as_deref(),
            Self::Rows(text) => text.is_valid(row).then(|| text.value(row)),
        }
    }

    fn values(&self) -> Values<'_> {
        match self {
            Self::Constant(token) => Values::Constant(token.as_deref().map_or(Value::Null, Value::of)),
            Self::Rows(tokens) => Values::Rows(tokens),
        }
    }
}

impl<'a> Values<'a> {
    fn get(&self, row: usize) -> Cow<'_, Value<'a>> {
        match self {
            Self::Constant(value) => Cow::Borrowed(value),
            Self::Rows(tokens) if tokens.is_valid(row) => Cow::Owned(Value::of(tokens.value(row))),
            Self::Rows(_) => Cow::Owned(Value::Null),
        }
    }
}

fn as_text(array: &ArrayRef) -> Result<StringArray> {
    if let Some(text) = array.as_string_opt::<i32>() {
        return Ok(text.clone());
    }
    let array = cast(array, &DataType::Utf8).map_err(from_arrow)?;
    Ok(array.as_string::<i32>().clone())
}

fn strings(tokens: &StringArray, f: impl Fn(&str) -> Option<String>) -> ArrayRef {
    Arc::new(tokens.iter().map(|t| t.and_then(&f)).collect::<StringArray>())
}

/// Converts values of a type to tokens.
fn to_token(array: &ArrayRef) -> Result<ArrayRef> {
    let data_type = array.data_type();
    if data_type.is_string() {
        return Ok(strings(&as_text(array)?, |text| Some(token::quoted(text))));
    }
    let float = |value: f64| value.is_finite().then(|| format!("{value:?}"));
    Ok(match data_type {
        DataType::Null => arrow::array::new_null_array(&DataType::Utf8, array.len()),
        DataType::Float64 => {
            let values = array.as_primitive::<Float64Type>().iter().map(|v| v.and_then(float));
            Arc::new(values.collect::<StringArray>())
        }
        DataType::Float32 => {
            // A float's shortest text differs from that of the double to which it widens.
            let values = array.as_primitive::<Float32Type>().iter();
            Arc::new(values.map(|v| v.filter(|v| v.is_finite()).map(|v| format!("{v:?}"))).collect::<StringArray>())
        }
        t if t.is_numeric() || *t == DataType::Boolean => Arc::new(as_text(array)?),
        t if t.is_temporal() => strings(&as_text(array)?, |text| Some(token::quoted(text))),
        other => {
            return Err(Error::unsupported(format!("{} does not go together with values of JSON", sql_type(other))));
        }
    })
}

/// Returns `a || b`; NULL if either is NULL. The bytes are counted first, since a short query can
/// create very long text.
fn concat(a: &Operand, b: &Operand, rows: usize) -> Result<ArrayRef> {
    let bytes = a.bytes(rows).saturating_add(b.bytes(rows));
    if bytes > limits::MAX_VALUE_BYTES {
        return Err(too_large());
    }
    let mut out = StringBuilder::with_capacity(rows, bytes);
    for row in 0..rows {
        match (a.text(row), b.text(row)) {
            (Some(a), Some(b)) => {
                // Writing to memory cannot fail.
                let _ = out.write_str(a).and_then(|()| out.write_str(b));
                out.append_value("");
            }
            _ => out.append_null(),
        }
    }
    Ok(Arc::new(out.finish()))
}

/// Returns the error for a batch of results that takes too much memory.
pub(crate) fn too_large() -> Error {
    let message = format!("the values of a result take more than {} bytes", limits::MAX_VALUE_BYTES);
    Error::new(ErrorKind::Limit, message).with_code("OverMaxRecordSize")
}

/// Returns the text of a token in the form that a cast to an integer parses.
fn whole_text(token: &str) -> Option<String> {
    let is_whole = |token: &str| token.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    match Value::of(token) {
        Value::Boolean(value) => Some(u8::from(value).to_string()),
        Value::Number(number) if !is_whole(token) => match number {
            Number::Int(value) => Some(value.to_string()),
            Number::Decimal(value, scale) => Some((value / 10_i128.checked_pow(scale)?).to_string()),
            // An integer that exceeds 64 bits is reported by the cast.
            Number::Float(value) => Some(format!("{:.0}", value.trunc())),
        },
        _ => scalar_text(token),
    }
}

/// Returns the text of a token in the form that a cast to a Boolean parses.
fn truth_text(token: &str) -> Option<String> {
    match Value::of(token) {
        Value::Number(number) => Some((number.compare(Number::Int(0)) != Ordering::Equal).to_string()),
        _ => scalar_text(token),
    }
}

/// Converts a LIKE pattern to Arrow's form.
fn like(pattern: &str, escape: Option<char>) -> Result<String> {
    like_with_backslash(pattern, escape).ok_or_else(|| {
        let message = format!("in the pattern '{}' the escape stands before an ordinary character", shorten(pattern));
        Error::invalid(message).with_code("EvaluatorLikePatternInvalidEscapeSequence")
    })
}

/// Converts text or numbers to number tokens. Decimals and doubles get as few digits as possible.
fn to_number(array: &ArrayRef) -> Result<ArrayRef> {
    if !array.data_type().is_string() {
        let tokens = to_token(array)?;
        return Ok(strings(tokens.as_string(), |token| Some(Number::parse(token)?.trimmed().to_text())));
    }
    let mut numbers = StringBuilder::with_capacity(array.len(), array.len() * 8);
    for text in &as_text(array)? {
        match text {
            None => numbers.append_null(),
            // Most numbers already have the form of a token.
            Some(text) if is_plain(text.as_bytes()) => numbers.append_value(text),
            Some(text) => numbers.append_value(Number::parse_text(text).map(Number::to_text).ok_or_else(|| {
                Error::invalid(format!("cannot parse '{}' as DECIMAL", shorten(text))).with_code("CastFailed")
            })?),
        }
    }
    Ok(Arc::new(numbers.finish()))
}

/// Returns whether the text is an exact JSON number, such as `-12.50`, of limited length.
fn is_plain(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let whole = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let leading = digits.first() == Some(&b'0') && whole > 1;
    let rest = digits.get(whole..).unwrap_or_default();
    let fraction = match rest.split_first() {
        None => true,
        Some((b'.', fraction)) => !fraction.is_empty() && fraction.iter().all(u8::is_ascii_digit),
        Some(_) => false,
    };
    whole > 0 && !leading && fraction && digits.len() <= 38
}

impl ScalarUDFImpl for TokenFunction {
    fn name(&self) -> &str {
        self.function.sql()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        use Function::*;
        Ok(match self.function {
            JsonBoolean | TokenEq | TokenLt | TokenLtEq => DataType::Boolean,
            TokenOrder => DataType::Binary,
            _ => DataType::Utf8,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        constant_or_rows(&args, |rows| self.on_arrays(&args.args, rows))
    }
}

/// Evaluates `f` for all rows, or once if all arguments are constants.
pub(crate) fn constant_or_rows(
    args: &ScalarFunctionArgs,
    f: impl FnOnce(usize) -> Result<ArrayRef>,
) -> DfResult<ColumnarValue> {
    if args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_))) {
        let value = f(1).map_err(into_datafusion)?;
        return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&value, 0)?));
    }
    f(args.number_rows).map(ColumnarValue::Array).map_err(into_datafusion)
}
