//! The HTTP server: a listener, and the middleware between a connection and the S3 service.

mod listener;
mod middleware;

pub(crate) use listener::Listener;
pub(crate) use middleware::Middleware;
