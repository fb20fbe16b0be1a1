//! Column builders: decode fields into Arrow arrays, one builder for each type.
//!
//! A builder appends one group after the other, and is emptied when a batch is taken. If a field is
//! NULL in a NOT NULL column, or not valid for the type, it is reported with its span, and the
//! caller adds the object and the column to the error.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::builder::{BooleanBuilder, NullBufferBuilder};
use arrow::array::timezone::Tz;
use arrow::array::types::*;
use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, GenericStringArray, OffsetSizeTrait, PrimitiveArray, StringArray,
    StringViewArray, TimestampMicrosecondArray, new_empty_array,
};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::{CastOptions, can_cast_types, cast_with_options, concat};
use arrow::datatypes::{ArrowNativeType, DataType, TimeUnit};
use arrow::error::ArrowError;
use pushdowndb_contract::{Error, Result, Timestamp};

use crate::types::sql_type;
use crate::values::fields::{FieldBytes, FieldColumn};
use crate::values::nulls::{BadField, Nulls, Spelling};
use crate::values::parse;
use crate::values::short_decimal::group::{GROUP, ShortDecimal};

pub(crate) trait ColumnBuilder: Send {
    fn append(&mut self, fields: &FieldColumn<'_>) -> Result<(), BadField>;

    /// Takes the array of all fields appended so far.
    fn finish(&mut self) -> Result<ArrayRef, ArrowError>;

    /// Returns the approximate bytes of text in the builder.
    fn text_bytes(&self) -> usize {
        0
    }
}

/// A visitor that gets the parser for fields of a primitive type.
pub(crate) trait WithParser {
    type Output;

    /// `parse` returns the value of a field that is not NULL; `None` if the field is not valid.
    fn make<T, P>(self, data_type: &DataType, parse: P) -> Self::Output
    where
        T: ArrowPrimitiveType,
        P: Fn(FieldBytes<'_>) -> Option<T::Native> + Send + 'static;
}

/// Calls `with` with the parser of a type. Returns `None` if the type is not primitive.
pub(crate) fn with_parser<W: WithParser>(
    data_type: &DataType,
    spelling: Spelling,
    with: W,
) -> Result<Option<W::Output>> {
    macro_rules! parser {
        ($arrow:ty, $parse:expr) => {{
            let (parse, own) = ($parse, data_type.clone());
            let parse = move |field: FieldBytes<'_>| match parse(field) {
                Some(value) => Some(value),
                None => respelled::<$arrow>(field.bytes, &own, spelling),
            };
            with.make::<$arrow, _>(data_type, parse)
        }};
    }
    macro_rules! integer {
        ($arrow:ty, $parse:path) => {
            parser!($arrow, |field: FieldBytes<'_>| $parse(field).and_then(|value| value.try_into().ok()))
        };
    }
    macro_rules! timestamp {
        ($arrow:ty, $zone:expr) => {
            match $zone {
                None => {
                    parser!($arrow, |field: FieldBytes<'_>| crate::values::dates::utc_timestamp::<$arrow>(field.bytes))
                }
                Some(zone) => {
                    let zone: Tz = zone.parse().map_err(crate::error::from_arrow)?;
                    parser!($arrow, move |field: FieldBytes<'_>| crate::values::dates::timestamp::<$arrow>(
                        field.bytes,
                        &zone
                    ))
                }
            }
        };
    }
    Ok(Some(match data_type {
        DataType::Int8 => integer!(Int8Type, parse::int64),
        DataType::Int16 => integer!(Int16Type, parse::int64),
        DataType::Int32 => integer!(Int32Type, parse::int64),
        DataType::Int64 => parser!(Int64Type, |field: FieldBytes<'_>| parse::int64(field)),
        DataType::UInt8 => integer!(UInt8Type, parse::uint64),
        DataType::UInt16 => integer!(UInt16Type, parse::uint64),
        DataType::UInt32 => integer!(UInt32Type, parse::uint64),
        DataType::UInt64 => parser!(UInt64Type, |field: FieldBytes<'_>| parse::uint64(field)),
        DataType::Float32 => parser!(Float32Type, |field: FieldBytes<'_>| parse::float32(field.bytes)),
        DataType::Float64 => parser!(Float64Type, |field: FieldBytes<'_>| parse::float64(field)),
        DataType::Decimal128(precision, scale) => {
            let (precision, scale) = (*precision, *scale);
            parser!(Decimal128Type, move |field: FieldBytes<'_>| parse::decimal128(field, precision, scale))
        }
        DataType::Date32 => parser!(Date32Type, |field: FieldBytes<'_>| crate::values::dates::date32(field.bytes)),
        DataType::Timestamp(TimeUnit::Second, zone) => timestamp!(TimestampSecondType, zone),
        DataType::Timestamp(TimeUnit::Millisecond, zone) => timestamp!(TimestampMillisecondType, zone),
        DataType::Timestamp(TimeUnit::Microsecond, zone) => timestamp!(TimestampMicrosecondType, zone),
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => timestamp!(TimestampNanosecondType, zone),
        _ => return Ok(None),
    }))
}

pub(crate) fn builder(data_type: &DataType, nulls: Nulls, spelling: Spelling) -> Result<Box<dyn ColumnBuilder>> {
    if let Some(primitive) = with_parser(data_type, spelling, PrimitiveBuilder { nulls: nulls.clone(), spelling })? {
        return Ok(primitive);
    }
    Ok(match data_type {
        DataType::Boolean => Box::new(Booleans { values: BooleanBuilder::new(), nulls, spelling }),
        DataType::Utf8 => Box::new(Text::<i32>::new(nulls)),
        DataType::LargeUtf8 => Box::new(Text::<i64>::new(nulls)),
        DataType::Utf8View => Box::new(TextViews(Text::new(nulls))),
        other if can_cast_types(&DataType::Utf8, other) => {
            Box::new(Casted { nulls, data_type: other.clone(), groups: vec![], text_bytes: 0 })
        }
        other => return Err(Error::unsupported(format!("text cannot be read as {}", sql_type(other)))),
    })
}

/// Casts one text with Arrow. Returns an array with one value.
fn arrow_cast(field: &[u8], to: &DataType) -> Option<ArrayRef> {
    let text = std::str::from_utf8(field).ok()?;
    let options = CastOptions { safe: true, ..Default::default() };
    let value = cast_with_options(&StringArray::from(vec![text]), to, &options).ok()?;
    value.is_valid(0).then_some(value)
}

struct Primitives<T: ArrowPrimitiveType, P> {
    data_type: DataType,
    values: Vec<T::Native>,
    validity: NullBufferBuilder,
    nulls: Nulls,
    parse: P,
    usual: Option<ShortDecimal>,
    /// True if a number must not begin with superfluous zeros.
    keeps_zeros: bool,
    /// True if an integer that would be rounded is not valid.
    keeps_digits: bool,
    /// The number of values in the last batch, which is the initial capacity for the next one.
    capacity: usize,
}

/// Returns the value of a field that the column's rule refuses but a cast accepts.
#[cold]
fn respelled<T: ArrowPrimitiveType>(field: &[u8], data_type: &DataType, spelling: Spelling) -> Option<T::Native> {
    match spelling {
        Spelling::Declared | Spelling::Inferred => None,
        Spelling::Cast => {
            if let DataType::Timestamp(..) = data_type
                && let Some(time) = std::str::from_utf8(field).ok().and_then(|text| Timestamp::parse(text.trim()))
            {
                // S3 Select also accepts shorter spellings: a year, a month, a time without
                // seconds.
                let micros = TimestampMicrosecondArray::from(vec![time.micros()]).with_timezone("+00:00");
                let value = cast_with_options(&micros, data_type, &CastOptions::default()).ok()?;
                return value.as_any().downcast_ref::<PrimitiveArray<T>>().map(|array| array.value(0));
            }
            arrow_cast(field, data_type)?.as_any().downcast_ref::<PrimitiveArray<T>>().map(|array| array.value(0))
        }
    }
}

struct PrimitiveBuilder {
    nulls: Nulls,
    spelling: Spelling,
}

impl WithParser for PrimitiveBuilder {
    type Output = Box<dyn ColumnBuilder>;

    fn make<T, P>(self, data_type: &DataType, parse: P) -> Box<dyn ColumnBuilder>
    where
        T: ArrowPrimitiveType,
        P: Fn(FieldBytes<'_>) -> Option<T::Native> + Send + 'static,
    {
        Box::new(Primitives::<T, P> {
            data_type: data_type.clone(),
            values: vec![],
            validity: NullBufferBuilder::new(0),
            usual: ShortDecimal::of(data_type, &self.nulls, self.spelling),
            keeps_zeros: self.spelling == Spelling::Inferred && data_type.is_numeric(),
            keeps_digits: self.spelling == Spelling::Inferred && data_type.is_floating(),
            nulls: self.nulls,
            parse,
            capacity: 0,
        })
    }
}

impl<T, P> Primitives<T, P>
where
    T: ArrowPrimitiveType,
    P: Fn(FieldBytes<'_>) -> Option<T::Native>,
{
    /// Decodes the fields of these rows one by one.
    fn append_rows(&mut self, fields: &FieldColumn<'_>, rows: Range<usize>) -> Result<(), BadField> {
        let Self { values, validity, nulls, parse, keeps_zeros, keeps_digits, .. } = self;
        let loses =
            |field: &[u8]| *keeps_zeros && parse::begins_with_zeros(field) || *keeps_digits && parse::is_rounded(field);
        let mut scratch = Vec::new();
        // The number of rows since the last NULL; appending them together is cheaper.
        let mut valid = 0;
        for row in rows {
            let span = fields.span(row);
            let field = fields.field(span, &mut scratch);
            let Some(field) = field.filter(|f| !nulls.is_null(fields, span, f.bytes)) else {
                nulls.check(field.map(|f| f.bytes), span)?;
                validity.append_n_non_nulls(valid);
                validity.append_null();
                valid = 0;
                values.push(T::default_value());
                continue;
            };
            let value = parse(field).filter(|_| !loses(field.bytes));
            values.push(value.ok_or(BadField { span, null: false })?);
            valid += 1;
        }
        validity.append_n_non_nulls(valid);
        Ok(())
    }
}

impl<T, P> ColumnBuilder for Primitives<T, P>
where
    T: ArrowPrimitiveType,
    P: Fn(FieldBytes<'_>) -> Option<T::Native> + Send,
{
    fn append(&mut self, fields: &FieldColumn<'_>) -> Result<(), BadField> {
        let all = fields.len();
        self.values.reserve(if self.values.is_empty() { all.max(self.capacity) } else { all });
        let mut row = 0;
        if let Some(usual) = self.usual {
            while row + GROUP <= all {
                let (numbers, others) = usual.numbers(fields, row);
                if others.count_ones() as usize > GROUP / 2 {
                    // The next groups are likely to need the general rule, too.
                    break;
                }
                if others == 0 {
                    self.values.extend(numbers.map(|number| T::Native::usize_as(number as usize)));
                    self.validity.append_n_non_nulls(GROUP);
                } else {
                    for (number, value) in numbers.into_iter().enumerate() {
                        if others >> number & 1 == 1 {
                            self.append_rows(fields, row + number..row + number + 1)?;
                        } else {
                            self.values.push(T::Native::usize_as(value as usize));
                            self.validity.append_non_null();
                        }
                    }
                }
                row += GROUP;
            }
        }
        self.append_rows(fields, row..all)
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        self.capacity = self.values.len();
        let values = ScalarBuffer::from(std::mem::take(&mut self.values));
        let array = PrimitiveArray::<T>::try_new(values, self.validity.finish())?;
        Ok(Arc::new(array.with_data_type(self.data_type.clone())))
    }
}

struct Booleans {
    values: BooleanBuilder,
    nulls: Nulls,
    spelling: Spelling,
}

impl ColumnBuilder for Booleans {
    fn append(&mut self, fields: &FieldColumn<'_>) -> Result<(), BadField> {
        use arrow::array::AsArray;
        let Self { values, nulls, spelling } = self;
        let mut scratch = Vec::new();
        for row in 0..fields.len() {
            let span = fields.span(row);
            let field = fields.bytes(span, &mut scratch);
            let Some(field) = field.filter(|f| !nulls.is_null(fields, span, f)) else {
                nulls.check(field, span)?;
                values.append_null();
                continue;
            };
            let value = parse::boolean(field).or_else(|| match spelling {
                Spelling::Declared | Spelling::Inferred => None,
                Spelling::Cast => Some(arrow_cast(field, &DataType::Boolean)?.as_boolean().value(0)),
            });
            values.append_value(value.ok_or(BadField { span, null: false })?);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(self.values.finish()))
    }
}

pub(crate) struct Text<O: OffsetSizeTrait> {
    bytes: Vec<u8>,
    ends: Vec<O>,
    validity: NullBufferBuilder,
    nulls: Nulls,
    /// The rows and bytes of the last batch, which are the initial capacity for the next one.
    capacity: (usize, usize),
}

impl<O: OffsetSizeTrait> Text<O> {
    fn new(nulls: Nulls) -> Self {
        Self { bytes: vec![], ends: vec![O::zero()], validity: NullBufferBuilder::new(0), nulls, capacity: (0, 0) }
    }

    fn take(&mut self) -> Result<GenericStringArray<O>, ArrowError> {
        self.capacity = (self.ends.len(), self.bytes.len());
        let ends = std::mem::replace(&mut self.ends, vec![O::zero()]);
        let bytes = std::mem::take(&mut self.bytes);
        GenericStringArray::try_new(OffsetBuffer::new(ends.into()), Buffer::from(bytes), self.validity.finish())
    }
}

impl<O: OffsetSizeTrait> ColumnBuilder for Text<O> {
    fn append(&mut self, fields: &FieldColumn<'_>) -> Result<(), BadField> {
        let Self { bytes, ends, validity, nulls, capacity } = self;
        if ends.len() == 1 {
            ends.reserve(fields.len().max(capacity.0));
            bytes.reserve(capacity.1);
        }
        let before = bytes.len();
        let mut scratch = Vec::new();
        let mut valid = 0;
        for row in 0..fields.len() {
            let span = fields.span(row);
            let field = fields.bytes(span, &mut scratch);
            match field.filter(|f| !nulls.is_null(fields, span, f)) {
                Some(field) => {
                    fields.copy(span, field, bytes);
                    valid += 1;
                }
                None => {
                    nulls.check(field, span)?;
                    validity.append_n_non_nulls(valid);
                    validity.append_null();
                    valid = 0;
                }
            }
            // Batches are cut long before offsets overflow, see `limits::MAX_BATCH_TEXT_BYTES`.
            ends.push(O::usize_as(bytes.len()));
        }
        validity.append_n_non_nulls(valid);
        // One validation of all fields is much cheaper than one per field. Fields are validated one
        // by one only if it fails.
        if bytes.get(before..).is_some_and(<[u8]>::is_ascii) {
            return Ok(());
        }
        for row in 0..fields.len() {
            let span = fields.span(row);
            if fields.bytes(span, &mut scratch).is_some_and(|field| std::str::from_utf8(field).is_err()) {
                return Err(BadField { span, null: false });
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(self.take()?))
    }

    fn text_bytes(&self) -> usize {
        self.bytes.len()
    }
}

/// Builds views, from plain text, when the array is taken: Arrow shares the bytes and does not
/// validate them again.
struct TextViews(Text<i32>);

impl ColumnBuilder for TextViews {
    fn append(&mut self, fields: &FieldColumn<'_>) -> Result<(), BadField> {
        self.0.append(fields)
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(StringViewArray::from(&self.0.take()?)))
    }

    fn text_bytes(&self) -> usize {
        self.0.text_bytes()
    }
}

/// Types without a decoder: text is collected and cast strictly with Arrow, group by group, so that
/// a bad field can be found.
struct Casted {
    nulls: Nulls,
    data_type: DataType,
    groups: Vec<ArrayRef>,
    text_bytes: usize,
}

impl ColumnBuilder for Casted {
    fn append(&mut self, fields: &FieldColumn<'_>) -> Result<(), BadField> {
        let mut text = Text::<i32>::new(self.nulls.clone());
        text.append(fields)?;
        self.text_bytes += text.text_bytes();
        let options = CastOptions { safe: false, ..Default::default() };
        let group = text.take().and_then(|text| cast_with_options(&text, &self.data_type, &options));
        if let Ok(group) = group {
            self.groups.push(group);
            return Ok(());
        }
        // Finds the bad field. If none fails alone, the first one is reported.
        let mut scratch = Vec::new();
        let fails = |row: &usize| {
            let span = fields.span(*row);
            let field = fields.bytes(span, &mut scratch).filter(|f| !self.nulls.is_null(fields, span, f));
            field.is_some_and(|field| arrow_cast(field, &self.data_type).is_none())
        };
        let row = (0..fields.len()).find(fails).unwrap_or_default();
        Err(BadField { span: fields.span(row), null: false })
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        self.text_bytes = 0;
        let groups = std::mem::take(&mut self.groups);
        match groups.len() {
            0 => Ok(new_empty_array(&self.data_type)),
            _ => concat(&groups.iter().map(AsRef::as_ref).collect::<Vec<_>>()),
        }
    }

    fn text_bytes(&self) -> usize {
        self.text_bytes
    }
}
