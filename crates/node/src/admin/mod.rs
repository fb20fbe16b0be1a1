//! Administration: health, readiness and metrics.

mod health;
mod metrics;

pub(crate) use health::{Capacity, Health, ListenerKind};
pub(crate) use metrics::{Durations, MetricSources, Metrics};
