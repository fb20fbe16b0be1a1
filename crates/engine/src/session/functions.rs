//! The functions of a session, for completion, suggestions and the page of functions.

use datafusion::logical_expr::Documentation;
use pushdowndb_contract::Error;

use super::Engine;
use crate::functions::described::DESCRIBED;
use crate::nearest::nearest;
use crate::sql::syntax::macros;

/// Functions of other systems, with what to write instead.
const ELSEWHERE: &[(&str, &str)] = &[
    ("hex", "to_hex(number), or encode(text, 'hex')"),
    ("json_each", "unnest(json_keys(j)), and j -> key; of an array, unnest(json_extract(j, '$[*]'))"),
    ("json_transform", "j ->> 'key' and a cast for each field"),
    ("json_structure", "json_keys(j) and json_type(j, path)"),
    ("list_reduce", "list_sum, list_product, or unnest(list) and an aggregate"),
    ("array_reduce", "list_sum, list_product, or unnest(list) and an aggregate"),
    ("read_text", "CREATE EXTERNAL TABLE … STORED AS CSV with a delimiter that does not occur"),
    ("mad", "median(abs(x - m)), with the median m of a subquery"),
    ("from_json", "j ->> 'key' and a cast for each field, or json_extract_all(j, '$[*]')"),
    ("nextval", "row_number() OVER ()"),
];

/// A function that SQL can call.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FunctionInfo {
    /// The name.
    pub name: String,
    /// `scalar`, `aggregate`, `window`, or `alias` if calls are rewritten to other functions.
    pub kind: &'static str,
    /// The description in one line; empty if there is none.
    pub description: String,
}

impl Engine {
    /// Returns the names of the functions that SQL can call, sorted.
    pub fn functions(&self) -> Vec<String> {
        let mut names: Vec<String> = self.described_functions().into_iter().map(|function| function.name).collect();
        names.dedup();
        names
    }

    /// Returns the functions that SQL can call, sorted by name. A name with several meanings
    /// appears once for each.
    pub fn described_functions(&self) -> Vec<FunctionInfo> {
        let state = &self.template;
        let described = |name: &str, own: &str, documentation: Option<&Documentation>| match documentation {
            _ if name != own => format!("another name of {own}"),
            Some(documentation) => first_line(&documentation.description),
            None => DESCRIBED.iter().find(|(known, _)| *known == name).map_or("", |(_, line)| *line).to_owned(),
        };
        let mut all = Vec::new();
        let mut add =
            |name: &String, kind, description| all.push(FunctionInfo { name: name.clone(), kind, description });
        for (name, function) in state.scalar_functions() {
            add(name, "scalar", described(name, function.name(), function.documentation()));
        }
        for (name, function) in state.higher_order_functions() {
            add(name, "scalar", described(name, function.name(), function.documentation()));
        }
        for (name, function) in state.aggregate_functions() {
            add(name, "aggregate", described(name, function.name(), function.documentation()));
        }
        for (name, function) in state.window_functions() {
            add(name, "window", described(name, function.name(), function.documentation()));
        }
        for (name, meaning) in macros::listed() {
            let description = match meaning.contains('`') {
                true => meaning,
                false => format!("another name of {meaning}"),
            };
            add(&name.to_owned(), "alias", description);
        }
        all.sort_by(|one, other| (&one.name, &one.description).cmp(&(&other.name, &other.description)));
        all
    }

    /// Adds the name that was probably meant to an error about an unknown function.
    pub(super) fn suggest_function(&self, error: Error) -> Error {
        let Some(rest) = error.message().strip_prefix("Invalid function '") else { return error };
        let Some((name, _)) = rest.split_once('\'') else { return error };
        let mut same = self.described_functions().into_iter().filter(|function| function.name == name);
        if let Some(known) = same.next() {
            let message = format!("{name} does not take these arguments: {}", known.description);
            return Error::new(error.kind(), message);
        }
        let hint = match ELSEWHERE.iter().find(|(known, _)| *known == name) {
            Some((_, instead)) => format!("; write {instead}"),
            None => match nearest(name, self.functions().iter().map(String::as_str)) {
                Some(meant) => format!("; did you mean {meant}?"),
                None => "; docs/functions.md has those that there are".to_owned(),
            },
        };
        Error::new(error.kind(), format!("there is no function {name}{hint}"))
    }
}

/// Returns the first paragraph of a description in Markdown, in one line and without links.
fn first_line(text: &str) -> String {
    let line = text.trim().split("\n\n").next().unwrap_or_default();
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut plain = String::with_capacity(line.len());
    let mut rest = line.as_str();
    while let Some((before, after)) = rest.split_once("](") {
        let Some((target, after)) = after.split_once(')') else { break };
        let (before, shown) = before.rsplit_once('[').unwrap_or((before, target));
        plain.push_str(before);
        plain.push_str(shown);
        rest = after;
    }
    plain + rest
}
