//! A session: an engine and the format of its results. Scripts and the shell run their statements
//! here.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use futures::StreamExt;
use pushdowndb_contract::{Error, ErrorKind};
use pushdowndb_cost::RequestKind;
use pushdowndb_engine::{ConnectionConfig, Engine, EngineConfig, QueryContext, QueryResult, Statement, StatementKind};

use crate::args::{ConnectionArgs, SqlArgs};
use crate::cluster::cluster;
use crate::exit_code;
use crate::interrupt::Interrupts;
use crate::print::{self, Located, Output, OutputFormat, StatsFormat, TableStyle};
use crate::profiles::Profiles;
use crate::progress::{QueryBar, TICK};
use crate::to_stdout;

/// Default number of rows of a table that a terminal shows; `\rows` changes it.
const MAX_ROWS: usize = 40;

/// How results are shown, as the shell's commands set it.
#[derive(Clone, Debug)]
pub struct View {
    /// The format of results.
    pub format: OutputFormat,
    /// The format of the statistics after each result, if any.
    pub stats: StatsFormat,
    /// Whether the time of each statement is printed after it.
    pub timing: bool,
    /// Whether to print one line per value instead of one per row.
    pub expanded: bool,
    /// A terminal shows at most this many rows of a table; `None` shows all.
    pub max_rows: Option<usize>,
    /// The command of the pager that shows results on a terminal.
    pub pager: Option<String>,
}

/// An engine and how its results are shown.
pub struct Session {
    engine: Arc<Engine>,
    /// An unrestricted engine that reads scripts, if the engine itself has an access policy.
    scripts: Option<Engine>,
    interrupts: Interrupts,
    /// How results are shown.
    pub view: View,
    output: Output,
    /// The format of results on the screen, which is restored when results no longer go to a file.
    format_before: Option<OutputFormat>,
    /// Number of results in the current output: a file of a columnar format holds only one.
    results: usize,
    stats_file: Option<File>,
    profiles: Option<Profiles>,
}

impl Session {
    /// Opens a session with an engine that is configured by the arguments.
    pub async fn open(args: SqlArgs, interactive: bool) -> Result<Self> {
        let format = match (args.format, args.output.as_deref()) {
            (Some(format), _) => format,
            (None, Some(path)) => OutputFormat::of_name(path)?,
            (None, None) => OutputFormat::Table,
        };
        // Statistics that go to a file are JSON by default, since they are for programs.
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
        let cluster = cluster(&args.cluster)?;
        // Scripts are named by the caller, not by SQL, so the access policy does not apply to them.
        let scripts = match args.access.is_given() {
            true => {
                let connection = connection.clone();
                Some(Engine::new(EngineConfig { connection, ..EngineConfig::unrestricted() }).await?)
            }
            false => None,
        };
        let (access, settings) = (args.access.policy(), args.settings);
        let engine = Engine::new(EngineConfig { access, connection, settings, catalog, cache, cluster }).await?;
        let interrupts = if interactive { Interrupts::ctrl_c()? } else { Interrupts::all()? };
        output.stop_at(&interrupts);
        let max_rows = output.is_terminal().then_some(MAX_ROWS);
        let view = View { format, stats, timing: false, expanded: false, max_rows, pager: None };
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
        })
    }

    /// The engine.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Parses statements of the script `name`, which come after `lines_before` lines of it.
    pub fn parse(&self, name: &str, sql: &str, lines_before: usize) -> Result<Vec<Statement>> {
        let located = |error| Located { script: name.to_owned(), sql: sql.to_owned(), lines_before, error };
        self.engine.parse(sql).map_err(|error| anyhow::Error::new(located(error)))
    }

    /// Runs all statements of a part of the script `name`, which comes after `lines_before` lines
    /// of it. Nothing runs unless all statements parse.
    pub async fn run_script(&mut self, name: &str, sql: &str, lines_before: usize) -> Result<()> {
        let interrupts = self.interrupts.clone();
        for statement in self.parse(name, sql, lines_before)? {
            let done = interrupts.during(self.run(&statement)).await;
            // Output that is still buffered is not wanted after a cancellation.
            if done.as_ref().is_err_and(is_cancelled) {
                self.output.discard();
            }
            done.map_err(|error| match error.downcast::<Error>() {
                Ok(error) => anyhow::Error::new(Located {
                    script: name.to_owned(),
                    sql: statement.text.clone(),
                    lines_before: lines_before + statement.line.saturating_sub(1),
                    error,
                }),
                Err(other) => other,
            })?;
        }
        Ok(())
    }

    /// The signals that cancel statements.
    pub fn interrupts(&self) -> &Interrupts {
        &self.interrupts
    }

    /// Runs a statement and prints its rows; those of COPY TO STDOUT are printed in its format.
    async fn run(&mut self, statement: &Statement) -> Result<()> {
        let Some((query, format)) = to_stdout::query(&statement.text)? else {
            return self.run_statement(statement).await;
        };
        let before = std::mem::replace(&mut self.view.format, format);
        let done = async {
            for mut statement_of_query in self.engine.parse(&query)? {
                statement_of_query.line = statement.line;
                self.run_statement(&statement_of_query).await?;
            }
            Ok::<(), anyhow::Error>(())
        }
        .await;
        self.view.format = before;
        done
    }

    async fn run_statement(&mut self, statement: &Statement) -> Result<()> {
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
        let output = match &self.view.pager {
            Some(command) if has_rows && self.output.is_terminal() => {
                bar.clear();
                Output::pager(command)?
            }
            _ => self.output.clone(),
        };
        let mut rows = if has_rows { Some(self.start_rows(&result, &output)?) } else { None };
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
                match rows.write(&batch).map_err(|e| output.explain(e)) {
                    // The reader has left the pager, so the rest is not wanted.
                    Err(error) if output.is_pager() && print::is_closed(&error) => break,
                    written => written?,
                }
            }
        }
        bar.clear();
        if let Some(rows) = rows {
            match rows.finish().map_err(|e| output.explain(e)) {
                Err(error) if output.is_pager() && print::is_closed(&error) => {}
                finished => finished?,
            }
            if output.is_pager() {
                output.finish()?;
            }
            if let Some(profiles) = &mut self.profiles {
                profiles.add(result.profile())?;
            }
        }
        if has_rows || is_paid_for(&result) {
            self.write_stats(&result)?;
        }
        if self.view.timing {
            eprintln!("time: {}", print::units::duration(started.elapsed()));
        }
        Ok(())
    }

    fn start_rows(&mut self, result: &QueryResult, output: &Output) -> Result<Box<dyn print::RowWriter>> {
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
        let is_whole = output.is_pager();
        let style = TableStyle {
            max_rows: self.view.max_rows.filter(|_| on_screen && !is_whole),
            width: if on_screen && !is_whole { screen_width() } else { None },
            expanded: self.view.expanded,
            footer: on_screen,
            types: on_screen,
            colors: on_screen && !is_whole && has_colors(),
        };
        print::rows(format, &result.schema, output, style).map_err(|e| output.explain(e))
    }

    fn write_stats(&mut self, result: &QueryResult) -> Result<()> {
        let text = print::stats(&result.report(), self.view.stats);
        match &mut self.stats_file {
            Some(file) => file.write_all(text.as_bytes()).context("writing statistics")?,
            None => eprint!("{text}"),
        }
        Ok(())
    }

    /// Reads a script from a local file or object storage; `-` is stdin.
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
        next.stop_at(&self.interrupts);
        self.output = next;
        self.results = 0;
        let before = self.format_before.take().unwrap_or(self.view.format);
        self.view.format = format.filter(|format| *format != OutputFormat::Table).unwrap_or(before);
        self.format_before = path.map(|_| before);
        Ok(())
    }

    /// Writes the profile page about the following queries to the file `path`; `None` stops this.
    pub fn profile(&mut self, path: Option<&Path>) -> Result<()> {
        self.profiles = path.map(|path| Profiles::new(path.to_owned())).transpose()?;
        Ok(())
    }

    /// Ends the session. A file of results gets its final name now.
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

/// Whether a statement without rows sent requests, or created a table from the rows of a query.
fn is_paid_for(result: &QueryResult) -> bool {
    let usage = result.report().usage;
    result.kind == StatementKind::Definition
        && (usage.rows > 0
            || usage.bytes_network > 0
            || RequestKind::ALL.iter().any(|kind| usage.requests.of(*kind) > 0))
}

fn is_cancelled(error: &anyhow::Error) -> bool {
    exit_code::kind(error) == Some(ErrorKind::Cancelled)
}

/// Whether colors are allowed: not if `NO_COLOR` (<https://no-color.org>) is set or the terminal is
/// a dumb one.
fn has_colors() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !is_set("NO_COLOR") && std::env::var_os("TERM").is_some_and(|term| term != "dumb")
}

fn screen_width() -> Option<usize> {
    terminal_size::terminal_size().map(|(width, _)| usize::from(width.0))
}
