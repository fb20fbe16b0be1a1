//! Errors of workers and of the connections to them.

use std::error::Error as StdError;

use datafusion::common::DataFusionError;
use pushdowndb_contract::{Error, ErrorKind};
use tonic::{Code, Status};
use url::Url;

/// The part of an error's text which says that a worker did not answer, or stopped in the middle of
/// an answer. It is recognized by its text, since workers report errors of other workers as text.
const LOST: &str = "was lost while the query ran";

/// The text before the address of a lost worker.
const WORKER: &str = "the worker ";

/// Converts an error of this project to one of DataFusion.
pub(crate) fn to_datafusion(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Converts the error of a request to the worker at `url`. The address is added if the worker is
/// lost.
pub(crate) fn of_worker(url: &Url, error: DataFusionError) -> DataFusionError {
    match status(&error) {
        None => error,
        Some(status) if status.code() == Code::Unauthenticated => to_datafusion(refused(url)),
        Some(status) => {
            let message = format!("{WORKER}{} {LOST}: {}; run the query again", shown(url), told(status));
            to_datafusion(Error::new(ErrorKind::Unavailable, message))
        }
    }
}

/// The error for a worker that does not accept the token.
pub(crate) fn refused(url: &Url) -> Error {
    Error::new(ErrorKind::Denied, format!("the worker {} refuses the token: it was started with another", shown(url)))
}

/// Whether `error` says that a worker was lost.
pub(crate) fn is_lost(error: &DataFusionError) -> bool {
    error.to_string().contains(LOST)
}

/// Sets the kind of an error that says, if only as text from another worker, that a worker was
/// lost. Returns other errors unchanged.
pub(crate) fn of_lost(error: DataFusionError) -> DataFusionError {
    if !is_lost(&error) {
        return error;
    }
    let text = error.to_string();
    let told = text.find(WORKER).and_then(|start| text.get(start..)).unwrap_or(&text);
    to_datafusion(Error::new(ErrorKind::Unavailable, told))
}

/// The gRPC status in an error, if the call failed without an answer of the worker itself.
pub(crate) fn status(error: &DataFusionError) -> Option<&Status> {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(link) = cause {
        if let Some(status) = link.downcast_ref::<Status>() {
            return Some(status);
        }
        if let Some(DataFusionError::Shared(inner)) = link.downcast_ref::<DataFusionError>() {
            cause = Some(inner.as_ref());
            continue;
        }
        cause = link.source();
    }
    None
}

/// The message of a status, with its root cause.
pub(crate) fn told(status: &Status) -> String {
    let mut last = None;
    let mut cause = status.source();
    while let Some(next) = cause {
        (last, cause) = (Some(next.to_string()), next.source());
    }
    match last {
        Some(cause) if !status.message().contains(&cause) => format!("{}: {cause}", status.message()),
        _ => status.message().to_owned(),
    }
}

/// The text of a URL without the slash of an empty path.
pub(crate) fn shown(url: &Url) -> &str {
    url.as_str().trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_silence_means_that_a_worker_is_gone() {
        let url = Url::parse("http://a:1").unwrap();
        let external = |status: Status| DataFusionError::External(Box::new(status));
        let gone = of_worker(&url, external(Status::unavailable("tcp connect error")));
        assert!(is_lost(&gone) && gone.to_string().contains("http://a:1 was lost"), "{gone}");
        let denied = of_worker(&url, external(Status::unauthenticated("")));
        assert!(!is_lost(&denied) && denied.to_string().contains("refuses the token"), "{denied}");
        let theirs = of_worker(&url, DataFusionError::Execution("divided by zero".to_owned()));
        assert!(!is_lost(&theirs) && theirs.to_string().contains("divided by zero"));
        // As another worker reports it.
        let reported = of_worker(&url, DataFusionError::Execution(gone.to_string()));
        assert!(is_lost(&reported));
        let DataFusionError::External(named) = of_lost(reported) else { panic!("an error of ours") };
        let named = named.downcast_ref::<Error>().unwrap();
        assert_eq!(named.kind(), ErrorKind::Unavailable);
        assert!(named.to_string().starts_with("the worker http://a:1 was lost"), "{named}");
    }
}
