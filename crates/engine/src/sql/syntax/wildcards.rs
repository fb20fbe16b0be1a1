//! The columns that a `*` leaves out.

use datafusion::sql::sqlparser::ast::{
    ExcludeSelectItem, Ident, ObjectName, ObjectNamePart, WildcardAdditionalOptions,
};

/// Returns the names after EXCLUDE or EXCEPT.
pub(super) fn excluded(options: &mut WildcardAdditionalOptions) -> Vec<&mut Ident> {
    let all = match &mut options.opt_exclude {
        Some(ExcludeSelectItem::Single(one)) => std::slice::from_mut(one),
        Some(ExcludeSelectItem::Multiple(all)) => all.as_mut_slice(),
        None => &mut [],
    };
    let last = all.iter_mut().filter_map(|name| match name.0.last_mut() {
        Some(ObjectNamePart::Identifier(name)) => Some(name),
        _ => None,
    });
    let mut names: Vec<&mut Ident> = last.collect();
    if let Some(except) = &mut options.opt_except {
        names.push(&mut except.first_element);
        names.extend(&mut except.additional_elements);
    }
    names
}

/// Adds `name` to the excluded names.
pub(super) fn exclude(options: &mut WildcardAdditionalOptions, name: Ident) {
    let mut all = match options.opt_exclude.take() {
        None => vec![],
        Some(ExcludeSelectItem::Single(one)) => vec![one],
        Some(ExcludeSelectItem::Multiple(all)) => all,
    };
    all.push(ObjectName::from(vec![name]));
    options.opt_exclude = Some(ExcludeSelectItem::Multiple(all));
}
