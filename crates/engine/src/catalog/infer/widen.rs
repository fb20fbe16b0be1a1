//! The type that holds the values of two types.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, TimeUnit};

/// Maximum precision of a decimal.
const DECIMAL_DIGITS: u8 = 38;

/// Returns the narrowest type that holds the values of `a` and of `b`; `None` if they have none in
/// common but text.
///
/// Floats and integers of more than 16 bits widen to DOUBLE, and so do floats and decimals.
/// Decimals that would need more than 38 digits get 38 and keep their scale. Timestamps without and
/// with a time zone widen to one with a time zone; those without are read as UTC. Fields of structs
/// are matched by name, and one that a struct lacks is NULL there. The names of list elements and
/// map entries are ignored.
pub(crate) fn widened(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType::{
        Binary, Date32, Date64, Decimal128, Float32, Float64, Int16, Int32, Int64, Map, Null, Struct, Time32, Time64,
        Timestamp, UInt64, Utf8,
    };
    Some(match (a, b) {
        _ if a == b => a.clone(),
        (Null, other) | (other, Null) => other.clone(),
        (DataType::Dictionary(_, values), other) | (other, DataType::Dictionary(_, values)) => {
            return widened(values, other);
        }
        _ if a.is_unsigned_integer() && b.is_unsigned_integer() => wider(a, b).clone(),
        _ if a.is_signed_integer() && b.is_signed_integer() => wider(a, b).clone(),
        (UInt64, other) | (other, UInt64) if other.is_signed_integer() => Decimal128(20, 0),
        _ if a.is_integer() && b.is_integer() => {
            let (signed, unsigned) = if a.is_signed_integer() { (a, b) } else { (b, a) };
            let next = match unsigned.primitive_width() {
                Some(1) => Int16,
                Some(2) => Int32,
                _ => Int64,
            };
            wider(signed, &next).clone()
        }
        _ if digits(a).is_some() && digits(b).is_some() => {
            let ((p, s), (q, t)) = (digits(a)?, digits(b)?);
            let scale = s.max(t);
            let whole = (i16::from(p) - i16::from(s)).max(i16::from(q) - i16::from(t));
            let all = u8::try_from(whole + i16::from(scale)).unwrap_or(DECIMAL_DIGITS);
            Decimal128(all.min(DECIMAL_DIGITS), scale)
        }
        _ if a.is_numeric() && b.is_numeric() => {
            // The mantissa of a FLOAT has 24 bits, enough for integers of up to 16 bits.
            let in_float = |of: &DataType| {
                matches!(of, Float32 | DataType::Float16) || of.is_integer() && of.primitive_width() <= Some(2)
            };
            if in_float(a) && in_float(b) { Float32 } else { Float64 }
        }
        (Date32 | Date64, Date32 | Date64) => Date32,
        (Date32 | Date64, Timestamp(unit, zone)) | (Timestamp(unit, zone), Date32 | Date64) => {
            Timestamp(*unit, zone.clone())
        }
        (Timestamp(u, zone), Timestamp(v, other)) => {
            let zone = match (zone, other) {
                (a, b) if a == b => a.clone(),
                (Some(zone), None) | (None, Some(zone)) if is_utc(zone) => Some(Arc::clone(zone)),
                _ => Some("UTC".into()),
            };
            Timestamp(finer(*u, *v), zone)
        }
        (Time32(u) | Time64(u), Time32(v) | Time64(v)) => match finer(*u, *v) {
            unit @ (TimeUnit::Second | TimeUnit::Millisecond) => Time32(unit),
            unit => Time64(unit),
        },
        (Struct(a), Struct(b)) => Struct(members(a, b)?),
        (Map(a, sorted), Map(b, also)) => {
            let (Struct(a), Struct(b)) = (a.data_type(), b.data_type()) else { return None };
            let ([key, value], [other_key, other_value]) = (a.as_ref(), b.as_ref()) else { return None };
            let key = Field::new("key", widened(key.data_type(), other_key.data_type())?, false);
            let value = Field::new("value", widened(value.data_type(), other_value.data_type())?, true);
            let entries = Field::new("entries", Struct(Fields::from(vec![key, value])), false);
            Map(Arc::new(entries), *sorted && *also)
        }
        _ if a.is_string() && b.is_string() => Utf8,
        _ if is_bytes(a) && is_bytes(b) => Binary,
        _ => {
            let item = widened(item(a)?.data_type(), self::item(b)?.data_type())?;
            DataType::List(Arc::new(Field::new_list_field(item, true)))
        }
    })
}

/// The wider of two integer types.
fn wider<'a>(a: &'a DataType, b: &'a DataType) -> &'a DataType {
    if a.primitive_width() >= b.primitive_width() { a } else { b }
}

/// Returns the precision and scale of an integer or decimal type; `None` for other types.
fn digits(data_type: &DataType) -> Option<(u8, i8)> {
    Some(match data_type {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => (*precision, *scale),
        DataType::Int8 | DataType::UInt8 => (3, 0),
        DataType::Int16 | DataType::UInt16 => (5, 0),
        DataType::Int32 | DataType::UInt32 => (10, 0),
        DataType::Int64 => (19, 0),
        DataType::UInt64 => (20, 0),
        _ => return None,
    })
}

/// Returns the fields of `a`, widened to hold those of the same name in `b`, then the fields of `b`
/// alone. Returns `None` if two have no common type.
fn members(a: &Fields, b: &Fields) -> Option<Fields> {
    let find = |all: &[FieldRef], name: &str| {
        let exact = all.iter().position(|field| field.name() == name);
        exact.or_else(|| {
            let mut alike = all.iter().enumerate().filter(|(_, field)| field.name().eq_ignore_ascii_case(name));
            alike.next().filter(|_| alike.next().is_none()).map(|(place, _)| place)
        })
    };
    let field = |name: &str, data_type: DataType| Arc::new(Field::new(name, data_type, true));
    let mut all: Vec<FieldRef> = a.iter().map(|own| field(own.name(), own.data_type().clone())).collect();
    let known = all.len();
    for other in b {
        // A name that `b` has in two letter cases is two fields.
        let place = find(all.get(..known)?, other.name()).filter(|place| {
            all.get(*place).is_some_and(|own| {
                own.name() == other.name()
                    || b.iter().filter(|o| o.name().eq_ignore_ascii_case(own.name())).count() == 1
            })
        });
        match place.and_then(|place| all.get_mut(place)) {
            Some(own) => *own = field(own.name(), widened(own.data_type(), other.data_type())?),
            None => all.push(field(other.name(), other.data_type().clone())),
        }
    }
    Some(all.into())
}

/// Returns the element of a list type in any layout; `None` for other types.
fn item(data_type: &DataType) -> Option<&FieldRef> {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => Some(item),
        _ => None,
    }
}

fn is_bytes(data_type: &DataType) -> bool {
    use DataType::{Binary, BinaryView, FixedSizeBinary, LargeBinary};
    matches!(data_type, Binary | LargeBinary | BinaryView | FixedSizeBinary(_))
}

fn is_utc(zone: &str) -> bool {
    matches!(zone, "UTC" | "Z" | "+00:00" | "Etc/UTC")
}

fn finer(a: TimeUnit, b: TimeUnit) -> TimeUnit {
    let order = [TimeUnit::Nanosecond, TimeUnit::Microsecond, TimeUnit::Millisecond, TimeUnit::Second];
    order.into_iter().find(|unit| *unit == a || *unit == b).unwrap_or(a)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same in either order.
    fn both(a: &DataType, b: &DataType) -> Option<DataType> {
        let common = widened(a, b);
        assert_eq!(common, widened(b, a), "{a} {b}");
        common
    }

    #[test]
    fn plain_types_widen() {
        use DataType::{
            Boolean, Date32, Decimal128, Float32, Float64, Int8, Int16, Int32, Int64, LargeUtf8, Null, Time32, Time64,
            Timestamp, UInt8, UInt16, UInt32, UInt64, Utf8, Utf8View,
        };
        use TimeUnit::{Microsecond, Millisecond, Nanosecond};
        let utc = || Some(Arc::from("UTC"));
        for (a, b, common) in [
            (Int32, Int64, Some(Int64)),
            (Int8, UInt8, Some(Int16)),
            (UInt16, Int8, Some(Int32)),
            (UInt32, Int64, Some(Int64)),
            (UInt64, UInt8, Some(UInt64)),
            (UInt64, Int64, Some(Decimal128(20, 0))),
            (Int64, Float64, Some(Float64)),
            (Int16, Float32, Some(Float32)),
            (Int32, Float32, Some(Float64)),
            (Float32, Float64, Some(Float64)),
            (Decimal128(10, 2), Decimal128(12, 5), Some(Decimal128(13, 5))),
            (Decimal128(38, 0), Decimal128(38, 10), Some(Decimal128(38, 10))),
            (Decimal128(10, 2), Int32, Some(Decimal128(12, 2))),
            (Decimal128(10, 2), Float32, Some(Float64)),
            (Utf8View, LargeUtf8, Some(Utf8)),
            (DataType::Dictionary(Box::new(Int32), Box::new(Utf8)), LargeUtf8, Some(Utf8)),
            (Null, Date32, Some(Date32)),
            (Date32, Timestamp(Millisecond, None), Some(Timestamp(Millisecond, None))),
            (Timestamp(Millisecond, None), Timestamp(Nanosecond, None), Some(Timestamp(Nanosecond, None))),
            (Timestamp(Millisecond, None), Timestamp(Microsecond, utc()), Some(Timestamp(Microsecond, utc()))),
            (
                Timestamp(Microsecond, Some("+02:00".into())),
                Timestamp(Microsecond, Some("+01:00".into())),
                Some(Timestamp(Microsecond, utc())),
            ),
            (Time32(Millisecond), Time64(Microsecond), Some(Time64(Microsecond))),
            (DataType::FixedSizeBinary(4), DataType::LargeBinary, Some(DataType::Binary)),
            (Int64, Utf8, None),
            (Boolean, Int64, None),
            (Utf8, DataType::Binary, None),
            (Date32, Int32, None),
        ] {
            assert_eq!(both(&a, &b), common, "{a} {b}");
        }
    }

    #[test]
    fn nested_types_widen() {
        let field = |name: &str, data_type| Field::new(name, data_type, true);
        let list = |name: &str, data_type| DataType::List(Arc::new(field(name, data_type)));
        let of = |fields: Vec<Field>| DataType::Struct(fields.into());
        assert_eq!(
            widened(&list("element", DataType::Int32), &DataType::LargeList(Arc::new(field("x", DataType::Float64)))),
            Some(list("item", DataType::Float64))
        );
        assert_eq!(
            widened(&list("item", DataType::Null), &list("item", DataType::Utf8)),
            Some(list("item", DataType::Utf8))
        );
        let a = of(vec![field("a", DataType::Int32), field("B", DataType::Utf8)]);
        let b = of(vec![field("b", DataType::Utf8), field("c", DataType::Date32), field("a", DataType::Int64)]);
        let both = of(vec![field("a", DataType::Int64), field("B", DataType::Utf8), field("c", DataType::Date32)]);
        assert_eq!(widened(&a, &b), Some(both.clone()));
        assert_eq!(widened(&list("x", a), &list("y", b)), Some(list("item", both)));
        let cases = of(vec![field("a", DataType::Int32), field("A", DataType::Utf8)]);
        let one = of(vec![field("a", DataType::Int32)]);
        assert_eq!(widened(&one, &cases), Some(cases.clone()));
        assert_eq!(widened(&cases, &one), Some(cases));
        let map = |key, value, names: [&str; 3]| {
            let entries = vec![Field::new(names[1], key, false), field(names[2], value)];
            DataType::Map(Arc::new(Field::new(names[0], DataType::Struct(entries.into()), false)), false)
        };
        assert_eq!(
            widened(
                &map(DataType::Utf8, DataType::Int32, ["key_value", "key", "value"]),
                &map(DataType::Utf8, DataType::Int64, ["entries", "keys", "values"])
            ),
            Some(map(DataType::Utf8, DataType::Int64, ["entries", "key", "value"]))
        );
        assert_eq!(widened(&list("item", DataType::Int32), &DataType::Int32), None);
    }
}
