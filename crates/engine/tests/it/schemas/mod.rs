//! Tables of several files with different columns: what is a table, and the right rows of it, from
//! local files and at every level.

mod json;
mod parquet;
mod text;

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::world::{World, failure, rows};

const LEVELS: [&str; 3] = ["none", "select", "fragment"];

/// Files on a node and in a local folder, under the same names.
struct Files {
    world: World,
    folder: TempDir,
}

impl Files {
    async fn new(files: &[(&str, Vec<u8>)]) -> Self {
        let (world, folder) = (World::node().await, tempfile::tempdir().expect("a folder"));
        for (path, bytes) in files {
            world.put(path, bytes.clone()).await;
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).expect("a folder");
            fs::write(path, bytes).expect("a file");
        }
        Self { world, folder }
    }

    async fn texts(files: &[(&str, &str)]) -> Self {
        let files: Vec<_> = files.iter().map(|(path, text)| (*path, text.as_bytes().to_vec())).collect();
        Self::new(&files).await
    }

    /// Runs each statement on the local files and at every level. `{}` in it is where they lie.
    /// Statements before the last, behind a semicolon, have no rows.
    async fn answer(&self, statements: &[(&str, &[&[&str]])]) {
        let local = self.folder.path().display().to_string();
        let places = [("auto", local.as_str())].into_iter().chain(LEVELS.map(|level| (level, "s3://data")));
        for (level, place) in places {
            for (sql, expected) in statements {
                let engine = self.world.engine(level).await;
                let sql = sql.replace("{}", place);
                let (before, last) = sql.rsplit_once(';').unwrap_or(("", &sql));
                for statement in before.split(';').filter(|statement| !statement.is_empty()) {
                    engine.execute(statement).await.unwrap_or_else(|error| panic!("{statement} at {level}: {error}"));
                }
                let (got, _) = rows(&engine, last).await.unwrap_or_else(|error| panic!("{sql} at {level}: {error}"));
                assert_eq!(got, *expected, "{sql} at {level}");
            }
        }
    }

    /// Asks for an error, everywhere, that holds all of these parts.
    async fn refuse(&self, sql: &str, parts: &[&str]) {
        let local = self.folder.path().display().to_string();
        let places = [("auto", local.as_str())].into_iter().chain(LEVELS.map(|level| (level, "s3://data")));
        for (level, place) in places {
            let engine = self.world.engine(level).await;
            let error = failure(&engine, &sql.replace("{}", place)).await.to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{sql} at {level}: {error}");
        }
    }
}
