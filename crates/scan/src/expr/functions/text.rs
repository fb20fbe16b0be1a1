//! Text functions. They are DataFusion's, except for long texts and long sets of characters.
//!
//! DataFusion's kernels are fast on short texts. But they process a text of many megabytes in a
//! single step, which cannot be interrupted, and TRIM compares each character with the whole set.
//! Here long texts are processed in pieces, and sets are looked up.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, Int64Array, LargeStringArray, StringArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion_common::{Result as DfResult, ScalarValue};
use datafusion_expr::{ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};
use datafusion_functions::{string, unicode};
use pushdowndb_contract::{Error, Function, Result};

use crate::error::{from_arrow, from_datafusion};
use crate::expr::functions::json::constant_or_rows;
use crate::expr::functions::letter_case::{lower, upper};
use crate::runtime::interrupt::{Steps, check_interrupt};

/// The approximate size of the pieces in which longer texts are processed, in bytes.
const PIECE_BYTES: usize = 64 * 1024;

/// The maximum size of texts that are passed to DataFusion's kernels, in bytes.
const MAX_SHORT_BYTES: usize = 1 << 20;

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct TextFunction {
    function: Function,
    /// DataFusion's function, which has the same types and the same meaning.
    own: Arc<ScalarUDF>,
    /// The characters that TRIM removes, if they are a constant.
    set: Option<Set>,
}

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Set {
    /// A bit mask of the ASCII characters.
    ascii: u128,
    /// Other characters, sorted.
    others: Vec<char>,
}

impl Set {
    fn new(characters: &str) -> Self {
        let mut set = Self::default();
        for c in characters.chars() {
            if c.is_ascii() {
                set.ascii |= 1 << u32::from(c);
            } else {
                set.others.push(c);
            }
        }
        set.others.sort_unstable();
        set.others.dedup();
        set
    }

    #[inline]
    fn contains(&self, c: char) -> bool {
        if c.is_ascii() { self.ascii >> u32::from(c) & 1 == 1 } else { self.others.binary_search(&c).is_ok() }
    }
}

impl TextFunction {
    /// Returns `None` if `function` is not a text function.
    pub(crate) fn new(function: Function) -> Option<Self> {
        let own = match function {
            Function::Lower => string::lower(),
            Function::Upper => string::upper(),
            Function::CharLength => unicode::character_length(),
            Function::Substring => unicode::substr(),
            Function::Trim => string::btrim(),
            Function::TrimLeading => string::ltrim(),
            Function::TrimTrailing => string::rtrim(),
            _ => return None,
        };
        Some(Self { function, own, set: None })
    }

    /// Returns DataFusion's function, which determines the types of arguments.
    pub(crate) fn own(&self) -> &Arc<ScalarUDF> {
        &self.own
    }

    /// Returns the function with `characters` as the constant second argument of TRIM.
    pub(crate) fn with_constant(self, characters: &ScalarValue) -> Self {
        let set = characters.try_as_str().flatten().filter(|_| self.trims()).map(Set::new);
        Self { set, ..self }
    }

    fn trims(&self) -> bool {
        matches!(self.function, Function::Trim | Function::TrimLeading | Function::TrimTrailing)
    }

    fn on_arrays(&self, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
        let array = |index: usize| {
            let arg = args.get(index).cloned();
            arg.map(|arg| arg.into_array(rows).map_err(from_datafusion)).transpose()
        };
        let text = array(0)?.ok_or_else(|| Error::internal("a function of a text was called without"))?;
        let texts = Texts::new(&text)?;
        let mut steps = Steps::default();
        let result = match self.function {
            Function::Lower => texts.mapped(|text| Some(lower(text, &mut steps))),
            Function::Upper => texts.mapped(|text| Some(upper(text, &mut steps))),
            Function::CharLength => texts.lengths(&mut steps),
            Function::Substring => {
                let number = |index| -> Result<Option<Int64Array>> {
                    let Some(array) = array(index)? else { return Ok(None) };
                    Ok(Some(cast(&array, &DataType::Int64).map_err(from_arrow)?.as_primitive::<Int64Type>().clone()))
                };
                let starts = number(1)?.ok_or_else(|| Error::internal("SUBSTRING of nowhere"))?;
                substrings(&texts, &starts, number(2)?.as_ref(), &mut steps)?
            }
            _ => {
                let sets = match &self.set {
                    Some(_) => None,
                    None => array(1)?,
                };
                self.trimmed(&texts, sets.as_ref(), &mut steps)?
            }
        };
        // If the work was interrupted, the result is not valid.
        check_interrupt()?;
        Ok(result)
    }

    fn trimmed(&self, texts: &Texts, sets: Option<&ArrayRef>, steps: &mut Steps) -> Result<ArrayRef> {
        let sets = sets.map(Texts::new).transpose()?;
        let blank = Set::new(" ");
        let mut last: Option<(String, Set)> = None;
        let mut trimmed: Vec<Option<&str>> = Vec::with_capacity(texts.len());
        for row in 0..texts.len() {
            let set = match (&self.set, &sets) {
                (Some(set), _) => Some(set),
                (None, None) => Some(&blank),
                (None, Some(sets)) => match sets.get(row) {
                    None => None,
                    Some(wanted) => {
                        if last.as_ref().is_none_or(|(known, _)| known != wanted) {
                            steps.did(16 * wanted.len())?;
                            last = Some((wanted.to_owned(), Set::new(wanted)));
                        }
                        last.as_ref().map(|(_, set)| set)
                    }
                },
            };
            trimmed.push(texts.get(row).zip(set).map(|(text, set)| self.trim(text, set, steps)));
        }
        Ok(texts.array_of(trimmed.into_iter()))
    }

    fn trim<'a>(&self, mut text: &'a str, set: &Set, steps: &mut Steps) -> &'a str {
        let cost = if set.others.is_empty() { 1 } else { 16 };
        let mut is_in = |c: char| set.contains(c) && steps.go_on(cost);
        if self.function != Function::TrimTrailing {
            text = text.trim_start_matches(&mut is_in);
        }
        if self.function != Function::TrimLeading {
            text = text.trim_end_matches(&mut is_in);
        }
        text
    }
}

enum Texts {
    Utf8(StringArray),
    Large(LargeStringArray),
    View(StringViewArray),
}

impl Texts {
    fn new(array: &ArrayRef) -> Result<Self> {
        match array.data_type() {
            DataType::Utf8 => Ok(Self::Utf8(array.as_string().clone())),
            DataType::LargeUtf8 => Ok(Self::Large(array.as_string().clone())),
            DataType::Utf8View => Ok(Self::View(array.as_string_view().clone())),
            other => Err(Error::internal(format!("a function of text was called with {other}"))),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Utf8(texts) => texts.len(),
            Self::Large(texts) => texts.len(),
            Self::View(texts) => texts.len(),
        }
    }

    fn get(&self, row: usize) -> Option<&str> {
        match self {
            Self::Utf8(texts) => texts.is_valid(row).then(|| texts.value(row)),
            Self::Large(texts) => texts.is_valid(row).then(|| texts.value(row)),
            Self::View(texts) => texts.is_valid(row).then(|| texts.value(row)),
        }
    }

    fn iter(&self) -> impl Iterator<Item = Option<&str>> {
        (0..self.len()).map(|row| self.get(row))
    }

    /// Creates an array of the same type from `texts`.
    fn array_of<S: AsRef<str>>(&self, texts: impl Iterator<Item = Option<S>>) -> ArrayRef {
        match self {
            Self::Utf8(_) => Arc::new(texts.collect::<StringArray>()),
            Self::Large(_) => Arc::new(texts.collect::<LargeStringArray>()),
            Self::View(_) => Arc::new(texts.collect::<StringViewArray>()),
        }
    }

    fn mapped(&self, mut f: impl FnMut(&str) -> Option<String>) -> ArrayRef {
        self.array_of(self.iter().map(|text| text.and_then(&mut f)))
    }

    fn lengths(&self, steps: &mut Steps) -> ArrayRef {
        let mut length = |text: &str| {
            let pieces = text.as_bytes().chunks(PIECE_BYTES).take_while(|piece| steps.go_on(piece.len()));
            pieces.map(|piece| piece.iter().filter(|byte| **byte & 0xC0 != 0x80).count()).sum::<usize>()
        };
        match self {
            Self::Large(_) => {
                let lengths = self.iter().map(|text| text.map(|text| i64::try_from(length(text)).unwrap_or(i64::MAX)));
                Arc::new(lengths.collect::<Int64Array>())
            }
            Self::Utf8(_) | Self::View(_) => {
                let lengths = self.iter().map(|text| text.map(|text| i32::try_from(length(text)).unwrap_or(i32::MAX)));
                Arc::new(lengths.collect::<Int32Array>())
            }
        }
    }

    /// Returns whether one of the texts is long.
    fn has_long(&self) -> bool {
        self.iter().flatten().any(|text| text.len() > MAX_SHORT_BYTES)
    }
}

/// Computes `SUBSTRING(text FROM start [FOR length])` for each row.
fn substrings(texts: &Texts, starts: &Int64Array, lengths: Option<&Int64Array>, steps: &mut Steps) -> Result<ArrayRef> {
    let mut parts: Vec<Option<&str>> = Vec::with_capacity(texts.len());
    for row in 0..texts.len() {
        let length = lengths.map(|lengths| lengths.is_valid(row).then(|| lengths.value(row)));
        let (Some(text), true, Some(length)) = (
            texts.get(row),
            starts.is_valid(row),
            match length {
                None => Some(None),
                Some(None) => None,
                Some(length) => Some(length),
            },
        ) else {
            parts.push(None);
            continue;
        };
        if let Some(negative @ ..0) = length {
            return Err(Error::invalid(format!("negative count not allowed: {negative}")));
        }
        let first = starts.value(row).saturating_sub(1);
        let from = byte_of(text, first, steps);
        let rest = text.get(from..).unwrap_or_default();
        let to = length.map_or(rest.len(), |length| {
            byte_of(rest, first.saturating_add(length).saturating_sub(first.max(0)), steps)
        });
        parts.push(rest.get(..to));
    }
    Ok(texts.array_of(parts.into_iter()))
}

/// Returns the offset of the character with this number, counted from 0; the end of the text if it
/// has fewer characters.
fn byte_of(text: &str, number: i64, steps: &mut Steps) -> usize {
    let Ok(mut left) = usize::try_from(number) else { return 0 };
    let mut at = 0;
    while let Some(piece) = text.get(at..).and_then(|rest| rest.get(..rest.floor_char_boundary(PIECE_BYTES))) {
        let characters = piece.as_bytes().iter().filter(|byte| **byte & 0xC0 != 0x80).count();
        if piece.is_empty() || !steps.go_on(piece.len()) {
            break;
        }
        if left < characters {
            return at + piece.char_indices().nth(left).map_or(piece.len(), |(byte, _)| byte);
        }
        left -= characters;
        at += piece.len();
    }
    text.len()
}

impl ScalarUDFImpl for TextFunction {
    fn name(&self) -> &str {
        self.own.name()
    }

    fn signature(&self) -> &Signature {
        self.own.signature()
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        self.own.inner().return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> DfResult<FieldRef> {
        self.own.return_field_from_args(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let is_ours = self.trims()
            || match args.args.first() {
                Some(ColumnarValue::Array(array)) => Texts::new(array).is_ok_and(|texts| texts.has_long()),
                _ => false,
            };
        let is_text =
            |arg: &ColumnarValue| matches!(arg.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
        if !is_ours || !args.args.first().is_some_and(is_text) {
            return self.own.invoke_with_args(args);
        }
        constant_or_rows(&args, |rows| self.on_arrays(&args.args, rows))
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Field;
    use datafusion_common::config::ConfigOptions;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::runtime::interrupt::Interrupt;

    fn call(function: &TextFunction, args: &[ColumnarValue], rows: usize, ours: bool) -> Result<ArrayRef> {
        if ours {
            return function.on_arrays(args, rows);
        }
        let arg_fields: Vec<FieldRef> =
            args.iter().map(|arg| Arc::new(Field::new("a", arg.data_type(), true))).collect();
        let types: Vec<DataType> = args.iter().map(ColumnarValue::data_type).collect();
        let return_field = Arc::new(Field::new("r", function.return_type(&types).unwrap(), true));
        let config_options = Arc::new(ConfigOptions::default());
        let args =
            ScalarFunctionArgs { args: args.to_vec(), arg_fields, number_rows: rows, return_field, config_options };
        function.own.invoke_with_args(args).and_then(|value| value.into_array(rows)).map_err(from_datafusion)
    }

    fn random_texts(random: &mut StdRng, rows: usize) -> Vec<Option<String>> {
        let characters: Vec<char> = "aA .'éÉßΣσςα漢🌏ŉʰİ1_\u{301}".chars().collect();
        let text = |random: &mut StdRng| {
            let length = random.random_range(0..20);
            (0..length).map(|_| characters[random.random_range(0..characters.len())]).collect::<String>()
        };
        (0..rows).map(|_| random.random_bool(0.9).then(|| text(random))).collect()
    }

    #[test]
    fn texts_are_what_datafusion_makes_of_them() {
        let mut random = StdRng::seed_from_u64(9);
        for round in 0..400 {
            let (texts, sets) = (random_texts(&mut random, 20), random_texts(&mut random, 20));
            let arrays: [ArrayRef; 3] = [
                Arc::new(StringArray::from(texts.clone())),
                Arc::new(LargeStringArray::from(texts.clone())),
                Arc::new(StringViewArray::from_iter(texts.clone())),
            ];
            let array = Arc::clone(&arrays[round % 3]);
            let set_array = cast(&(Arc::new(StringArray::from(sets)) as ArrayRef), array.data_type()).unwrap();
            let mut number = || {
                let numbers = (0..20).map(|_| random.random_bool(0.9).then(|| random.random_range(-3..24i64)));
                Arc::new(numbers.collect::<Int64Array>()) as ArrayRef
            };
            let starts = number();
            let lengths = arrow::compute::kernels::numeric::add(&number(), &Int64Array::new_scalar(3)).unwrap();
            for function in [
                Function::Lower,
                Function::Upper,
                Function::CharLength,
                Function::Substring,
                Function::Trim,
                Function::TrimLeading,
                Function::TrimTrailing,
            ] {
                let text = TextFunction::new(function).unwrap();
                let value = |array: &ArrayRef| ColumnarValue::Array(Arc::clone(array));
                let constant = ScalarValue::try_from_array(&set_array, 0).unwrap();
                let all = match function {
                    Function::Substring => vec![
                        (text.clone(), vec![value(&array), value(&starts)]),
                        (text.clone(), vec![value(&array), value(&starts), value(&lengths)]),
                    ],
                    Function::Lower | Function::Upper | Function::CharLength => {
                        vec![(text.clone(), vec![value(&array)])]
                    }
                    _ => vec![
                        (text.clone(), vec![value(&array)]),
                        (text.clone(), vec![value(&array), value(&set_array)]),
                        (text.clone().with_constant(&constant), vec![value(&array), ColumnarValue::Scalar(constant)]),
                    ],
                };
                for (text, args) in all {
                    let [ours, theirs] = [true, false].map(|ours| call(&text, &args, 20, ours));
                    assert_eq!(&ours.unwrap(), &theirs.unwrap(), "{function:?} of {texts:?}");
                }
            }
        }
    }

    #[test]
    fn a_large_set_is_looked_up() {
        let set: String = (0x4E00..0x9000).filter_map(char::from_u32).collect();
        let last = set.chars().next_back().unwrap();
        let text = last.to_string().repeat(50_000);
        let trim = TextFunction::new(Function::Trim).unwrap();
        let mut steps = Steps::default();
        assert_eq!(trim.trim(&text, &Set::new(&set), &mut steps), "");
        assert!(steps.counted() <= 16 * 50_001, "{} steps for 50,000 characters", steps.counted());
    }

    #[test]
    fn an_interrupt_ends_them() {
        let text = "é".repeat(8 << 20);
        let array = ColumnarValue::Array(Arc::new(StringArray::from(vec![text])));
        let set = ColumnarValue::Array(Arc::new(StringArray::from(vec!["é"])));
        let interrupt = Interrupt::new();
        interrupt.cancel();
        interrupt.scope_sync(|| {
            for function in [Function::Lower, Function::Upper, Function::CharLength, Function::Trim] {
                let text = TextFunction::new(function).unwrap();
                let args =
                    if function == Function::Trim { vec![array.clone(), set.clone()] } else { vec![array.clone()] };
                let error = call(&text, &args, 1, true).unwrap_err();
                assert_eq!(error.kind(), pushdowndb_contract::ErrorKind::Cancelled);
            }
        });
    }
}
