//! Functions of texts that DataFusion lacks: `printf`, `format`, `string_split`, `url_encode`,
//! `url_decode`, `format_bytes`.

mod printf;
mod sizes;
mod urls;

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, ListBuilder, StringBuilder};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::ScalarUDF;

use super::simple::Simple;

/// Returns the functions of these modules.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    let split = Simple {
        name: "string_split",
        takes: |types| match types {
            [_, _] if types.iter().all(|own| own.is_string() || own.is_null()) => Ok(vec![DataType::Utf8; 2]),
            _ => plan_err!("string_split takes a text and a delimiter"),
        },
        returns: |_| Ok(DataType::new_list(DataType::Utf8, true)),
        compute: split,
        simplify: None,
    };
    let mut all = printf::functions();
    all.push(split.function());
    all.extend(urls::functions());
    all.push(sizes::function());
    all
}

/// Returns the parts of each text between delimiters; its characters if the delimiter is empty.
fn split(args: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let [texts, delimiters] = args else { return plan_err!("string_split takes a text and a delimiter") };
    let mut lists = ListBuilder::new(StringBuilder::new());
    for (text, delimiter) in texts.as_string::<i32>().iter().zip(delimiters.as_string::<i32>()) {
        let (Some(text), Some(delimiter)) = (text, delimiter) else {
            lists.append(false);
            continue;
        };
        match delimiter {
            "" => text.chars().for_each(|c| lists.values().append_value(c.encode_utf8(&mut [0; 4]))),
            _ => text.split(delimiter).for_each(|part| lists.values().append_value(part)),
        }
        lists.append(true);
    }
    Ok(Arc::new(lists.finish()))
}
