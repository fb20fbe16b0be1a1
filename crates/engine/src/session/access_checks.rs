//! Checks of a statement against the access policy: folders and files that DataFusion would open by
//! itself.
//!
//! Stores check every call as well. The checks here refuse a statement before DataFusion looks for
//! its location on the disk. They also cover what belongs to no store: the folder for spilled data,
//! and files that settings name.

use std::path::Path;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::{DdlStatement, LogicalPlan, SetVariable, Statement};
use pushdowndb_contract::{Error, ErrorKind, Result};
use pushdowndb_cost::PriceBook;

use crate::access::{Access, Mode};
use crate::catalog::{TableLocation, stores};
use crate::error::{from_datafusion, to_datafusion};
use crate::settings::{LOCATION_SETTINGS, PRICE_BOOK, WORKERS};

/// Fails if a plan names a location that the policy does not permit.
pub(super) fn check(access: &Access, plan: &LogicalPlan) -> Result<()> {
    if access.is_everything() {
        return Ok(());
    }
    let named = |mode, text: &str| {
        let location = TableLocation::parse(text, access)?;
        let places = if location.members().is_empty() { std::slice::from_ref(&location) } else { location.members() };
        places.iter().try_for_each(|place| {
            let (store, key) = stores::of_object(place.store().as_ref(), place.prefix());
            access.named(mode, &stores::at_any_endpoint(&store), &key)
        })
    };
    let checked = plan.apply_with_subqueries(|node| {
        let found = match node {
            LogicalPlan::Copy(copy) => named(Mode::Write, &copy.output_url),
            LogicalPlan::Ddl(DdlStatement::CreateExternalTable(create)) => {
                create.locations.iter().try_for_each(|location| named(Mode::Read, location))
            }
            _ => Ok(()),
        };
        found.map(|()| TreeNodeRecursion::Continue).map_err(to_datafusion)
    });
    checked.map(|_| ()).map_err(from_datafusion)
}

/// Checks a SET. Fails if its value is a location that the policy does not permit; a permitted
/// folder is replaced by its real path.
pub(crate) fn checked_setting(access: &Access, plan: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Statement(Statement::SetVariable(SetVariable { variable, value })) = plan else { return Ok(plan) };
    if variable.eq_ignore_ascii_case(WORKERS) && !value.is_empty() && !access.is_everything() {
        // Workers receive the token and read whatever they can reach, so SQL must not name them.
        let message = format!("{WORKERS} is for whoever starts the session: --set {WORKERS}=...");
        return Err(Error::new(ErrorKind::Denied, message));
    }
    let place = LOCATION_SETTINGS.iter().find(|(name, _)| name.eq_ignore_ascii_case(&variable)).map(|(_, mode)| *mode);
    let value = match place {
        // A price book is checked when its file is read.
        Some(_) if variable.eq_ignore_ascii_case(PRICE_BOOK) => value,
        // The empty value is the default folder, which is checked when something is spilled.
        Some(_) if value.is_empty() => value,
        Some(mode) if !access.is_everything() => {
            let folder = access.folder(mode, Path::new(&value)).map_err(|error| error.context(&variable))?;
            folder
                .into_os_string()
                .into_string()
                .map_err(|_| Error::invalid(format!("{variable}: this is not UTF-8")))?
        }
        _ => value,
    };
    Ok(LogicalPlan::Statement(Statement::SetVariable(SetVariable { variable, value })))
}

/// Returns the price book of this name: a shipped one, or one from a file at this path.
pub(crate) fn price_book(access: &Access, name: &str) -> Result<PriceBook> {
    if access.is_everything() || PriceBook::shipped().any(|shipped| shipped == name) {
        return PriceBook::named_or_path(name);
    }
    let book = access.read_text(Path::new(name)).and_then(|text| PriceBook::from_toml(&text));
    book.map_err(|error| error.context(format!("price book '{name}'")))
}
