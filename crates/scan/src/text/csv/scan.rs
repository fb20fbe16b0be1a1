//! Opening a scan of a CSV object.

use std::sync::Arc;

use pushdowndb_contract::{Compression, CsvOptions, Expr, Fragment, Output, Result};

use crate::range::scan_range::ScanRange;
use crate::source::{ScanInput, SourceOptions};
use crate::text::buffer::{TextOptions, Translate};
use crate::text::csv::dialect::Dialect;
use crate::text::csv::plan::CsvPlan;
use crate::text::csv::rows::CsvRows;
use crate::text::csv::translate::Fields;
use crate::text::rewrite::{self, Rewriter};
use crate::text::scan::TextScan;
use crate::text::stage::Stage;
use crate::text::translate::Start;
use crate::zones::zone::{ZoneColumn, can_be_zoned};

/// A scan of a CSV object. It returns the rows that pass, with the columns that the rewritten
/// output reads.
pub(crate) type CsvScan = TextScan<CsvRows>;

impl CsvScan {
    /// Creates a scan for the fragment. Also returns the fragment's output, rewritten to the
    /// columns that the scan returns.
    pub(crate) fn new(fragment: &Fragment, options: &CsvOptions, input: ScanInput) -> Result<(Self, Output)> {
        let location = input.reader.location().to_owned();
        let canonical = options.wide.as_ref().map(|_| rewrite::canonical(options));
        let cut = canonical.as_ref().unwrap_or(options);
        let mut scan = input.options.clone();
        let (rewrite, terminator) = match &options.wide {
            None => (None, Dialect::new(cut)?.cut_at()),
            Some(wide) => {
                let rewriter = Rewriter::new(options, wide, &location, scan.record_bytes)?;
                scan.record_bytes = scan.record_bytes.saturating_mul(rewrite::MAX_GROWTH);
                (Some(rewriter), (!options.newlines_in_values || wide.quote.is_none()).then_some(b'\n'))
            }
        };
        let translate = translate(fragment, options, cut, &scan, &location)?;
        let text = TextOptions {
            compression: options.compression,
            terminator,
            header: options.header,
            record_bytes: scan.record_bytes,
            rewrite,
            translate,
            spawner: scan.spawner.clone(),
            memory: scan.memory.clone(),
        };
        let is_plain =
            options.wide.is_none() && options.translation.is_none() && options.compression == Compression::None;
        let size = is_plain.then(|| input.reader.size());
        let range = input.range.clone();
        let mut rewritten = None;
        let opened = Self::open(input, text, |input, is_parts| {
            // A part never contains the header.
            let header_at = if is_parts { u64::MAX } else { input.buffer.offset() };
            let begin = input.range.start;
            let (mut rows, output) = CsvRows::new(fragment, cut, &location, header_at, begin, &scan)?;
            rewritten = Some(output);
            if let Some(size) = size {
                rows.note_size(size);
            }
            if range.has_positions() {
                rows.note_positions();
            }
            if let Some(zones) =
                scan.zones.as_ref().filter(|_| !is_parts && options.translation.is_none() && can_be_zoned(fragment))
            {
                rows.note_zones(zones, options, begin);
            }
            // If every record has a position, or the records were already selected, there is
            // nothing to search.
            let matcher = rows.matcher(&scan).filter(|_| matches!(range, ScanRange::Bytes(_)));
            Ok((rows, matcher))
        })?;
        Ok((opened, rewritten.unwrap_or_else(|| fragment.output.clone())))
    }
}

/// Returns the stages of the translation to the text that is cut with the options `cut`.
fn translate(
    fragment: &Fragment,
    options: &CsvOptions,
    cut: &CsvOptions,
    scan: &SourceOptions,
    location: &str,
) -> Result<Translate> {
    let Some(translation) = &options.translation else { return Ok(Translate::default()) };
    let start = Start::new(translation, options.terminator.unwrap_or(b'\n'), location)?;
    let fields = translation.looks_at_fields().then(|| {
        let rejects = scan.rejects.clone();
        Fields::new(cut, translation, &fragment.schema, location, scan.record_bytes, rejects)
    });
    let fields = fields.transpose()?.map(|fields| Box::new(fields) as Box<dyn Stage>);
    Ok(Translate { start: Some(Box::new(start)), fields })
}

/// Returns the condition of a fragment by which zones can be pruned, and the columns that it reads.
pub(crate) fn zoned(fragment: &Fragment, options: &CsvOptions) -> Result<Option<(Expr, Vec<ZoneColumn>)>> {
    let plan = CsvPlan::new(fragment, options, &Arc::default())?;
    Ok(plan.columns.zoned(options).map(|(condition, columns)| (condition.clone(), columns)))
}
