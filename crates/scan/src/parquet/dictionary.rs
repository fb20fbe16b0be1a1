//! Deciding a condition on one column page by page, without decoding its rows.
//!
//! A column chunk with a dictionary holds the place of a value for each row. If a condition reads only that column, its
//! answer for a row is its answer for the value: so it is evaluated on the dictionary, and the places are looked up
//! there without ever becoming values. Where no value fulfils it, no row does. Where a dictionary became too large,
//! values of their own follow; those of text are searched ([`super::text_search`]).

use ::parquet::basic::Encoding;
use ::parquet::errors::{ParquetError, Result};
use ::parquet::schema::types::ColumnDescriptor;
use arrow::array::BooleanBufferBuilder;
use arrow::buffer::BooleanBuffer;

use super::flat::{FlatPage, is_dictionary, look_up};
use super::pages::{Next, Pages};

/// What a condition says of each value of a dictionary, and of NULL.
pub(super) struct Answers {
    /// By place in the dictionary: 1 where the value fulfils it, 0 where not.
    pub(super) values: Vec<u8>,
    pub(super) null: bool,
}

impl Answers {
    /// Whether a row may fulfil the condition at all.
    pub(super) fn any(&self, column: &ColumnDescriptor) -> bool {
        self.values.contains(&1) || (self.null && column.max_def_level() > 0)
    }
}

/// What a condition says of so many values of a plain page. It is not fulfilled by NULL.
pub(super) type OfValues<'a> = &'a dyn Fn(&[u8], usize) -> Result<BooleanBuffer>;

/// The answer for each of `rows` rows. Rows of pages that were not fetched get FALSE. `None` if there is a page that
/// neither the dictionary's `answers` nor `of_values` are about.
pub(super) fn decide(
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
        // Before room is made for as many.
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
