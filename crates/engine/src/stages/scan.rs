//! Encodes a scan as bytes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use datafusion::common::config::ExtensionOptions;
use pushdowndb_contract::{Error, Profile, Result};

use super::messages::{RangeMessage, ScanMessage, ServerMessage, SettingMessage, SplitMessage};
use super::services::{StageServices, url};
use crate::endpoints::Backend;
use crate::error::from_datafusion;
use crate::exec::remote_scan::RemoteScanExec;
use crate::plan::scan_context::ScanContext;
use crate::plan::scan_plan::ScanPlan;
use crate::plan::share::Share;
use crate::plan::splits::ScanSplit;
use crate::settings::PushdownOptions;

/// Settings that are those of the process that runs a scan, not those of the session.
const OWN: [&str; 9] = [
    "price_book",
    "memory",
    "workers",
    "distribute",
    "spill_disk",
    "spill_disk_bytes",
    "spill_location",
    "spill_compression",
    "spill_encryption",
];

/// Maximum number of partitions of a share, which comes from another process.
const MAX_PARTITIONS: u64 = 4096;

/// Returns the settings `pushdown.*` that differ from the defaults, by their names without the
/// prefix.
pub(super) fn changed(options: &PushdownOptions) -> Vec<(String, String)> {
    let defaults = PushdownOptions::default().entries();
    let is_default = |name: &str, value: &str| {
        defaults.iter().any(|entry| entry.key == name && entry.value.as_deref().unwrap_or_default() == value)
    };
    let entries = options.entries().into_iter().map(|entry| (entry.key, entry.value.unwrap_or_default()));
    entries.filter(|(name, value)| !OWN.contains(&name.as_str()) && !is_default(name, value)).collect()
}

/// Returns `options` with the settings that another process changed.
pub(super) fn with_changed(mut options: PushdownOptions, settings: &[SettingMessage]) -> Result<PushdownOptions> {
    // A setting that is not sent has its default value.
    for entry in PushdownOptions::default().entries() {
        if !OWN.contains(&entry.key.as_str()) {
            options.set(&entry.key, &entry.value.unwrap_or_default()).map_err(from_datafusion)?;
        }
    }
    for SettingMessage { name, value } in settings {
        if !OWN.contains(&name.as_str()) {
            options.set(name, value).map_err(from_datafusion)?;
        }
    }
    options.check()?;
    Ok(options)
}

pub(super) fn write(scan: &RemoteScanExec) -> Result<ScanMessage> {
    let whole;
    let scan = match scan.context().share {
        Some(_) => scan,
        None => {
            whole = scan.shares(1, u64::MAX)?;
            whole.first().ok_or_else(|| Error::internal("a scan without shares"))?
        }
    };
    let Some(share) = &scan.context().share else { return Err(Error::internal("a share of a scan is all of it")) };
    let range = |range: &Range<u64>| RangeMessage { start: range.start, end: range.end };
    let split = |split: &ScanSplit| SplitMessage {
        object: split.object as u64,
        range: split.range.as_ref().map(range),
        rows: split.rows.as_ref().map(range),
    };
    let backend = &scan.context().backend;
    let stores = (0..backend.stores()).filter_map(|number| backend.store_number(number));
    let declared = scan.plan().table.profile;
    let server = |store: &Backend| {
        let capability = store.capability(declared);
        ServerMessage { profile: capability.profile.name().to_owned(), fragment_version: capability.fragment }
    };
    let settings = changed(&scan.context().options);
    Ok(ScanMessage {
        plan: scan.plan().to_bytes()?,
        store: backend.url().to_string(),
        number: share.number,
        splits: share.splits.iter().map(split).collect(),
        partitions: share.partitions as u64,
        is_pushed: share.is_pushed,
        is_kept: share.is_kept,
        settings: settings.into_iter().map(|(name, value)| SettingMessage { name, value }).collect(),
        servers: stores.map(server).collect(),
    })
}

pub(super) fn read(message: ScanMessage, services: &StageServices, cores: usize) -> Result<RemoteScanExec> {
    let query = services.query();
    let mut plan = ScanPlan::from_bytes(&message.plan)?;
    if message.partitions == 0 || message.partitions > MAX_PARTITIONS {
        return Err(Error::invalid(format!("a share of a scan has {} partitions", message.partitions)));
    }
    let splits = message.splits.iter().map(|split| read_split(split, &plan)).collect::<Result<_>>()?;
    let share = Share {
        number: message.number,
        splits,
        partitions: message.partitions as usize,
        is_pushed: message.is_pushed,
        is_kept: message.is_kept,
    };
    let backend = query.backends.backend(&url(&message.store)?)?;
    for (number, server) in message.servers.iter().enumerate() {
        let profile = server.profile.parse::<Profile>()?;
        if let Some(store) = backend.store_number(number) {
            store.told(profile, server.fragment_version);
        }
    }
    // A join of another stage collects its keys there, so they cannot filter this scan.
    let mut join_keys = BTreeMap::new();
    plan.key_filters.retain_mut(|filter| match services.keys_of(filter.join) {
        Some(keys) => {
            filter.join = keys.id();
            join_keys.insert(keys.id(), keys);
            true
        }
        None => false,
    });
    let context = ScanContext {
        fleet: services.fleet(&message.store),
        backend,
        definition: None,
        options: with_changed(query.options.clone(), &message.settings)?,
        statistics: None,
        cores,
        prices: Arc::clone(&query.prices),
        indexes: Arc::default(),
        join_keys,
        share: Some(Arc::new(share)),
    };
    RemoteScanExec::new(plan, context)
}

fn read_split(message: &SplitMessage, plan: &ScanPlan) -> Result<ScanSplit> {
    let object = usize::try_from(message.object).ok().and_then(|place| Some((place, plan.objects.get(place)?)));
    let Some((place, object)) = object else { return Err(Error::invalid("a split of an object that is not sent")) };
    let range = |range: &RangeMessage| range.start..range.end;
    if message.range.is_some_and(|range| range.start > range.end || range.end > object.size)
        || message.rows.is_some_and(|rows| rows.start > rows.end)
    {
        return Err(Error::invalid(format!("a split of {} is outside of it", object.path)));
    }
    Ok(ScanSplit { object: place, range: message.range.as_ref().map(range), rows: message.rows.as_ref().map(range) })
}
