//! `pushdowndb` and `pushdowndb sql`: runs scripts (`-c`, `-f`), or the shell if there are none.

use std::sync::Arc;

use anyhow::Result;
use tokio::runtime::Runtime;

use crate::args::{Script, SqlArgs};
use crate::session::Session;
use crate::shell;

/// Runs the scripts in the order they were given, up to the first error, or the shell if there are
/// none.
pub fn sql(runtime: &Runtime, args: SqlArgs) -> Result<()> {
    if args.scripts.0.is_empty() {
        return shell::shell(runtime, args);
    }
    // Runs on a worker thread, so that the tasks it starts find this thread's core idle.
    let done = runtime.spawn(async move {
        let scripts = args.scripts.0.clone();
        let mut session = Session::open(args, false).await?;
        let engine = Arc::clone(session.engine());
        let mut done = Ok(());
        for script in scripts {
            let read = match script {
                Script::Command(sql) => Ok((String::new(), sql)),
                Script::File(name) => session.read_script(&name).await.map(|text| (name, text)),
            };
            done = match read {
                Ok((name, text)) => {
                    let (used, done) = shell::run_script(session, &name, &text).await;
                    session = used;
                    done
                }
                Err(error) => Err(error),
            };
            if done.is_err() {
                break;
            }
        }
        let done = done.and_then(|()| session.finish());
        drop(session);
        engine.settle().await;
        done
    });
    runtime.block_on(done).unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}
