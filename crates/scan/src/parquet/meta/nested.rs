//! Nested columns: the member of a struct, the element of a list, the value of a map.
//!
//! A declared field with a `path` in its metadata, such as `"a"."b"[0]`, is the value at that path.
//! The first name is a column of the file. The value is NULL if it does not exist, because the list
//! of a row is too short or a struct is NULL. Values keep their types.

use arrow::array::{Array, ArrayRef, AsArray, OffsetSizeTrait, UInt32Array, make_array};
use arrow::buffer::NullBuffer;
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Field};
use pushdowndb_contract::{Error, Result};

use crate::error::from_arrow;
use crate::values::json::{Key, Step, parse_path};

/// The key of the field metadata that contains the path.
const PATH: &str = "path";

/// The place of a declared field in the file.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The column of the file.
    pub(crate) root: String,
    /// The path inside it.
    steps: Vec<Step>,
}

impl Place {
    pub(crate) fn of(field: &Field) -> Result<Self> {
        let Some(path) = field.metadata().get(PATH) else {
            return Ok(Self { root: field.name().clone(), steps: Vec::new() });
        };
        let steps = parse_path(path).unwrap_or_default();
        match steps.split_first() {
            Some((Step::Key(root), steps)) => Ok(Self { root: root.name().to_owned(), steps: steps.to_vec() }),
            _ => Err(Error::invalid(format!("'{path}' is no path into Parquet"))),
        }
    }

    /// Returns whether the field is a top-level column of the file.
    pub(crate) fn is_root(field: &Field) -> bool {
        !field.metadata().contains_key(PATH)
    }

    /// Returns the values at the path inside the column `root`.
    pub(crate) fn find(&self, root: &ArrayRef) -> Result<ArrayRef> {
        self.steps.iter().try_fold(root.clone(), |array, step| match step {
            Step::Key(key) => member(&array, key),
            Step::Index(index) => element(&array, *index),
        })
    }
}

fn member(array: &ArrayRef, key: &Key) -> Result<ArrayRef> {
    if let Some(map) = array.as_map_opt() {
        let keys = cast(map.keys(), &DataType::Utf8).map_err(from_arrow)?;
        let keys = keys.as_string::<i32>();
        let rows = map.offsets().windows(2).enumerate().map(|(row, bounds)| match bounds {
            &[start, end] if map.is_valid(row) => {
                // If two keys are equal, the last one counts.
                let mut entries = (start as usize..end as usize).rev();
                entries
                    .find(|at| keys.is_valid(*at) && key.means(keys.value(*at)))
                    .and_then(|at| u32::try_from(at).ok())
            }
            _ => None,
        });
        return take(map.values(), &rows.collect::<UInt32Array>(), None).map_err(from_arrow);
    }
    let unknown = || Error::invalid(format!("{} has no member \"{}\"", array.data_type(), key.name()));
    let object = array.as_struct_opt().ok_or_else(unknown)?;
    let index = object.fields().iter().position(|field| key.means(field.name())).ok_or_else(unknown)?;
    let column = object.columns().get(index).ok_or_else(unknown)?;
    let nulls = NullBuffer::union(object.nulls(), column.nulls());
    let data = column.to_data().into_builder().nulls(nulls).build().map_err(from_arrow)?;
    Ok(make_array(data))
}

fn element(array: &ArrayRef, index: usize) -> Result<ArrayRef> {
    fn of<O: OffsetSizeTrait>(list: &arrow::array::GenericListArray<O>, index: usize) -> UInt32Array {
        let place = |(row, bounds): (usize, &[O])| {
            let (start, end) = (bounds.first()?.as_usize(), bounds.last()?.as_usize());
            let at = start.checked_add(index).filter(|at| *at < end && list.is_valid(row))?;
            u32::try_from(at).ok()
        };
        list.value_offsets().windows(2).enumerate().map(place).collect()
    }
    let (values, rows) = if let Some(list) = array.as_list_opt::<i32>() {
        (list.values(), of(list, index))
    } else if let Some(list) = array.as_list_opt::<i64>() {
        (list.values(), of(list, index))
    } else if let Some(list) = array.as_fixed_size_list_opt() {
        let length = usize::try_from(list.value_length()).unwrap_or_default();
        let at = |row: usize| (index < length && list.is_valid(row)).then(|| (row * length + index) as u32);
        (list.values(), (0..list.len()).map(at).collect())
    } else {
        return Err(Error::invalid(format!("{} has no elements", array.data_type())));
    };
    take(values, &rows, None).map_err(from_arrow)
}
