//! The beginning of a translated text, for inference.

use std::borrow::Cow;

use pushdowndb_contract::{CsvOptions, NullRule, Result};

use super::{Start, run, spelling};
use crate::limits::MAX_RECORD_BYTES;
use crate::text::rewrite::{self, Rewriter};

/// Returns the text from which the records of a sample are cut, and the options to cut them. The
/// encoding, lines to skip, and multi-byte delimiters are already translated.
pub(crate) fn started<'a>(
    bytes: &'a [u8],
    whole: bool,
    options: &CsvOptions,
) -> Result<(Cow<'a, [u8]>, Option<CsvOptions>)> {
    let mut text = Cow::Borrowed(bytes);
    if let Some(translation) = &options.translation {
        let terminator = options.terminator.unwrap_or(b'\n');
        text = Cow::Owned(run(&mut Start::new(translation, terminator, "the text")?, bytes, whole)?.into());
    }
    let Some(wide) = &options.wide else { return Ok((text, None)) };
    // The header is a record of the sample, too.
    let all = CsvOptions { header: false, ..options.clone() };
    let mut rewriter = Rewriter::new(&all, wide, "the text", MAX_RECORD_BYTES)?.of_range(0, 0..u64::MAX);
    let mut out = Vec::from(rewriter.feed(&text)?);
    match whole {
        true => out.extend_from_slice(&rewriter.finish()?),
        // The last record is incomplete.
        false => out.truncate(memchr::memrchr(b'\n', &out).map_or(0, |at| at + 1)),
    }
    Ok((Cow::Owned(out), Some(rewrite::canonical(options))))
}

/// Returns the field as it is used for inference: a marker of NULL becomes empty, and values get
/// SQL's spelling.
pub(crate) fn field(field: String, options: &CsvOptions) -> String {
    let Some(translation) = &options.translation else { return field };
    if translation.nulls.contains(&field) && matches!(options.null, NullRule::Text(_)) {
        return String::new();
    }
    spelling::guess(&field, translation).unwrap_or(field)
}
