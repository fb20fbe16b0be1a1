//! Commands that print information: tables, columns, functions, objects, settings, help.

use anyhow::Result;
use pushdowndb_engine::sql_type;

use super::arguments::{table_name, unquoted};
use crate::print::{self, units};
use crate::session::Session;

/// Maximum entries of a folder that are listed.
const MAX_OBJECTS: usize = 1000;

/// Prints the help of `commands`.
pub fn help(commands: &[(&str, &str, &str)]) {
    eprintln!("SQL runs at its ;  Ctrl-C cancels a query or clears the line, Tab completes\n");
    for (name, argument, help) in commands {
        if *name != "\\h" {
            eprintln!("  {:<28}{help}", format!("{name} {argument}"));
        }
    }
    eprintln!("\nFiles need no declaration: SELECT * FROM 's3://bucket/path/*.parquet' LIMIT 10;");
    eprintln!("What storage would do for a query: EXPLAIN SELECT ...; what it did: \\stats, EXPLAIN ANALYZE");
}

/// Prints the tables that SQL can name.
pub async fn tables(session: &Session) -> Result<()> {
    let tables = session.engine().tables().await?;
    if tables.is_empty() {
        eprintln!("no tables; CREATE EXTERNAL TABLE declares one, and \\i schema.sql those of generated data");
        return Ok(());
    }
    let width = tables.iter().map(|table| table.name.len()).max().unwrap_or(0);
    for table in tables {
        // A saved declaration may span several lines.
        let location = table.location.split_whitespace().collect::<Vec<_>>().join(" ");
        print::print_line(format_args!("{:<width$}  {:<10} {:<8} {location}", table.name, table.kind, table.format))?;
    }
    Ok(())
}

/// Prints the columns of a table, or of files.
pub async fn columns(session: &Session, table: &str) -> Result<()> {
    let name = table_name(table);
    let described = session.engine().describe(&name);
    let schema = session.interrupts().during(async { Ok(described.await?) }).await?;
    let width = schema.fields().iter().map(|field| field.name().len()).max().unwrap_or(0);
    for field in schema.fields() {
        let null = if field.is_nullable() { "" } else { "  NOT NULL" };
        print::print_line(format_args!("{:<width$}  {}{null}", field.name(), sql_type(field.data_type())))?;
    }
    Ok(())
}

/// Prints the functions whose name contains `part`.
pub fn functions(session: &Session, part: &str) -> Result<()> {
    let part = part.to_ascii_lowercase();
    let names: Vec<_> = session.engine().functions().into_iter().filter(|name| name.contains(&part)).collect();
    print::print_line(names.join("\n"))
}

/// Prints the folders and objects at an address.
pub async fn objects(session: &Session, address: &str) -> Result<()> {
    let listed = session.engine().list_folder(unquoted(address), MAX_OBJECTS);
    let entries = session.interrupts().during(async { Ok(listed.await?) }).await?;
    if entries.is_empty() {
        eprintln!("nothing there");
    }
    let is_cut = entries.len() >= MAX_OBJECTS;
    for entry in entries {
        let (size, modified) = match entry.object {
            Some((size, modified)) => (units::bytes(size), modified.format("%Y-%m-%d %H:%M:%S").to_string()),
            None => (String::new(), String::new()),
        };
        print::print_line(format_args!("{size:>10}  {modified:<19}  {}", entry.name))?;
    }
    if is_cut {
        eprintln!("the first {MAX_OBJECTS} are listed");
    }
    Ok(())
}

/// Prints the `pushdown.*` settings.
pub fn settings(session: &Session) -> Result<()> {
    for setting in session.engine().pushdown_settings() {
        print::print_line(format_args!("{} = {}\n    {}", setting.name, setting.value, setting.help))?;
    }
    eprintln!("\\set TEXT lists every setting whose name contains a text, such as \\set batch");
    Ok(())
}
