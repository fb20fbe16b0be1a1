//! LIKE.
//!
//! DataFusion compiles patterns with `_` to regular expressions. For some patterns of a few
//! kilobytes that takes a minute and cannot be interrupted; see [`crate::values::pattern`].

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringArrayType};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::DataType;
use datafusion_common::{Result as DfResult, ScalarValue, internal_err};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use pushdowndb_contract::{Error, Result};

use crate::error::from_datafusion;
use crate::expr::functions::json::constant_or_rows;
use crate::runtime::interrupt::{Steps, check_interrupt};
use crate::values::pattern::Pattern;

/// The function `value [NOT] LIKE pattern` or `ILIKE` of two texts of the same type.
#[derive(Debug)]
pub(crate) struct Like {
    negated: bool,
    case_insensitive: bool,
    constant: Option<(String, Arc<Pattern>)>,
    signature: Signature,
}

impl Like {
    pub(crate) fn new(negated: bool, case_insensitive: bool, pattern: Option<&ScalarValue>) -> Self {
        let text = pattern.and_then(|value| value.try_as_str().flatten());
        let constant = text.map(|text| (text.to_owned(), Arc::new(Pattern::new(text, case_insensitive))));
        Self { negated, case_insensitive, constant, signature: Signature::any(2, Volatility::Immutable) }
    }

    /// Returns the constant pattern, and whether the match is negated.
    pub(crate) fn pattern(&self) -> Option<(&Arc<Pattern>, bool)> {
        self.constant.as_ref().map(|(_, pattern)| (pattern, self.negated))
    }

    fn on_arrays(&self, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
        let array = |arg: Option<&ColumnarValue>| {
            let arg = arg.cloned().ok_or_else(|| Error::internal("LIKE lacks an argument"))?;
            arg.into_array(rows).map_err(from_datafusion)
        };
        let values = array(args.first())?;
        let matches = match &self.constant {
            Some((_, pattern)) => self.constant_on(&values, pattern),
            None => self.each_on(&values, &array(args.get(1))?),
        };
        // If the work was interrupted, the matches are not valid.
        check_interrupt()?;
        matches.map(|matches| Arc::new(matches) as ArrayRef).map_err(from_datafusion)
    }

    fn constant_on(&self, values: &ArrayRef, pattern: &Pattern) -> DfResult<BooleanArray> {
        match values.data_type() {
            DataType::Utf8 => Ok(self.matches(values.as_string::<i32>(), pattern)),
            DataType::LargeUtf8 => Ok(self.matches(values.as_string::<i64>(), pattern)),
            DataType::Utf8View => Ok(self.matches(values.as_string_view(), pattern)),
            other => internal_err!("LIKE of {other}"),
        }
    }

    fn matches<'a>(&self, values: impl StringArrayType<'a>, pattern: &Pattern) -> BooleanArray {
        let mut steps = Steps::default();
        let nulls = values.nulls().cloned();
        let matches = BooleanBuffer::collect_bool(values.len(), |row| {
            let is_valid = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
            is_valid && pattern.matches(values.value(row).as_bytes(), &mut steps) != self.negated
        });
        BooleanArray::new(matches, nulls)
    }

    fn each_on(&self, values: &ArrayRef, patterns: &ArrayRef) -> DfResult<BooleanArray> {
        match (values.data_type(), patterns.data_type()) {
            (DataType::Utf8, DataType::Utf8) => Ok(self.each(values.as_string::<i32>(), patterns.as_string::<i32>())),
            (DataType::LargeUtf8, DataType::LargeUtf8) => {
                Ok(self.each(values.as_string::<i64>(), patterns.as_string::<i64>()))
            }
            (DataType::Utf8View, DataType::Utf8View) => {
                Ok(self.each(values.as_string_view(), patterns.as_string_view()))
            }
            (values, patterns) => internal_err!("{values} LIKE {patterns}"),
        }
    }

    /// Matches with one pattern per row. Consecutive equal patterns are compiled once.
    fn each<'a>(&self, values: impl StringArrayType<'a>, patterns: impl StringArrayType<'a>) -> BooleanArray {
        let mut steps = Steps::default();
        let nulls = NullBuffer::union(values.nulls(), patterns.nulls());
        let mut last: Option<(&str, Pattern)> = None;
        let matches = BooleanBuffer::collect_bool(values.len(), |row| {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                return false;
            }
            let wanted = patterns.value(row);
            let pattern = match &mut last {
                Some((text, pattern)) if *text == wanted => pattern,
                last => {
                    // Compiling a pattern takes some allocations.
                    if !steps.go_on(64 + 8 * wanted.len()) {
                        return false;
                    }
                    &mut last.insert((wanted, Pattern::new(wanted, self.case_insensitive))).1
                }
            };
            pattern.matches(values.value(row).as_bytes(), &mut steps) != self.negated
        });
        BooleanArray::new(matches, nulls)
    }
}

impl PartialEq for Like {
    fn eq(&self, other: &Self) -> bool {
        let text = |like: &Self| like.constant.as_ref().map(|(text, _)| text.clone());
        (self.negated, self.case_insensitive) == (other.negated, other.case_insensitive) && text(self) == text(other)
    }
}

impl Eq for Like {}

impl Hash for Like {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let text = self.constant.as_ref().map(|(text, _)| text);
        (self.negated, self.case_insensitive, text).hash(state);
    }
}

impl ScalarUDFImpl for Like {
    fn name(&self) -> &str {
        "like"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        // A NULL pattern matches nothing.
        if args.args.iter().any(|arg| matches!(arg, ColumnarValue::Scalar(value) if value.is_null())) {
            return Ok(ColumnarValue::Scalar(ScalarValue::Boolean(None)));
        }
        constant_or_rows(&args, |rows| self.on_arrays(&args.args, rows))
    }
}
