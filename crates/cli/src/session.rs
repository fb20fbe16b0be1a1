//! A session: an engine and the format of its results. Scripts and the shell run their statements
//! here.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use futures::StreamExt;
use pushdowndb_contract::Error;
use pushdowndb_engine::{ConnectionConfig, Engine, EngineConfig, QueryContext, QueryResult, Statement, StatementKind};

use crate::args::{ConnectionArgs, SqlArgs};
use crate::interrupt::Interrupts;
use crate::print::{self, Located, Output, OutputFormat, StatsFormat, TableStyle};
use crate::profiles::Profiles;
use crate::progress::{QueryBar, TICK};

/// The settings of the shell's commands.
#[derive(Clone, Debug)]
pub struct View {
    /// The format of results.
    pub format: OutputFormat,
    /// The format of the statistics after each result, if any.
    pub stats: StatsFormat,
    /// True if each statement is followed by its time.
    pub timing: bool,
    /// True for one line per value instead of one per row.
    pub expanded: bool,
    /// A terminal shows at most this many rows of a table; `None` shows all.
    pub max_rows: Option<usize>,
}

/// An engine and how its results are shown.
pub struct Session {
    engine: Arc<Engine>,
    /// Reads scripts where the engine is held to a policy.
    scripts: Option<Engine>,
    interrupts: Interrupts,
    /// The view of results.
    pub view: View,
    output: Output,
    /// The format of results on the screen, while they go to a file.
    format_before: Option<OutputFormat>,
    /// Results in the present output: only one fits into a file of a columnar format.
    results: usize,
    stats_file: Option<File>,
    profiles: Option<Profiles>,
    interactive: bool,
}

impl Session {
    /// Starts an engine as the arguments say.
    pub async fn open(args: SqlArgs, interactive: bool) -> Result<Self> {
        let format = match (args.format, args.output.as_deref()) {
            (Some(format), _) => format,
            (None, Some(path)) => OutputFormat::of_name(path)?,
            (None, None) => OutputFormat::Table,
        };
        // Statistics that were asked for by naming a file, but not in a form, are for programs.
        let stats = match (args.stats, &args.stats_file) {
            (StatsFormat::None, Some(_)) => StatsFormat::Json,
            (stats, _) => stats,
        };
        let stats_file = args.stats_file.as_deref().map(create).transpose()?;
        let profiles = args.profile.map(Profiles::new).transpose()?;
        let output = args.output.as_deref().map(Output::file).transpose()?.unwrap_or_else(Output::stdout);
        let catalog = args.catalog.or_else(|| if interactive { default_catalog() } else { None });
        let cache = args.cache.or_else(default_cache);
        let connection = connection_config(&args.connection);
        // Scripts are named by the caller, not by SQL.
        let scripts = match args.access.is_given() {
            true => {
                let connection = connection.clone();
                Some(Engine::new(EngineConfig { connection, ..EngineConfig::unrestricted() }).await?)
            }
            false => None,
        };
        let (access, settings) = (args.access.policy(), args.settings);
        let engine = Engine::new(EngineConfig { access, connection, settings, catalog, cache }).await?;
        let interrupts = if interactive { Interrupts::ctrl_c()? } else { Interrupts::all()? };
        let max_rows = (interactive && output.is_terminal()).then_some(40);
        let view = View { format, stats, timing: false, expanded: false, max_rows };
        Ok(Self {
            engine: Arc::new(engine),
            scripts,
            interrupts,
            view,
            output,
            format_before: None,
            results: 0,
            stats_file,
            profiles,
            interactive,
        })
    }

    /// The engine.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Runs every statement of a script; nothing runs unless all of it parses.
    pub async fn run_script(&mut self, name: &str, sql: &str) -> Result<()> {
        let located = |error, sql: &str, lines_before| {
            anyhow::Error::new(Located { script: name.to_owned(), sql: sql.to_owned(), lines_before, error })
        };
        let statements = self.engine.parse(sql).map_err(|error| located(error, sql, 0))?;
        let interrupts = self.interrupts.clone();
        for statement in statements {
            let done = interrupts.during(self.run(&statement)).await;
            done.map_err(|error| match error.downcast::<Error>() {
                Ok(error) => located(error, &statement.text, statement.line.saturating_sub(1)),
                Err(other) => other,
            })?;
        }
        Ok(())
    }

    /// Runs a statement and prints its rows.
    async fn run(&mut self, statement: &Statement) -> Result<()> {
        let started = Instant::now();
        let mut bar = QueryBar::new();
        let mut ticks = tokio::time::interval(TICK);
        let engine = Arc::clone(&self.engine);
        let context: OnceLock<Arc<QueryContext>> = OnceLock::new();
        let planned = engine.run(statement, |started| drop(context.set(started)));
        tokio::pin!(planned);
        let mut result: QueryResult = loop {
            tokio::select! {
                biased;
                planned = &mut planned => break planned?,
                _ = ticks.tick() => bar.tick(context.get().map(|context| &context.progress).filter(|p| p.bytes().1 > 0)),
            }
        };

        let has_rows = result.kind == StatementKind::Rows && !result.schema.fields().is_empty();
        let mut rows = if has_rows { Some(self.start_rows(&result)?) } else { None };
        let context = result.context().clone();
        loop {
            let batch = tokio::select! {
                biased;
                batch = result.next() => batch,
                _ = ticks.tick() => {
                    bar.tick(Some(&context.progress));
                    continue;
                }
            };
            let Some(batch) = batch else { break };
            let batch = batch?;
            if let Some(rows) = &mut rows {
                if self.output.is_terminal() {
                    bar.clear();
                }
                rows.write(&batch).map_err(|e| self.output.explain(e))?;
            }
        }
        bar.clear();
        if let Some(rows) = rows {
            rows.finish().map_err(|e| self.output.explain(e))?;
            self.write_stats(&result)?;
            if let Some(profiles) = &mut self.profiles {
                profiles.add(result.profile())?;
            }
        }
        if self.view.timing {
            eprintln!("time: {}", print::units::duration(started.elapsed()));
        }
        Ok(())
    }

    fn start_rows(&mut self, result: &QueryResult) -> Result<Box<dyn print::RowWriter>> {
        let format = self.view.format;
        if format.is_binary() {
            if self.output.is_terminal() {
                let message =
                    format!("{format:?} is not for terminals; use --output FILE (\\o FILE in the shell) or a pipe");
                return Err(Error::invalid(message).into());
            }
            if self.results > 0 {
                bail!(Error::invalid(format!("only one result fits into a file of {format:?}; this is the second")));
            }
        }
        self.results += 1;
        let on_screen = self.output.is_terminal();
        let style = TableStyle {
            max_rows: self.view.max_rows.filter(|_| on_screen),
            width: if self.interactive && on_screen { screen_width() } else { None },
            expanded: self.view.expanded,
            footer: self.interactive && on_screen,
        };
        print::rows(format, &result.schema, &self.output, style).map_err(|e| self.output.explain(e))
    }

    fn write_stats(&mut self, result: &QueryResult) -> Result<()> {
        let text = print::stats(&result.report(), self.view.stats);
        match &mut self.stats_file {
            Some(file) => file.write_all(text.as_bytes()).context("writing statistics")?,
            None => eprint!("{text}"),
        }
        Ok(())
    }

    /// Reads a script, local or in object storage; `-` is stdin.
    pub async fn read_script(&self, name: &str) -> Result<String> {
        let read = async {
            match name {
                "-" => tokio::task::spawn_blocking(|| std::io::read_to_string(std::io::stdin()))
                    .await?
                    .context("reading stdin"),
                name => Ok(self.scripts.as_ref().unwrap_or(self.engine.as_ref()).read_text(name).await?),
            }
        };
        self.interrupts.during(read).await
    }

    /// Redirects the following results to a file, in the format of its extension, or back to
    /// stdout.
    pub fn redirect(&mut self, path: Option<&Path>) -> Result<()> {
        let format = path.map(OutputFormat::of_name).transpose()?;
        let next = path.map(Output::file).transpose()?.unwrap_or_else(Output::stdout);
        self.output.finish()?;
        self.output = next;
        self.results = 0;
        let before = self.format_before.take().unwrap_or(self.view.format);
        self.view.format = format.filter(|format| *format != OutputFormat::Table).unwrap_or(before);
        self.format_before = path.map(|_| before);
        Ok(())
    }

    /// Writes a page on the following queries to this file, or stops to.
    pub fn profile(&mut self, path: Option<&Path>) -> Result<()> {
        self.profiles = path.map(|path| Profiles::new(path.to_owned())).transpose()?;
        Ok(())
    }

    /// Ends the session; a file of results gets its name now.
    pub fn finish(&self) -> Result<()> {
        self.output.finish()
    }
}

/// Converts the flags of a connection; the engine reads the `AWS_*` variables itself.
pub fn connection_config(connection: &ConnectionArgs) -> ConnectionConfig {
    if connection.insecure {
        eprintln!(
            "warning: --insecure accepts any certificate: whoever is in between can read and change what is sent"
        );
    }
    ConnectionConfig {
        endpoint: connection.endpoint.clone(),
        region: connection.region.clone(),
        access_key_id: connection.access_key_id.clone(),
        secret_access_key: connection.secret_access_key.clone(),
        session_token: connection.session_token.clone(),
        profile: connection.aws_profile.clone(),
        anonymous: connection.anonymous,
        requester_pays: connection.requester_pays,
        insecure: connection.insecure,
    }
}

/// Returns the default file of declared tables.
fn default_catalog() -> Option<std::path::PathBuf> {
    Some(dirs::data_dir()?.join("pushdowndb").join("catalog.sql"))
}

/// Returns the default folder of statistics and endpoint profiles.
fn default_cache() -> Option<std::path::PathBuf> {
    Some(dirs::cache_dir()?.join("pushdowndb"))
}

fn create(path: &Path) -> Result<File> {
    File::create(path).with_context(|| format!("writing statistics to {}", path.display()))
}

fn screen_width() -> Option<usize> {
    terminal_size::terminal_size().map(|(width, _)| usize::from(width.0))
}
