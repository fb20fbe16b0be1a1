//! Which workers answer.

use std::time::Duration;

use datafusion_distributed::GetWorkerInfoRequest;
use futures::future::join_all;
use pushdowndb_contract::{Error, ErrorKind, Result};
use tonic::Code;
use url::Url;

use crate::channel::Channels;
use crate::error::{refused, shown, status, told};
use crate::version;

/// How long a worker may take to answer a request for its information.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Whether a worker can be used.
enum Answer {
    Yes,
    /// It does not answer, for this reason.
    No(String),
}

/// Returns those of `urls` that answer, in their order, and for each of the others the reason why
/// it does not.
///
/// # Errors
///
/// A worker refuses the token, or runs another version of the program.
pub(crate) async fn answering(channels: &Channels, urls: &[Url]) -> Result<(Vec<Url>, Vec<String>)> {
    let (mut there, mut gone) = (Vec::new(), Vec::new());
    for (url, answer) in urls.iter().zip(join_all(urls.iter().map(|url| ask(channels, url))).await) {
        match answer? {
            Answer::Yes => there.push(url.clone()),
            Answer::No(why) => gone.push(format!("{}: {why}", shown(url))),
        }
    }
    Ok((there, gone))
}

async fn ask(channels: &Channels, url: &Url) -> Result<Answer> {
    let mut client = channels.client(url)?;
    let answer = tokio::time::timeout(ANSWER_TIMEOUT, client.get_worker_info(GetWorkerInfoRequest {})).await;
    let answer = match answer {
        Ok(answer) => answer,
        Err(_) => return Ok(Answer::No(format!("no answer for {} s", ANSWER_TIMEOUT.as_secs()))),
    };
    match answer {
        Ok(info) if info.version == version() => Ok(Answer::Yes),
        Ok(info) => {
            let (theirs, ours) = (info.version, version());
            let message = format!("the worker {} runs version {theirs}, this is {ours}", shown(url));
            Err(Error::new(ErrorKind::Conflict, message))
        }
        Err(error) => match status(&error) {
            Some(status) if status.code() == Code::Unauthenticated => Err(refused(url)),
            Some(status) => Ok(Answer::No(told(status))),
            None => Ok(Answer::No(error.to_string())),
        },
    }
}
