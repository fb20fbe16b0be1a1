//! Serialization of the engine's operators.

use std::sync::Arc;

use datafusion::common::{DataFusionError, Result, not_impl_err};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_distributed::DistributedTaskContext;
use datafusion_proto::physical_plan::from_proto::parse_physical_exprs;
use datafusion_proto::physical_plan::to_proto::serialize_physical_exprs;
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::PhysicalExprNode;
use prost::Message;
use pushdowndb_engine::stages::{NodeParts, node_from_parts, node_to_parts};

use crate::error::to_datafusion;

/// The codec for the engine's operators, by [`node_to_parts`]. Functions need no codec: those that
/// are in no registry are sent with the settings.
#[derive(Debug)]
pub(crate) struct StageCodec;

#[derive(Clone, PartialEq, Message)]
struct OperatorMessage {
    #[prost(bytes = "vec", tag = "1")]
    operator: Vec<u8>,
    #[prost(message, repeated, tag = "2")]
    exprs: Vec<PhysicalExprNode>,
}

impl PhysicalExtensionCodec for StageCodec {
    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buffer: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let Some(NodeParts { bytes, exprs }) = node_to_parts(&node).map_err(to_datafusion)? else {
            return not_impl_err!("{} runs in one process", node.name());
        };
        let exprs = serialize_physical_exprs(&exprs, self, converter)?;
        OperatorMessage { operator: bytes, exprs }
            .encode(buffer)
            .map_err(|error| DataFusionError::External(Box::new(error)))
    }

    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let OperatorMessage { operator, exprs } =
            OperatorMessage::decode(bytes).map_err(|error| DataFusionError::External(Box::new(error)))?;
        let exprs = match inputs.first() {
            Some(input) if !exprs.is_empty() => {
                let decoding = PhysicalPlanDecodeContext::new(context, self);
                parse_physical_exprs(&exprs, &decoding, &input.schema(), converter)?
            }
            _ => vec![],
        };
        let task = context.session_config().get_extension::<DistributedTaskContext>();
        let tasks = task.map_or(1, |task| task.task_count);
        node_from_parts(NodeParts { bytes: operator, exprs }, inputs, tasks, context).map_err(to_datafusion)
    }
}
