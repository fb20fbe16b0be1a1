//! View arrays (`Utf8View`, `BinaryView`) and their buffers.
//!
//! The values of a view array lie in buffers that the array lists. Rows that are taken from it keep
//! all of these buffers, and its whole list.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, make_array};
use arrow::datatypes::DataType;
use datafusion_common::Result;

/// Returns `array` with its string and binary views copied; `None` if it has no views.
pub(crate) fn with_own_views(array: &ArrayRef) -> Result<Option<ArrayRef>> {
    Ok(match array.data_type() {
        DataType::Utf8View => Some(Arc::new(array.as_string_view().gc())),
        DataType::BinaryView => Some(Arc::new(array.as_binary_view().gc())),
        data_type if !data_type.is_nested() => None,
        _ => {
            let data = array.to_data();
            let mut changed = false;
            let mut children = Vec::with_capacity(data.child_data().len());
            for child in data.child_data() {
                let own = with_own_views(&make_array(child.clone()))?;
                changed |= own.is_some();
                children.push(own.map_or_else(|| child.clone(), |own| own.to_data()));
            }
            match changed {
                true => Some(make_array(data.into_builder().child_data(children).build()?)),
                false => None,
            }
        }
    })
}
