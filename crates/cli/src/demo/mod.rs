//! `demo`: the savings of pushdown, shown on generated data.
//!
//! It all happens in one temporary folder and one process: the data, a storage node on a free
//! loopback port, and the engine. Each query runs at every level, and the rows must agree. The
//! folder is removed at the end, also after an error or Ctrl-C, unless `--keep` is given.

mod compare;
mod queries;
mod report;

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use futures::StreamExt;
use pushdowndb_contract::{Error, ErrorKind};
use pushdowndb_datagen::{Destination, Options, generate};
use pushdowndb_engine::{Engine, EngineConfig, Report};
use pushdowndb_node::{Node, NodeConfig, start};

use crate::args::{ConnectionArgs, DemoArgs};
use crate::interrupt::Interrupts;
use crate::print::{self, units};
use crate::session::connection_config;
use crate::{destination, progress};
use report::{LEVELS, Outcome};

const BUCKET: &str = "demo";

/// Runs the demonstration.
pub async fn demo(args: DemoArgs) -> Result<()> {
    if let Some(folder) = &args.keep {
        return keep(&args, folder).await;
    }
    let folder = tempfile::Builder::new().prefix("pushdowndb-demo-").tempdir().context("making a temporary folder")?;
    // Registered before the node starts, so that no signal leaves the folder behind.
    let interrupts = Interrupts::all()?;
    let node = start(NodeConfig::store(folder.path())).await?;
    let done = interrupts.during(show(&args, &node)).await;
    node.shutdown().await;
    // Removed explicitly, so that a failure is reported: a demonstration leaves nothing behind.
    let path = folder.path().to_owned();
    let removed = folder.close().with_context(|| format!("removing {}", path.display()));
    let seconds = done?;
    removed?;
    eprintln!("\ndone in {seconds}; the node is stopped and its data removed: --keep leaves both");
    Ok(())
}

/// Runs the demonstration with its data in `folder`, and serves them until a signal.
async fn keep(args: &DemoArgs, folder: &Path) -> Result<()> {
    if folder.exists() {
        let folder = folder.display();
        let message =
            format!("{folder} is there already: pushdowndb serve --store {folder} serves it, or name another");
        return Err(Error::new(ErrorKind::Conflict, message).into());
    }
    let interrupts = Interrupts::all()?;
    let node = start(NodeConfig::store(folder)).await?;
    let done = interrupts.during(show(args, &node)).await;
    if let Ok(seconds) = &done {
        eprintln!("\ndone in {seconds}");
        print::print_line(next_steps(&node, folder))?;
        interrupts.received().await;
    }
    node.shutdown().await;
    done.map(|_| ())
}

/// Commands to type while the node serves, and how to start the node again.
fn next_steps(node: &Node, folder: &Path) -> String {
    let (endpoint, keys, folder) = (node.endpoint(), node.credentials(), folder.display());
    let schema = format!("s3://{BUCKET}/tpch/schema.sql");
    format!(
        "The node goes on until Ctrl-C, with its data in {folder}. In another terminal:\n\n\
         export AWS_ENDPOINT_URL={endpoint}\nexport AWS_ACCESS_KEY_ID={}\nexport AWS_SECRET_ACCESS_KEY={}\n\
         pushdowndb -f {schema} --stats table -c \"SELECT l_shipmode, count(*) FROM lineitem GROUP BY 1\"\n\
         pushdowndb -f {schema} -c \"EXPLAIN ANALYZE SELECT sum(l_quantity) FROM lineitem WHERE l_shipdate < DATE '1993-01-01'\"\n\
         pushdowndb                                     # the shell: \\i {schema}, \\d lineitem, \\?\n\n\
         Tomorrow: pushdowndb serve --store {folder}",
        keys.access_key_id, keys.secret_access_key
    )
}

/// Runs the queries at every level and prints the comparison. Returns how long that took.
async fn show(args: &DemoArgs, node: &Node) -> Result<String> {
    let started = Instant::now();
    let connection = ConnectionArgs {
        endpoint: Some(node.endpoint().to_string()),
        region: Some("us-east-1".into()),
        access_key_id: Some(node.credentials().access_key_id.clone()),
        secret_access_key: Some(node.credentials().secret_access_key.clone()),
        ..ConnectionArgs::default()
    };
    let format = Options { scale: args.scale, format: args.format, parts: 4, overwrite: false };
    let connection = connection_config(&connection);
    let engine = Engine::new(EngineConfig { connection, ..EngineConfig::unrestricted() }).await?;
    let address = format!("s3://{BUCKET}/tpch");
    engine.create_bucket(&address).await?;
    let destination = destination::open(&address, &engine)?;
    let (endpoint, scale, sql_format) = (node.endpoint(), args.scale, args.format.sql());
    print::print_line(format_args!("A storage node at {endpoint} with TPC-H at scale {scale} as {sql_format}:"))?;
    make_data(format, &destination).await?;

    let schema = engine.read_text(&format!("{}/schema.sql", destination.url)).await?;
    run(&engine, &schema).await?;
    let mut outcomes = Vec::new();
    let bar = progress::bar("{elapsed_precise} {bar:40.cyan/dim} {msg}");
    bar.set_length(queries::QUERIES.len() as u64);
    for query in queries::QUERIES {
        bar.set_message(query.name);
        let (rows, none) = at_level(&engine, "none", query.sql).await.with_context(|| query.name)?;
        let mut reports = vec![none];
        for level in &LEVELS[1..] {
            let (pushed, report) = at_level(&engine, level, query.sql).await.with_context(|| query.name)?;
            if let Err(difference) = compare::same_rows(&rows, &pushed) {
                bail!(Error::internal(format!("{}: other rows at level {level}: {difference}", query.name)));
            }
            reports.push(report);
        }
        outcomes.push(Outcome { name: query.name, about: query.about, reports });
        bar.inc(1);
    }
    bar.finish_and_clear();
    ensure!(!outcomes.is_empty(), "no query ran");

    let mut text = report::table(&outcomes);
    text.push('\n');
    text.push_str(&report::picture(&outcomes));
    text.push('\n');
    text.push_str(&report::remarks(&outcomes));
    print::print_line(text.trim_end())?;
    Ok(units::duration(started.elapsed()))
}

async fn make_data(options: Options, destination: &Destination) -> Result<()> {
    let bar = progress::bar("{elapsed_precise} {bar:40.cyan/dim} {percent:>3}% {msg}");
    let summary = generate(options, destination, |progress| {
        bar.set_length(progress.rows_expected.max(1));
        bar.set_position(progress.rows.min(progress.rows_expected));
        bar.set_message(format!("generating, {}", units::bytes(progress.bytes)));
    })
    .await?;
    bar.finish_and_clear();
    let rows = summary.rows.iter().map(|(_, rows)| rows).sum();
    let (rows, bytes, objects) = (units::count(rows), units::bytes(summary.bytes), summary.objects);
    print::print_line(format_args!("{rows} rows, {bytes}, {objects} objects.\n"))
}

type Rows = Vec<arrow::record_batch::RecordBatch>;

/// Returns the strategies that force pushdown: by default the engine reads plainly where that is
/// faster, as on a loopback network, and would show no savings.
fn strategies(level: &str) -> [(&'static str, &'static str); 6] {
    let (side, join, group_by, top_k, adaptive) = match level {
        "none" => ("auto", "auto", "auto", "auto", "auto"),
        "select" => ("storage", "bloom", "filtered", "sampling", "none"),
        _ => ("storage", "bloom", "storage", "storage", "none"),
    };
    [
        ("filter", side),
        ("aggregate", side),
        ("join", join),
        ("group_by", group_by),
        ("top_k", top_k),
        ("adaptive", adaptive),
    ]
}

async fn at_level(engine: &Engine, level: &str, sql: &str) -> Result<(Rows, Report)> {
    run(engine, &format!("SET pushdown.level = '{level}'")).await?;
    for (name, value) in strategies(level) {
        run(engine, &format!("SET pushdown.{name} = '{value}'")).await?;
    }
    run(engine, sql).await
}

async fn run(engine: &Engine, sql: &str) -> Result<(Rows, Report)> {
    let mut rows = Vec::new();
    let mut report = None;
    for statement in engine.parse(sql)? {
        let mut result = engine.run(&statement, |_| ()).await?;
        while let Some(batch) = result.next().await {
            rows.push(batch?);
        }
        report = Some(result.report());
    }
    Ok((rows, report.context("no statement")?))
}
