//! Formats of objects on the wire: CSV, JSON and Parquet with their options.

use prost::Message;

use super::{codes, missing, read_list, unknown, write_list};
use crate::{
    Compression, CsvOptions, Error, Format, JsonOptions, JsonShape, JsonStep, NullRule, Ragged, Result, WideMarks,
    limits,
};

/// A format with its options.
#[derive(Clone, PartialEq, Message)]
pub(super) struct FormatMessage {
    /// 1 CSV, 2 JSON, 3 Parquet.
    #[prost(uint32, tag = "1")]
    kind: u32,
    #[prost(message, optional, tag = "2")]
    csv: Option<CsvMessage>,
    #[prost(message, optional, tag = "3")]
    json: Option<JsonMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct CsvMessage {
    #[prost(bool, tag = "1")]
    header: bool,
    /// The delimiter; like the fields below, a single byte.
    #[prost(uint32, tag = "2")]
    delimiter: u32,
    #[prost(uint32, optional, tag = "3")]
    quote: Option<u32>,
    #[prost(uint32, optional, tag = "4")]
    escape: Option<u32>,
    #[prost(uint32, optional, tag = "5")]
    comment: Option<u32>,
    #[prost(uint32, optional, tag = "6")]
    terminator: Option<u32>,
    /// Which fields are NULL. 3: none, 4: empty fields, 5: empty fields and those equal to
    /// `null_text`.
    #[prost(uint32, tag = "7")]
    null: u32,
    #[prost(string, tag = "8")]
    null_text: String,
    #[prost(uint32, tag = "9")]
    ragged: u32,
    #[prost(bool, tag = "10")]
    newlines_in_values: bool,
    #[prost(uint32, tag = "11")]
    compression: u32,
    #[prost(message, optional, tag = "12")]
    wide: Option<WideMessage>,
    #[prost(bool, tag = "13")]
    inferred: bool,
}

#[derive(Clone, PartialEq, Message)]
struct WideMessage {
    #[prost(string, tag = "1")]
    delimiter: String,
    #[prost(string, optional, tag = "2")]
    terminator: Option<String>,
    #[prost(string, optional, tag = "3")]
    quote: Option<String>,
    #[prost(string, optional, tag = "4")]
    escape: Option<String>,
    #[prost(string, optional, tag = "5")]
    comment: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct JsonMessage {
    #[prost(uint32, tag = "1")]
    shape: u32,
    #[prost(uint32, tag = "2")]
    compression: u32,
    #[prost(bool, tag = "3")]
    raw_tokens: bool,
    /// A list of [`StepMessage`].
    #[prost(bytes = "vec", tag = "4")]
    from: Vec<u8>,
    #[prost(bool, tag = "5")]
    inferred: bool,
}

#[derive(Clone, PartialEq, Message)]
struct StepMessage {
    /// 1 a member, 2 an element, 3 every element, 4 every member.
    #[prost(uint32, tag = "1")]
    kind: u32,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(bool, tag = "3")]
    exact: bool,
    #[prost(uint64, tag = "4")]
    index: u64,
}

codes! {
    compression: Compression, "compression" {
        Compression::None = 1;
        Compression::Gzip = 2;
        Compression::Bzip2 = 3;
        Compression::Zstd = 4;
    }
    ragged: Ragged, "rule for records" {
        Ragged::Error = 1;
        Ragged::Lenient = 2;
    }
    json_shape: JsonShape, "shape of JSON" {
        JsonShape::Lines = 1;
        JsonShape::Document = 2;
    }
}

pub(super) fn write_format(format: &Format) -> Result<FormatMessage> {
    let of = |kind| FormatMessage { kind, ..FormatMessage::default() };
    Ok(match format {
        Format::Csv(options) => FormatMessage { csv: Some(write_csv(options)?), ..of(1) },
        Format::Json(options) => FormatMessage { json: Some(write_json(options)?), ..of(2) },
        Format::Parquet => of(3),
    })
}

pub(super) fn read_format(message: FormatMessage) -> Result<Format> {
    Ok(match message.kind {
        1 => Format::Csv(read_csv(message.csv.ok_or_else(|| missing("the options of CSV"))?)?),
        2 => Format::Json(read_json(&message.json.ok_or_else(|| missing("the options of JSON"))?)?),
        3 => Format::Parquet,
        other => return Err(unknown("format", other)),
    })
}

fn write_csv(options: &CsvOptions) -> Result<CsvMessage> {
    if let Some(translation) = &options.translation {
        let used = translation.options().join(", ");
        return Err(Error::unsupported(format!("the fragment route has no option for {used}")));
    }
    let (null, null_text) = match &options.null {
        // The codes 1 and 2 are retired: with them, a pair of quotes was NULL, too.
        NullRule::Empty => (4, String::new()),
        NullRule::Text(text) => (5, text.clone()),
        NullRule::Never => (3, String::new()),
    };
    Ok(CsvMessage {
        header: options.header,
        delimiter: u32::from(options.delimiter),
        quote: options.quote.map(u32::from),
        escape: options.escape.map(u32::from),
        comment: options.comment.map(u32::from),
        terminator: options.terminator.map(u32::from),
        null,
        null_text,
        ragged: ragged::code(options.ragged),
        newlines_in_values: options.newlines_in_values,
        compression: compression::code(options.compression),
        inferred: options.inferred,
        wide: options.wide.as_ref().map(|wide| WideMessage {
            delimiter: wide.delimiter.clone(),
            terminator: wide.terminator.clone(),
            quote: wide.quote.clone(),
            escape: wide.escape.clone(),
            comment: wide.comment.clone(),
        }),
    })
}

fn read_csv(message: CsvMessage) -> Result<CsvOptions> {
    let mark = |code: u32| u8::try_from(code).map_err(|_| Error::invalid("a mark of CSV is one byte"));
    let wide = message.wide.map(|wide| WideMarks {
        delimiter: wide.delimiter,
        terminator: wide.terminator,
        quote: wide.quote,
        escape: wide.escape,
        comment: wide.comment,
    });
    let is_empty = |mark: &Option<String>| mark.as_ref().is_some_and(String::is_empty);
    if let Some(marks) = &wide
        && (marks.delimiter.is_empty()
            || [&marks.terminator, &marks.quote, &marks.escape, &marks.comment].into_iter().any(is_empty))
    {
        return Err(Error::invalid("a mark of CSV is empty"));
    }
    Ok(CsvOptions {
        header: message.header,
        delimiter: mark(message.delimiter)?,
        quote: message.quote.map(mark).transpose()?,
        escape: message.escape.map(mark).transpose()?,
        comment: message.comment.map(mark).transpose()?,
        terminator: message.terminator.map(mark).transpose()?,
        null: match message.null {
            3 => NullRule::Never,
            4 => NullRule::Empty,
            5 => NullRule::Text(message.null_text),
            other => return Err(unknown("rule for NULL", other)),
        },
        ragged: ragged::read(message.ragged)?,
        newlines_in_values: message.newlines_in_values,
        compression: compression::read(message.compression)?,
        inferred: message.inferred,
        wide,
        translation: None,
    })
}

fn write_json(options: &JsonOptions) -> Result<JsonMessage> {
    let of = |kind| StepMessage { kind, ..StepMessage::default() };
    let steps = options.from.iter().map(|step| match step {
        JsonStep::Key { name, exact } => StepMessage { name: name.clone(), exact: *exact, ..of(1) },
        JsonStep::Index(index) => StepMessage { index: *index as u64, ..of(2) },
        JsonStep::AnyElement => of(3),
        JsonStep::AnyMember => of(4),
    });
    Ok(JsonMessage {
        shape: json_shape::code(options.shape),
        compression: compression::code(options.compression),
        raw_tokens: options.raw_tokens,
        from: write_list(steps)?,
        inferred: options.inferred,
    })
}

fn read_json(message: &JsonMessage) -> Result<JsonOptions> {
    let steps = read_list::<StepMessage>(&message.from, limits::EXPRESSION_DEPTH, "steps of a path")?;
    let step = |step: StepMessage| {
        Ok(match step.kind {
            1 => JsonStep::Key { name: step.name, exact: step.exact },
            2 => JsonStep::Index(usize::try_from(step.index).map_err(|_| Error::invalid("an index is too large"))?),
            3 => JsonStep::AnyElement,
            4 => JsonStep::AnyMember,
            other => return Err(unknown("step of a path", other)),
        })
    };
    Ok(JsonOptions {
        shape: json_shape::read(message.shape)?,
        compression: compression::read(message.compression)?,
        raw_tokens: message.raw_tokens,
        from: steps.into_iter().map(step).collect::<Result<_>>()?,
        inferred: message.inferred,
    })
}
