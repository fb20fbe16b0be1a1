//! The S3 Select dialect in both directions, requests and event-stream frames.
