//! The pages of a column chunk.
//!
//! This replaces the library's page reader, because the claims of a page must be checked first
//! ([`crate::parquet::meta::bounds_check`]), because some pages may not have been fetched, and
//! because the dictionary is needed before any page is decoded.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use ::parquet::basic::{Encoding, Type};
use ::parquet::column::page::{Page, PageMetadata, PageReader};
use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::metadata::ColumnChunkMetaData;
use ::parquet::schema::types::ColumnDescPtr;
use bytes::Bytes;

use crate::parquet::errors::check_interrupt;
use crate::parquet::meta::bounds_check::{check_dictionary, check_values};
use crate::parquet::read::chunk_bytes::ChunkBytes;
use crate::parquet::read::codec::Codec;
use crate::parquet::read::header::{PageHeader, PageKind, is_dictionary};
use crate::parquet::read::page_memory::{PageMemory, broken, dictionary_bytes};
use crate::parquet::read::page_place::{PagePlace, chunk_range};
use crate::runtime::memory::Reservation;

/// The maximum bytes to which the levels and values of the lists of a column chunk may expand, and
/// the additional maximum per stored byte. A list is in memory as a whole, and a run of levels
/// takes almost no space in a file.
const MAX_LIST_BYTES: u64 = 256 << 20;
const MAX_LIST_BYTES_PER_BYTE: u64 = 64;

/// The maximum size of pages that are decompressed into pooled buffers, in bytes.
const USUAL_PAGE_BYTES: usize = 4 * 1024 * 1024;

/// The next page of a column chunk, some of whose pages may not have been fetched.
pub(crate) enum Next {
    Page(Page),
    /// The next pages were not fetched: the number of their rows.
    Missing(usize),
}

/// Reads the pages of a column chunk, in order.
pub(crate) struct Pages {
    chunk: ChunkBytes,
    column: ColumnDescPtr,
    codec: Codec,
    memory: PageMemory,
    /// Memory for the decoded dictionary, and for the values of pages. The latter may be shared
    /// with other columns.
    of_dictionary: Reservation,
    of_values: Arc<Reservation>,
    is_shared: bool,
    /// The maximum size of a page, compressed or not.
    page_bytes: u64,
    /// The offset of the next page, and the end of the chunk.
    at: u64,
    end: u64,
    /// The header of the next page, if it was already read; `at` is then the offset after the
    /// header.
    peeked: Option<PageHeader>,
    /// The locations of the remaining data pages, if the file has a page index.
    places: Option<VecDeque<PagePlace>>,
    /// The dictionary, until it was returned as a page.
    dictionary: Option<Page>,
    /// The length of the longest value of the dictionary, in bytes.
    pub(crate) longest: usize,
    /// For lists: the bytes to which levels and values have expanded so far, and the bytes of pages
    /// read.
    expanded: u64,
    read: u64,
}

impl Pages {
    /// Opens the chunk `of`, of which the bytes `chunk` were fetched. Reads its dictionary, if it
    /// has one.
    pub(crate) fn new(
        of: &ColumnChunkMetaData,
        chunk: ChunkBytes,
        places: Option<Vec<PagePlace>>,
        page_bytes: u64,
        memory: PageMemory,
    ) -> Result<Self> {
        let Range { start, end } = chunk_range(of)?;
        let mut pages = Self {
            chunk,
            column: of.column_descr_ptr(),
            codec: Codec::new(of.compression())?,
            of_dictionary: memory.budget().empty(),
            of_values: Arc::new(memory.budget().empty()),
            is_shared: false,
            memory,
            page_bytes,
            at: start,
            end,
            peeked: None,
            places: places.map(VecDeque::from),
            dictionary: None,
            longest: 0,
            expanded: 0,
            read: 0,
        };
        let has_dictionary = match pages.places.as_ref().map(VecDeque::front) {
            Some(first) => first.is_some_and(|first| first.bytes.start > start) && pages.may_refer_to_dictionary(),
            None => matches!(pages.peek()?, Some(PageHeader { kind: PageKind::Dictionary { .. }, .. })),
        };
        if has_dictionary {
            let header = pages.header(start)?;
            pages.peeked = None;
            pages.at = start + header.bytes as u64;
            if let page @ Page::DictionaryPage { .. } = pages.page(header)? {
                // Decoders copy the dictionary, and create a view for each value.
                let grown = pages.of_dictionary.grow(dictionary_bytes(&page));
                grown.map_err(|shortage| pages.memory.refuse(shortage))?;
                pages.dictionary = Some(page);
            }
        }
        Ok(pages)
    }

    /// Makes pages reserve their values in a reservation that columns decoded together share. It is
    /// released with each batch.
    pub(crate) fn sharing(self, of_values: &Arc<Reservation>) -> Self {
        Self { of_values: Arc::clone(of_values), is_shared: true, ..self }
    }

    fn reserve_values(&self, bytes: usize) -> Result<()> {
        match self.is_shared {
            true => self.of_values.grow(bytes),
            false => self.of_values.resize(bytes),
        }
        .map_err(|shortage| self.memory.refuse(shortage))
    }

    /// Returns whether one of the available pages may need the dictionary. If the dictionary became
    /// too large, later pages are plain.
    fn may_refer_to_dictionary(&self) -> bool {
        let mut pages = self.places.iter().flatten().filter(|place| self.chunk.holds(&place.bytes)).peekable();
        let refers = |place: &PagePlace| match self.header(place.bytes.start).map(|header| header.kind) {
            Ok(PageKind::Data { encoding, .. } | PageKind::DataV2 { encoding, .. }) => is_dictionary(encoding),
            // The header is damaged, which will be found when the page is read.
            _ => true,
        };
        pages.peek().is_none() || pages.any(refers)
    }

    /// Returns the dictionary, if there is one and it was not yet returned as a page.
    pub(crate) fn dictionary(&self) -> Option<&Page> {
        self.dictionary.as_ref()
    }

    pub(crate) fn dictionary_values(&self) -> usize {
        match &self.dictionary {
            Some(Page::DictionaryPage { num_values, .. }) => *num_values as usize,
            _ => 0,
        }
    }

    /// Returns the next page, or, if the next pages were not fetched, the number of their rows.
    pub(crate) fn next_fetched(&mut self) -> Result<Option<Next>> {
        let mut missing = 0;
        while let Some(place) = self.places.as_mut().and_then(|places| {
            places.pop_front_if(|place| self.dictionary.is_none() && !self.chunk.holds(&place.bytes))
        }) {
            missing += place.rows.len();
        }
        if missing > 0 {
            return Ok(Some(Next::Missing(missing)));
        }
        Ok(self.get_next_page()?.map(Next::Page))
    }

    /// Returns whether all data pages are dictionary-encoded, judged by their headers alone.
    pub(crate) fn is_dictionary_only(&self) -> Result<bool> {
        self.are_all(is_dictionary)
    }

    /// Returns whether `of_kind` accepts the encodings of all data pages, and their levels have a
    /// current encoding. Only headers are read.
    pub(crate) fn are_all(&self, of_kind: impl Fn(Encoding) -> bool) -> Result<bool> {
        let has_levels = self.column.max_def_level() > 0;
        let of_kind = |header: &PageHeader| match header.kind {
            PageKind::Data { encoding, definition, .. } => {
                of_kind(encoding) && (!has_levels || definition == Encoding::RLE)
            }
            PageKind::DataV2 { encoding, .. } => of_kind(encoding),
            PageKind::Dictionary { .. } | PageKind::Other => true,
        };
        if let Some(places) = &self.places {
            for place in places.iter().filter(|place| self.chunk.holds(&place.bytes)) {
                if !of_kind(&self.header(place.bytes.start)?) {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        let mut at = self.at;
        if let Some(next) = &self.peeked {
            if !of_kind(next) {
                return Ok(false);
            }
            at = at.saturating_add(next.stored as u64);
        }
        while at < self.end {
            let header = self.header(at)?;
            if !of_kind(&header) {
                return Ok(false);
            }
            at = at.saturating_add((header.bytes + header.stored) as u64);
        }
        Ok(true)
    }

    fn header(&self, at: u64) -> Result<PageHeader> {
        self.chunk.header(at, self.end)
    }

    /// Reads the header of the next data page, in a chunk without page locations.
    fn peek(&mut self) -> Result<Option<&PageHeader>> {
        while self.peeked.is_none() && self.at < self.end {
            let header = self.header(self.at)?;
            self.at += header.bytes as u64;
            if header.kind == PageKind::Other {
                self.at += header.stored as u64;
            } else {
                self.peeked = Some(header);
            }
        }
        Ok(self.peeked.as_ref())
    }

    /// Reads the page with this header, whose bytes begin at `self.at`, and moves past it.
    fn page(&mut self, header: PageHeader) -> Result<Page> {
        check_interrupt()?;
        let at = self.at;
        self.at = at.saturating_add(header.stored as u64);
        let stored = at..self.at;
        let largest = header.stored.max(header.uncompressed) as u64;
        if largest > self.page_bytes {
            let most = self.page_bytes;
            return Err(ParquetError::General(format!("a page has {largest} bytes, at most {most} are read")));
        }
        let page = match header.kind {
            PageKind::Dictionary { values, encoding, sorted } => {
                let buf = self.decompress(&self.stored(stored)?, 0, header.uncompressed)?;
                self.longest = check_dictionary(&self.column, values, &buf)?;
                Page::DictionaryPage { buf, num_values: values, encoding, is_sorted: sorted }
            }
            PageKind::Data { values, encoding, definition, repetition } => {
                let buf = self.decompressed(stored, 0, header.uncompressed)?;
                let listed = self.check_lists(values, buf.len())?;
                let levels = [(self.column.max_rep_level(), repetition), (self.column.max_def_level(), definition)];
                let mut rest: &[u8] = &buf;
                for (_, encoding) in levels.into_iter().filter(|(most, _)| *most > 0) {
                    rest = past_levels(rest, encoding).unwrap_or_default();
                }
                let expanded = check_values(encoding, values, rest)?;
                self.reserve_values(expanded.max(buf.len()).saturating_add(listed))?;
                Page::DataPage {
                    buf,
                    num_values: values,
                    encoding,
                    def_level_encoding: definition,
                    rep_level_encoding: repetition,
                    statistics: None,
                }
            }
            PageKind::DataV2 { values, nulls, rows, encoding, definition_bytes, repetition_bytes, compressed } => {
                let levels = definition_bytes as usize + repetition_bytes as usize;
                let buf = match compressed {
                    true => self.decompressed(stored, levels, header.uncompressed)?,
                    false => self.stored(stored)?,
                };
                let rest = buf.get(levels..).ok_or_else(|| broken("has more levels than bytes"))?;
                if nulls > values || rows > values {
                    return Err(broken("claims more NULLs or rows than values"));
                }
                let expanded = check_values(encoding, values, rest)?;
                let listed = self.check_lists(values, buf.len())?;
                self.reserve_values(expanded.max(buf.len()).saturating_add(listed))?;
                Page::DataPageV2 {
                    buf,
                    num_values: values,
                    encoding,
                    num_nulls: nulls,
                    num_rows: rows,
                    def_levels_byte_len: definition_bytes,
                    rep_levels_byte_len: repetition_bytes,
                    is_compressed: compressed,
                    statistics: None,
                }
            }
            PageKind::Other => return Err(ParquetError::NYI("a page of an unknown kind".into())),
        };
        Ok(page)
    }

    /// Returns the stored bytes of this range of the chunk.
    fn stored(&self, at: Range<u64>) -> Result<Bytes> {
        let stored = if at.end <= self.end { self.chunk.page(at, &self.memory)? } else { None };
        stored.ok_or_else(|| broken("is longer than its column chunk"))
    }

    /// Like [`Self::decompress`], for the bytes stored in this range. Uses the cache of
    /// decompressed pages.
    fn decompressed(&mut self, stored: Range<u64>, plain: usize, uncompressed: usize) -> Result<Bytes> {
        let at = stored.start;
        if let Some(page) = self.chunk.kept_page(at) {
            return Ok(page);
        }
        let page = self.decompress(&self.stored(stored)?, plain, uncompressed)?;
        self.chunk.keep(at, &page);
        Ok(page)
    }

    /// Decompresses a page, the first `plain` bytes of which are not compressed.
    fn decompress(&mut self, stored: &Bytes, plain: usize, uncompressed: usize) -> Result<Bytes> {
        if self.codec.is_none() {
            return Ok(stored.clone());
        }
        let (levels, compressed) =
            stored.split_at_checked(plain).ok_or_else(|| broken("has more levels than bytes"))?;
        if uncompressed > USUAL_PAGE_BYTES {
            return self.codec.decompress_large(levels, compressed, uncompressed, &self.memory);
        }
        let mut room = self.memory.room(uncompressed, 0)?;
        let whole = room.as_mut();
        let (first, last) = whole.split_at_mut_checked(plain).ok_or_else(|| broken("has more levels than bytes"))?;
        first.copy_from_slice(levels);
        self.codec.decompress(compressed, last)?;
        Ok(room.freeze())
    }

    /// Checks the expansion of lists so far, and returns the bytes to which these values expand.
    fn check_lists(&mut self, values: u32, bytes: usize) -> Result<usize> {
        if self.column.max_rep_level() == 0 {
            return Ok(0);
        }
        // Two levels of two bytes each, and a value or its code.
        let width = match self.column.physical_type() {
            Type::FIXED_LEN_BYTE_ARRAY => u64::try_from(self.column.type_length()).unwrap_or_default(),
            _ => 16,
        };
        let listed = u64::from(values).saturating_mul(width.saturating_add(4));
        self.expanded = self.expanded.saturating_add(listed);
        self.read += bytes as u64;
        if self.expanded > MAX_LIST_BYTES.saturating_add(self.read.saturating_mul(MAX_LIST_BYTES_PER_BYTE)) {
            return Err(broken("claims more list elements than are read"));
        }
        Ok(usize::try_from(listed).unwrap_or(usize::MAX))
    }
}

/// Returns the bytes after the levels of a version 1 page; `None` if the library will find the
/// levels invalid, too.
fn past_levels(page: &[u8], encoding: Encoding) -> Option<&[u8]> {
    if encoding != Encoding::RLE {
        // Bit-packed levels are older than all encodings that are checked, so they do not occur
        // with them.
        return None;
    }
    let (length, rest) = page.split_first_chunk::<4>()?;
    rest.get(u32::from_le_bytes(*length) as usize..)
}

impl std::fmt::Debug for Pages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pages").field("column", &self.column).field("at", &self.at).finish_non_exhaustive()
    }
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        if let Some(dictionary) = self.dictionary.take() {
            return Ok(Some(dictionary));
        }
        let Some(places) = &mut self.places else {
            self.peek()?;
            return self.peeked.take().map(|header| self.page(header)).transpose();
        };
        let Some(place) = places.pop_front() else { return Ok(None) };
        let header = self.header(place.bytes.start)?;
        self.at = place.bytes.start + header.bytes as u64;
        self.page(header).map(Some)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        if self.dictionary.is_some() {
            return Ok(Some(PageMetadata { num_rows: None, num_levels: None, is_dict: true }));
        }
        if let Some(places) = &self.places {
            let rows = |place: &PagePlace| Some(place.rows.len());
            return Ok(places.front().map(|place| PageMetadata {
                num_rows: rows(place),
                num_levels: None,
                is_dict: false,
            }));
        }
        Ok(self.peek()?.map(|header| match header.kind {
            PageKind::DataV2 { values, rows, .. } => {
                PageMetadata { num_rows: Some(rows as usize), num_levels: Some(values as usize), is_dict: false }
            }
            PageKind::Data { values, .. } => {
                PageMetadata { num_rows: None, num_levels: Some(values as usize), is_dict: false }
            }
            PageKind::Dictionary { .. } | PageKind::Other => {
                PageMetadata { num_rows: None, num_levels: None, is_dict: true }
            }
        }))
    }

    fn skip_next_page(&mut self) -> Result<()> {
        if self.dictionary.take().is_some() {
            return Ok(());
        }
        match &mut self.places {
            Some(places) => drop(places.pop_front()),
            None => {
                self.peek()?;
                if let Some(header) = self.peeked.take() {
                    self.at += header.stored as u64;
                }
            }
        }
        Ok(())
    }

    /// With page locations, every page begins with a row.
    fn at_record_boundary(&mut self) -> Result<bool> {
        if self.places.is_some() {
            return Ok(true);
        }
        Ok(self.peek_next_page()?.is_none_or(|page| page.num_rows.is_some()))
    }
}

#[cfg(test)]
mod tests {
    use ::parquet::arrow::ArrowWriter;
    use ::parquet::file::metadata::ParquetMetaDataReader;
    use ::parquet::file::properties::WriterProperties;
    use arrow::array::{Int64Array, RecordBatch};

    use super::*;
    use crate::io::buffer_pool::BlockBuffers;
    use crate::parquet::read::chunk_bytes::Stored;
    use crate::runtime::memory::MemoryBudget;

    /// The pages of 10,000 numbers, with a thousand in each page, in a file without a page index.
    fn pages(encoding: Encoding) -> Pages {
        let values = Int64Array::from_iter_values(0..10_000);
        let batch = RecordBatch::try_from_iter([("a", Arc::new(values) as _)]).unwrap();
        let properties = WriterProperties::builder()
            .set_dictionary_enabled(false)
            .set_encoding(encoding)
            .set_data_page_row_count_limit(1000)
            .set_write_batch_size(1000)
            .set_offset_index_disabled(true)
            .build();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        let file = Bytes::from(writer.into_inner().unwrap());
        let footer = ParquetMetaDataReader::new().parse_and_finish(&file).unwrap();
        let of = footer.row_group(0).column(0);
        let chunk = ChunkBytes::new(vec![(0, Stored::Fetched(file))]);
        let memory = PageMemory::new(BlockBuffers::new(0, 4), MemoryBudget::unbounded());
        Pages::new(of, chunk, None, 1 << 20, memory).unwrap()
    }

    #[test]
    fn the_first_page_counts_where_there_is_no_dictionary() {
        for encoding in [Encoding::PLAIN, Encoding::DELTA_BINARY_PACKED] {
            let pages = pages(encoding);
            assert!(pages.are_all(|other| other == encoding).unwrap());
            assert!(!pages.are_all(|other| other != encoding).unwrap());
            assert!(!pages.is_dictionary_only().unwrap());
            let read: usize = pages.map(|page| page.unwrap().num_values() as usize).sum();
            assert_eq!(read, 10_000);
        }
    }

    #[test]
    fn pages_larger_than_allowed_are_not_read() {
        let mut pages = pages(Encoding::PLAIN);
        pages.page_bytes = 7_000;
        let error = pages.get_next_page().unwrap_err().to_string();
        assert!(error.contains("at most 7000 are read"), "{error}");
    }
}
