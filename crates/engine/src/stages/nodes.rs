//! Encodes the engine's operators as bytes and expressions.

use std::sync::Arc;

use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_plan::aggregates::PhysicalGroupBy;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use datafusion::scalar::ScalarValue;
use prost::Message;
use pushdowndb_contract::wire::{read_type, write_type};
use pushdowndb_contract::{Error, Result};

use super::messages::{KeysMessage, Node, NodeMessage, SetMessage, SetsMessage};
use super::scan;
use super::services::StageServices;
use crate::error::from_datafusion;
use crate::exec::build_keys::BuildKeysExec;
use crate::exec::expand_sets::ExpandSetsExec;
use crate::exec::remote_scan::RemoteScanExec;
use crate::exec::shared_rows::SharedRowsScopeExec;
use crate::plan::join_keys::{BuildKeys, JoinId};

/// An operator of the engine, without its inputs.
#[derive(Clone, Debug)]
pub struct NodeParts {
    /// The operator, except its expressions.
    pub bytes: Vec<u8>,
    /// The expressions, over the columns of the only input.
    pub exprs: Vec<Arc<dyn PhysicalExpr>>,
}

/// Encodes an operator of the engine; `None` for other operators, and for those that only run where
/// the query was planned.
///
/// # Errors
///
/// Returns an error if a type or an expression of it cannot be sent.
pub fn node_to_parts(node: &Arc<dyn ExecutionPlan>) -> Result<Option<NodeParts>> {
    let (node, exprs) = if let Some(scan) = node.downcast_ref::<RemoteScanExec>() {
        (Node::Scan(scan::write(scan)?), vec![])
    } else if let Some(collector) = node.downcast_ref::<BuildKeysExec>() {
        let keys = collector.keys();
        let message = KeysMessage {
            join: keys.id().0,
            types: keys.types.iter().map(write_type).collect::<Result<_>>()?,
            nulls_match: keys.nulls_match(),
            max_rows: keys.max_rows() as u64,
            is_whole: collector.is_over_whole(),
        };
        (Node::Keys(message), collector.key_exprs().to_vec())
    } else if let Some(expanded) = node.downcast_ref::<ExpandSetsExec>() {
        let sets = expanded.sets();
        let message = SetsMessage {
            names: sets.expr().iter().map(|(_, name)| name.clone()).collect(),
            sets: sets.groups().iter().map(|nulls| SetMessage { nulls: nulls.clone() }).collect(),
        };
        (Node::Sets(message), vec![])
    } else {
        return Ok(None);
    };
    Ok(Some(NodeParts { bytes: NodeMessage { node: Some(node) }.encode_to_vec(), exprs }))
}

/// Decodes an operator that [`node_to_parts`] encoded, in a stage of `tasks` tasks with this
/// `context`.
///
/// # Errors
///
/// Returns an error if the bytes are malformed, or the operator's store cannot be opened here.
pub fn node_from_parts(
    parts: NodeParts,
    inputs: &[Arc<dyn ExecutionPlan>],
    tasks: usize,
    context: &TaskContext,
) -> Result<Arc<dyn ExecutionPlan>> {
    let services = context.session_config().get_extension::<StageServices>();
    let services = services.ok_or_else(|| Error::internal("an operator of a stage outside of one"))?;
    let message = NodeMessage::decode(parts.bytes.as_slice())
        .map_err(|error| Error::invalid("an operator of a stage is malformed").with_source(error))?;
    match (message.node, inputs) {
        (Some(Node::Scan(message)), []) => {
            let cores = context.session_config().target_partitions();
            Ok(Arc::new(scan::read(message, &services, cores)?))
        }
        (Some(Node::Keys(message)), [input]) => collector(&message, parts.exprs, input, tasks, &services),
        (Some(Node::Sets(message)), [input]) => expanded(message, input),
        _ => Err(Error::invalid("an operator of a stage is not known here, or lacks its inputs")),
    }
}

/// Returns the collector of a join's keys over `input`; `input` itself if this task may lack some
/// keys.
fn collector(
    message: &KeysMessage,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    input: &Arc<dyn ExecutionPlan>,
    tasks: usize,
    services: &StageServices,
) -> Result<Arc<dyn ExecutionPlan>> {
    if !message.is_whole && tasks != 1 {
        return Ok(Arc::clone(input));
    }
    let types = message.types.iter().map(|bytes| read_type(bytes)).collect::<Result<Vec<_>>>()?;
    if types.len() != exprs.len() {
        return Err(Error::invalid("a collector of keys has others than its join"));
    }
    let keys = Arc::new(BuildKeys::new(types, message.nulls_match));
    keys.want(usize::try_from(message.max_rows).unwrap_or(usize::MAX));
    services.collects(JoinId(message.join), Arc::clone(&keys));
    Ok(Arc::new(BuildKeysExec::new(Arc::clone(input), exprs, keys)))
}

fn expanded(message: SetsMessage, input: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = input.schema();
    let keys = message.names.len();
    if keys > schema.fields().len() || message.sets.iter().any(|set| set.nulls.len() != keys) {
        return Err(Error::invalid("grouping sets of other columns than those of their input"));
    }
    let fields = schema.fields().iter().zip(&message.names);
    let columns = fields
        .clone()
        .enumerate()
        .map(|(place, (field, name))| {
            (Arc::new(Column::new(field.name(), place)) as Arc<dyn PhysicalExpr>, name.clone())
        })
        .collect();
    let nulls = fields
        .map(|(field, name)| {
            let null = ScalarValue::try_from(field.data_type()).map_err(from_datafusion)?;
            Ok((Arc::new(Literal::new(null)) as Arc<dyn PhysicalExpr>, name.clone()))
        })
        .collect::<Result<_>>()?;
    let groups = message.sets.into_iter().map(|set| set.nulls).collect();
    let sets = PhysicalGroupBy::new(columns, nulls, groups, true);
    Ok(Arc::new(ExpandSetsExec::try_new(Arc::clone(input), &sets).map_err(from_datafusion)?))
}

/// Returns whether `node` only concerns rows that scans of one process share.
pub(super) fn is_scope(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.is::<SharedRowsScopeExec>()
}
