//! Scripts: `-c` and `-f` in the order they were given.

use std::sync::Arc;

use anyhow::Result;

use crate::args::{Script, SqlArgs};
use crate::session::Session;

/// Runs all scripts; the first error ends it.
pub async fn scripts(args: SqlArgs) -> Result<()> {
    let scripts = args.scripts.0.clone();
    let mut session = Session::open(args, false).await?;
    let engine = Arc::clone(session.engine());
    let done = run(&mut session, scripts).await;
    drop(session);
    engine.settle().await;
    done
}

async fn run(session: &mut Session, scripts: Vec<Script>) -> Result<()> {
    for script in scripts {
        match script {
            Script::Command(sql) => session.run_script("", &sql).await?,
            Script::File(name) => {
                let text = session.read_script(&name).await?;
                session.run_script(&name, &text).await?;
            }
        }
    }
    session.finish()
}
