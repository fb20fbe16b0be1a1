//! Calls of reading functions: `read_csv('x.csv', delim = ';')`.
//!
//! A call in FROM becomes a table whose name is the text of the call, which [`Call::parse`] reads.
//! So it is resolved like the name of a file: once per statement, with requests to storage.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use pushdowndb_contract::{Error, JsonShape, Result};

use super::TableOptions;
use super::options::{Kind, OptionValue};

/// The reading functions, and what each of them reads.
const FUNCTIONS: [(&str, Reads); 15] = [
    ("read_csv", Reads::Objects(Kind::Csv)),
    ("read_csv_auto", Reads::Objects(Kind::Csv)),
    ("read_json", Reads::Objects(Kind::Json)),
    ("read_json_auto", Reads::Objects(Kind::Json)),
    ("read_ndjson", Reads::Lines),
    ("read_ndjson_auto", Reads::Lines),
    ("read_json_lines", Reads::Lines),
    ("read_parquet", Reads::Objects(Kind::Parquet)),
    ("parquet_scan", Reads::Objects(Kind::Parquet)),
    ("parquet_read", Reads::Objects(Kind::Parquet)),
    ("glob", Reads::Names),
    ("read_text", Reads::Whole(Whole::Text)),
    ("read_blob", Reads::Whole(Whole::Bytes)),
    ("parquet_schema", Reads::Whole(Whole::ParquetSchema)),
    ("parquet_metadata", Reads::Whole(Whole::ParquetMetadata)),
];

/// What a reading function reads.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Reads {
    /// Objects of this kind.
    Objects(Kind),
    /// JSON, one record a line.
    Lines,
    /// The names of objects.
    Names,
    /// Objects as a whole, not their records.
    Whole(Whole),
}

/// What a function returns about whole objects.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Whole {
    /// Their text.
    Text,
    /// Their bytes.
    Bytes,
    /// The schema of each Parquet file.
    ParquetSchema,
    /// The column chunks of each Parquet file.
    ParquetMetadata,
}

/// A call of a reading function.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    reads: Reads,
    /// The locations as they are written.
    pub(crate) locations: Vec<String>,
    arguments: Vec<(String, OptionValue)>,
}

impl Call {
    /// Whether `name` is that of a reading function.
    pub(crate) fn is_known(name: &str) -> bool {
        FUNCTIONS.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
    }

    /// Parses the text of a call. Returns `None` if it does not call a reading function.
    ///
    /// # Errors
    ///
    /// Returns an error if an argument is not a literal or the first one is not a location.
    pub(crate) fn parse(text: &str) -> Result<Option<Self>> {
        let Some((name, _)) = text.split_once('(') else { return Ok(None) };
        let Some((name, reads)) = FUNCTIONS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) else {
            return Ok(None);
        };
        let parsed = Parser::new(&GenericDialect).try_with_sql(text).and_then(|mut parser| parser.parse_expr());
        let malformed = || Error::invalid(format!("{name}: write {name}('file', option = value, …), not {text}"));
        let Ok(Expr::Function(function)) = parsed else { return Err(malformed()) };
        let FunctionArguments::List(list) = function.args else { return Err(malformed()) };
        let mut arguments = list.args.iter().map(argument);
        let first = arguments.next().ok_or_else(malformed)?.map_err(|error| error.context(name))?;
        let (None, locations) = first else { return Err(malformed()) };
        let arguments = arguments.map(|argument| match argument.map_err(|error| error.context(name))? {
            (Some(option), value) => Ok((option, value)),
            (None, value) => Err(Error::invalid(format!("{name}: {value} is for no option; write option = {value}"))),
        });
        let arguments = arguments.collect::<Result<Vec<_>>>()?;
        let locations = locations.texts().map_err(|error| error.context(name))?;
        if matches!(reads, Reads::Names | Reads::Whole(_)) && !arguments.is_empty() {
            return Err(Error::invalid(format!("{name} takes one location or a list of them, and no options")));
        }
        Ok(Some(Self { reads: *reads, locations, arguments }))
    }

    /// Returns what the call reads of whole objects; `None` if it reads their records or names.
    pub(crate) fn whole(&self) -> Option<Whole> {
        match self.reads {
            Reads::Whole(whole) => Some(whole),
            _ => None,
        }
    }

    /// Returns the options of the table that the call reads; `None` if it does not read records.
    pub(crate) fn options(&self) -> Result<Option<TableOptions>> {
        let kind = match self.reads {
            Reads::Objects(kind) => kind,
            Reads::Lines => Kind::Json,
            Reads::Names | Reads::Whole(_) => return Ok(None),
        };
        let mut options = TableOptions::of_arguments(kind, &self.arguments)?;
        if self.reads == Reads::Lines {
            options.json_shape = Some(JsonShape::Lines);
        }
        Ok(Some(options))
    }
}

/// An argument: its name, if it has one, and its value.
fn argument(argument: &FunctionArg) -> Result<(Option<String>, OptionValue)> {
    let value = |expr: &Expr| {
        let value = OptionValue::of(expr);
        value.ok_or_else(|| Error::invalid(format!("{expr} is no literal: options are known before a query runs")))
    };
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::BinaryOp { left, op: BinaryOperator::Eq, right })) => {
            match left.as_ref() {
                Expr::Identifier(name) => Ok((Some(name.value.clone()), value(right)?)),
                other => Err(Error::invalid(format!("{other} is no option"))),
            }
        }
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Ok((None, value(expr)?)),
        FunctionArg::Named { name, arg: FunctionArgExpr::Expr(expr), .. } => {
            Ok((Some(name.value.clone()), value(expr)?))
        }
        FunctionArg::ExprNamed { name: Expr::Identifier(name), arg: FunctionArgExpr::Expr(expr), .. } => {
            Ok((Some(name.value.clone()), value(expr)?))
        }
        other => Err(Error::invalid(format!("{other} is neither a location nor an option"))),
    }
}

#[cfg(test)]
mod tests {
    use pushdowndb_contract::{Format, NullRule};

    use super::*;

    #[test]
    fn calls_become_tables() {
        let text = "read_csv('a.csv', delim = '||', header := false, skip=2, nullstr = ['-', 'NA'], \
                    types = {'zip': 'VARCHAR', \"n\": 'INT'}, sample_size = -1, filename => true)";
        let call = Call::parse(text).unwrap().unwrap();
        assert_eq!(call.locations, ["a.csv"]);
        let options = call.options().unwrap().unwrap();
        assert_eq!(options.types[0], (Some("zip".to_owned()), "VARCHAR".to_owned()));
        assert_eq!(options.filename.as_deref(), Some("filename"));
        let Format::Csv(csv) = options.format(Kind::Csv) else { panic!() };
        assert_eq!(csv.wide.unwrap().delimiter, "||");
        assert_eq!(csv.null, NullRule::Text("-".to_owned()));
        let translation = csv.translation.unwrap();
        assert_eq!((translation.skip, translation.nulls.clone()), (2, vec!["NA".to_owned()]));
        assert!(!csv.header);

        let call = Call::parse("READ_PARQUET(['a.parquet', 'b.parquet'])").unwrap().unwrap();
        assert_eq!(call.locations, ["a.parquet", "b.parquet"]);
        for none in ["lineitem", "a(b", "read_xlsx('x')", "s3://b/x(1).csv"] {
            assert_eq!(Call::parse(none).unwrap(), None, "{none}");
        }
    }

    #[test]
    fn mistakes_name_the_argument() {
        let message = |text: &str| {
            let call = Call::parse(text).and_then(|call| call.unwrap().options().map(|_| ()));
            call.unwrap_err().to_string()
        };
        assert!(message("read_csv('a', delimi = ';')").contains("did you mean 'delim"));
        assert!(message("read_csv('a', ';')").contains("is for no option"));
        assert!(message("read_csv(upper('a'))").contains("is no literal"));
        assert!(message("read_csv()").contains("write read_csv('file'"));
        assert!(message("read_parquet('a', delim = ';')").contains("about CSV"));
        assert!(message("read_csv('a', encoding = 'latin-one')").contains("'latin-one' is not known"));
        assert!(message("read_csv('a', skip = 'x')").contains("option 'skip'"));
        assert!(message("read_csv('a', dateformat = 'dd.mm')").contains("%d.%m.%Y"));
    }
}
