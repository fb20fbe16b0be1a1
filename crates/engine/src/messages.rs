//! Rewrites DataFusion's error messages to one clause in the terms of SQL.

/// The names of types in DataFusion's messages, and in SQL.
const TYPES: [(&str, &str); 16] = [
    ("LargeUtf8", "VARCHAR"),
    ("Utf8View", "VARCHAR"),
    ("Utf8", "VARCHAR"),
    ("Boolean", "BOOLEAN"),
    ("UInt8", "TINYINT UNSIGNED"),
    ("UInt16", "SMALLINT UNSIGNED"),
    ("UInt32", "INT UNSIGNED"),
    ("UInt64", "BIGINT UNSIGNED"),
    ("Int8", "TINYINT"),
    ("Int16", "SMALLINT"),
    ("Int32", "INT"),
    ("Int64", "BIGINT"),
    ("Float32", "REAL"),
    ("Float64", "DOUBLE"),
    ("Date32", "DATE"),
    ("Decimal128", "DECIMAL"),
];

/// Prefixes of messages that name a layer of the software instead of the mistake.
const LAYERS: [&str; 12] = [
    "Error during planning: ",
    "Execution error: ",
    "SQL error: ",
    "Schema error: ",
    "Arrow error: ",
    "External error: ",
    "Invalid argument error: ",
    "Cast error: ",
    "Parser error: ",
    "Compute error: ",
    "This feature is not implemented: ",
    "Internal error: ",
];

/// Returns the last cause in `message`, without prefixes of [`LAYERS`] and trees of the parser.
/// Some common messages are reworded.
pub(crate) fn plain(message: &str) -> String {
    if let Some(call) = between(message, "No function matches the given name and argument types '", "'") {
        return wrong_types(call);
    }
    let last = message.rsplit("\ncaused by\n").next().unwrap_or(message);
    let mut text = last.split("\nThis issue was likely caused by").next().unwrap_or(last);
    while let Some(rest) = LAYERS.iter().find_map(|layer| text.strip_prefix(layer)) {
        text = rest;
    }
    if let Some(what) = text.strip_prefix("Unsupported ast node ") {
        return format!("{} is not supported", spelled(what));
    }
    if let Some(what) = text.strip_prefix("Physical plan does not support logical expression ") {
        let name = what.split(['(', ' ', '{']).next().unwrap_or(what);
        return match name {
            "Exists" => {
                "EXISTS is not supported at this place; it is in WHERE and in the columns of a SELECT".to_owned()
            }
            "ScalarSubquery" => {
                "a subquery that is a value is not supported here: it may refer to other tables by equality alone"
                    .to_owned()
            }
            "InSubquery" => "IN (SELECT …) is not supported at this place; it is in WHERE".to_owned(),
            "OuterReferenceColumn" => {
                "this subquery refers to a table outside of it in a way that is not supported; write a join".to_owned()
            }
            other => format!("{other} is not supported at this place"),
        };
    }
    if let Some(what) = text.strip_prefix("Unsupported SQL statement: ") {
        return format!("{} is not supported", first_words(what));
    }
    if let Some(ending) = text.strip_prefix("There is no registered file format with ext ") {
        return format!(
            "COPY writes csv, tsv, json, ndjson, jsonl and parquet; .{ending} is none of them: say (FORMAT …)"
        );
    }
    if let Some(column) = between(text, "column \"", "\" must appear in the GROUP BY clause") {
        return format!(
            "column {column} must stand in GROUP BY, or in an aggregate such as any_value({column}); GROUP BY ALL takes \
             all columns that are in none"
        );
    }
    if let Some((name, _)) = text.strip_prefix("No field named \"").and_then(|rest| rest.split_once("\".\n"))
        && !name.contains('"')
    {
        let rest = text.split_once('\n').map_or("", |(_, rest)| rest);
        return format!("No field named \"{name}\"; a text is in single quotes, '{name}'.\n{rest}");
    }
    if let Some((before, after)) = text.split_once("\nColumn names are case sensitive.") {
        // They are not in this engine, and the setting that the message names has other effects,
        // too.
        return format!("{before}{}", after.split_once('\n').map_or(String::new(), |(_, rest)| format!("\n{rest}")));
    }
    if text.contains("Use STORED AS to define file format") {
        return "COPY does not know the format from the name of the target: say (FORMAT parquet), for example"
            .to_owned();
    }
    let is_lacking = last.contains("This feature is not implemented: ");
    let text = without_tree(text);
    if is_lacking && !text.contains("support") && !text.contains("implemented") {
        return format!("{text} is not supported");
    }
    match is_about_values(text) {
        true => in_sql(text),
        false => text.to_owned(),
    }
}

/// Returns whether the types in a message are those of values, not parts of a user's names.
fn is_about_values(text: &str) -> bool {
    ["Cannot cast ", "Can't cast ", "Could not cast ", "Cannot coerce ", "Cannot infer common argument type"]
        .iter()
        .any(|start| text.starts_with(start))
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    text.split_once(start)?.1.split_once(end).map(|(inner, _)| inner)
}

/// Returns `sum does not take VARCHAR` for the call `sum(Utf8)`.
fn wrong_types(call: &str) -> String {
    let (name, types) = call.split_once('(').unwrap_or((call, ""));
    match types.strip_suffix(')').unwrap_or(types) {
        "" => format!("{name} takes arguments"),
        types => format!("{name} does not take {}", in_sql(types)),
    }
}

/// Replaces the names of types in `text` by those of SQL.
fn in_sql(text: &str) -> String {
    let mut words = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        if end == 0 {
            let next = rest.chars().next().map_or(rest.len(), char::len_utf8);
            words.push_str(rest.get(..next).unwrap_or_default());
            rest = rest.get(next..).unwrap_or_default();
            continue;
        }
        let (word, after) = rest.split_at(end);
        words.push_str(TYPES.iter().find(|(name, _)| *name == word).map_or(word, |(_, sql)| sql));
        rest = after;
    }
    words
}

/// Returns the text before a tree of the parser, such as ` { value: "a", …`.
fn without_tree(text: &str) -> &str {
    let Some(tree) = text.find("span: ").or_else(|| text.find("Span(")) else { return text };
    let before = text.get(..tree).unwrap_or(text);
    let before = before.split(['{', '(']).next().unwrap_or(before).trim_end();
    before.rsplit_once(": ").map_or(before, |(said, _)| said).trim_end_matches([':', ' '])
}

/// Returns the name of a node of the parser's tree in SQL: `MatchRecognize { table: …` is `MATCH
/// RECOGNIZE`.
fn spelled(node: &str) -> String {
    let name: String = node.chars().take_while(|c| c.is_alphanumeric()).collect();
    let mut words = String::new();
    for (at, c) in name.chars().enumerate() {
        if at > 0 && c.is_uppercase() && !words.ends_with(|c: char| c.is_uppercase()) {
            words.push(' ');
        }
        words.push(c);
    }
    words.to_uppercase()
}

/// Returns the words in capitals that a statement begins with.
fn first_words(statement: &str) -> String {
    let words = statement.split_whitespace().take_while(|word| word.chars().all(|c| c.is_ascii_uppercase()));
    let words: Vec<&str> = words.take(3).collect();
    if words.is_empty() { "this statement".to_owned() } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn messages_are_one_line_in_the_words_of_sql() {
        for (message, expected) in [
            (
                "Optimizer rule 'simplify_expressions' failed\ncaused by\nArrow error: Cast error: Cannot cast string 'two' to value of Float64 type",
                "Cannot cast string 'two' to value of DOUBLE type",
            ),
            (
                "Internal error: Function 'sum' failed to match any signature, errors: x.\nThis issue was likely caused by a bug. No function matches the given name and argument types 'sum(Utf8)'. You might",
                "sum does not take VARCHAR",
            ),
            (
                "This feature is not implemented: Unsupported ast node MatchRecognize { table: Derived { lateral: false",
                "MATCH RECOGNIZE is not supported",
            ),
            (
                "This feature is not implemented: Dot access not supported for non-string expr: Identifier(Ident { value: \"a\", quote_style: None, span: Span(Location(1,16)..Location(1,17)) })",
                "Dot access not supported for non-string expr",
            ),
            (
                "This feature is not implemented: SET variant not implemented yet: SetTimeZone { local: false, value: Value(ValueWithSpan { value: SingleQuotedString(\"UTC\"), span: Span(",
                "SET variant not implemented yet",
            ),
            ("Unsupported SQL statement: CREATE MACRO f(a) AS a + 1", "CREATE MACRO is not supported"),
            (
                "This feature is not implemented: COUNT DISTINCT with multiple arguments",
                "COUNT DISTINCT with multiple arguments is not supported",
            ),
            ("No field named x.", "No field named x."),
        ] {
            assert_eq!(plain(message), expected);
        }
    }
}
