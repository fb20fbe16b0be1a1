//! Evaluation of a condition on one column, page by page and without decoding rows.
//!
//! A dictionary-encoded column chunk has a code for each row. A condition that reads only this
//! column is evaluated on the dictionary, and the result for each row is looked up by its code. If
//! no value of the dictionary matches, no row does. If a dictionary became too large, plain pages
//! follow; they are searched if they are text ([`crate::parquet::decode::text_search`]).

use ::parquet::basic::Encoding;
use ::parquet::errors::{ParquetError, Result};
use ::parquet::schema::types::ColumnDescriptor;
use arrow::array::BooleanBufferBuilder;
use arrow::buffer::BooleanBuffer;

use crate::parquet::decode::levels::{FlatPage, look_up};
use crate::parquet::read::header::is_dictionary;
use crate::parquet::read::pages::{Next, Pages};

/// The results of a condition for each value of a dictionary, and for NULL.
pub(crate) struct Answers {
    /// For each code, 1 if its value matches, and otherwise 0.
    pub(crate) values: Vec<u8>,
    pub(crate) null: bool,
}

impl Answers {
    /// Returns whether any row may match.
    pub(crate) fn any(&self, column: &ColumnDescriptor) -> bool {
        self.values.contains(&1) || (self.null && column.max_def_level() > 0)
    }
}

/// A function that evaluates a condition on `count` values of a plain page. NULL does not match.
pub(crate) type OfValues<'a> = &'a dyn Fn(&[u8], usize) -> Result<BooleanBuffer>;

/// Returns whether each of `rows` rows matches; FALSE for rows of pages that were not fetched.
/// Returns `None` if neither `answers` nor `of_values` can decide some page.
pub(crate) fn decide(
    mut pages: Pages,
    column: &ColumnDescriptor,
    answers: Option<&Answers>,
    of_values: Option<OfValues<'_>>,
    rows: usize,
) -> Result<Option<BooleanBuffer>> {
    let mut found = BooleanBufferBuilder::new(rows);
    while let Some(next) = pages.next_fetched()? {
        let page = match next {
            Next::Missing(missing) => {
                found.append_n(missing, false);
                continue;
            }
            Next::Page(page) if page.is_data_page() => page,
            Next::Page(_) => continue,
        };
        let Some(page) = FlatPage::of(&page, column)? else { return Ok(None) };
        // Checked before anything is allocated.
        if found.len() + page.rows > rows {
            return Err(broken());
        }
        let valid = page.valid()?;
        let present = valid.as_ref().map_or(page.rows, BooleanBuffer::count_set_bits);
        let (own, null) = match (answers, of_values) {
            (Some(answers), _) if is_dictionary(page.encoding) => {
                (look_up(page.places()?, present, &answers.values)?, answers.null)
            }
            (_, Some(of_values)) if page.encoding == Encoding::PLAIN => (of_values(page.values(), present)?, false),
            _ => return Ok(None),
        };
        match valid {
            None => found.append_buffer(&own),
            Some(valid) => {
                let mut own = own.iter();
                valid.iter().for_each(|valid| {
                    found.append(if valid { own.next() == Some(true) } else { null });
                });
            }
        }
    }
    if found.len() == rows { Ok(Some(found.finish())) } else { Err(broken()) }
}

fn broken() -> ParquetError {
    ParquetError::General("pages with another number of rows than their row group".into())
}
