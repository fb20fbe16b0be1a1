//! The fragment route: a typed fragment over many splits, answered in Arrow
//! (`docs/fragment-route.md`).
//!
//! A request is decoded and validated before the response begins, so that an invalid one is an
//! error response. After that a split that fails is reported in its own event, and only a response
//! with an End event is complete.
//!
//! - [`splits`] scans the splits on the threads of scans;
//! - [`lookup`] finds their rows by the indexes that the request names;
//! - [`batches`] encodes their rows as Arrow messages;
//! - [`stream`] merges them into one response that says which split is complete;
//! - [`ranges`] answers with byte ranges as they are.

mod batches;
mod context;
mod lookup;
mod ranges;
mod splits;
mod stream;

use std::time::Duration;

use pushdowndb_contract::Result;
use pushdowndb_contract::wire::Request;
use pushdowndb_scan::Evaluator;

use batches::BatchWriter;
use splits::SplitScanner;

pub(crate) use context::{Body, Objects, RequestContext};

/// Starts the response. Its permit is released when the response ends or is dropped.
pub(crate) fn answer(request: Request, context: RequestContext) -> Result<Body> {
    let longest = context.limits.select_time;
    match request {
        Request::Fragment(request) => {
            let max_time = if request.deadline == Duration::ZERO { longest } else { request.deadline.min(longest) };
            if let Some(predicate) = &request.fragment.predicate {
                Evaluator::predicate(predicate, &request.fragment.schema)?;
            }
            let writer = BatchWriter::new(&request)?;
            let context = RequestContext { permit: context.permit.within(max_time), ..context };
            let scanner = SplitScanner::new(*request, &context)?;
            Ok(stream::start(context, max_time, move |out| stream::scan(out, scanner, writer)))
        }
        Request::Ranges(request) => Ok(stream::start(context, longest, move |out| ranges::send(out, request))),
    }
}
