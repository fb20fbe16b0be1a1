//! Scripts: `-c` and `-f` in the order they were given.

use anyhow::Result;

use crate::args::{Script, SqlArgs};
use crate::session::Session;

/// Runs all scripts; the first error ends it.
pub async fn scripts(args: SqlArgs) -> Result<()> {
    let scripts = args.scripts.0.clone();
    let mut session = Session::open(args, false).await?;
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
