//! Measures a grid: each round measures every series once at each point, in turn, so that drift of
//! the machine and the state of caches affect all series alike.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use pushdowndb_contract::Error;
use pushdowndb_engine::{Engine, EngineConfig};

use super::DEFINITIONS;
use super::claims::verdicts;
use super::definition::{Grid, Point, Series};
use super::estimate;
use super::regret;
use super::results::{Cell, Results};
use super::storage::{Question, Storage};
use crate::args::GridArgs;
use crate::contestant::{DataFormat, Kind};
use crate::journal::{Entry, Journal, Outcome};
use crate::link::Link;
use crate::machine::{Machine, first_line};
use crate::programs::Programs;
use crate::record::date;
use crate::signals;

/// Runs the grids whose names begin with one of `names`, and writes a record of each.
pub async fn run(names: &[&str], args: GridArgs) -> Result<()> {
    let out = args.common.out.clone().unwrap_or_else(|| PathBuf::from("experiments-out"));
    std::fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
    let out = out.canonicalize()?;
    let record = args.common.record.clone().unwrap_or_else(|| out.clone());
    std::fs::create_dir_all(&record).with_context(|| record.display().to_string())?;
    let host = Host::look(&out, &args).await?;
    let mut runs = Vec::new();
    for (name, text) in DEFINITIONS.iter().filter(|(name, _)| names.iter().any(|wanted| name.starts_with(wanted))) {
        runs.extend(Run::prepare(name, text, &args, &host, &out)?);
    }
    ensure!(!runs.is_empty(), Error::invalid("--only leaves nothing to measure"));
    let left: f64 = runs.iter().map(Run::left_s).sum();
    for run in &runs {
        eprintln!("{}: {} measurements, about {}", run.name, run.left(), minutes(run.left_s()));
    }
    eprintln!("together about {}, without making the data", minutes(left));
    if args.estimate {
        return Ok(());
    }
    let end = args.budget.map(|minutes| Instant::now() + Duration::from_secs_f64(minutes * 60.0));
    let work = async {
        let link = if host.capped { Link::up()? } else { Link::loopback()? };
        let store = args.common.data.clone().unwrap_or_else(|| out.join("store"));
        let mut storage = Storage::start(link, &host.programs, out.clone(), store)?;
        for run in &mut runs {
            run.rounds(&mut storage, end).await?;
            run.write(&record, &host)?;
        }
        anyhow::Ok(())
    };
    // A signal ends this future, so that the node and the link are taken down.
    signals::during(work).await?;
    for run in runs {
        run.judge()?;
    }
    Ok(())
}

/// The available programs, and the missing ones.
struct Host {
    programs: Programs,
    /// Whether links can be capped.
    capped: bool,
    settings: BTreeSet<String>,
    versions: String,
}

impl Host {
    async fn look(out: &Path, args: &GridArgs) -> Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        ensure!(cores >= 2, Error::unsupported("a node and an engine need a core each, and this machine has one"));
        ensure!(
            first_line("command -v taskset").is_some(),
            Error::unsupported("taskset is missing: install util-linux")
        );
        let programs = Programs::find(args.common.program.as_deref(), out)?;
        let missing = if args.loopback { Some("--loopback".to_owned()) } else { Link::missing() };
        if let Some(why) = &missing {
            eprintln!("left out: all but unshaped: {why}");
        }
        let engine = Engine::new(EngineConfig::unrestricted()).await?;
        let settings = engine.pushdown_settings().into_iter().map(|setting| setting.name);
        let settings = settings.map(|name| name.trim_start_matches("pushdown.").to_owned()).collect();
        let (datafusion, python) = (datafusion::DATAFUSION_VERSION, &programs.python);
        let versions = format!("pushdowndb {}; DataFusion {datafusion}; {python}", env!("CARGO_PKG_VERSION"));
        Ok(Self { programs, capped: missing.is_none(), settings, versions })
    }

    /// Explains why a series cannot be measured here; `None` if it can.
    fn lacks(&self, series: &Series) -> Option<String> {
        let python = |name: &str| {
            self.programs
                .python_version(name)
                .is_none()
                .then(|| format!("{}: python3 cannot import it; pip install {name} pyarrow", series.name))
        };
        match series.kind {
            Kind::Duckdb => python("duckdb"),
            Kind::Polars => python("polars"),
            _ => {
                let unknown = series.settings.keys().find(|name| !self.settings.contains(*name))?;
                Some(format!("{}: this build has no setting pushdown.{unknown}", series.name))
            }
        }
    }
}

/// One grid.
struct Run {
    name: &'static str,
    grid: Grid,
    journal: Journal<Cell>,
    cells: Vec<Planned>,
    wrong: Vec<String>,
    /// Failed measurements of PushdownDB.
    failed: Vec<String>,
    left_out: Vec<String>,
}

/// A cell to measure.
struct Planned {
    cell: Cell,
    /// Indexes in the definition.
    condition: usize,
    point: usize,
    series: usize,
    estimate_s: f64,
}

impl Run {
    /// Plans the cells; `None` if `--only` excludes all of them.
    fn prepare(name: &'static str, text: &str, args: &GridArgs, host: &Host, out: &Path) -> Result<Option<Self>> {
        let mut grid = Grid::parse(text).with_context(|| name.to_owned())?;
        grid.scale *= args.scale.unwrap_or(1.0);
        grid.runs = args.common.runs.unwrap_or(grid.runs);
        let mut cells = Vec::new();
        let mut lacking = BTreeSet::new();
        for (condition_index, condition) in grid.conditions.iter().enumerate() {
            for format in &grid.formats {
                for (point_index, point) in grid.points.iter().enumerate() {
                    for (series_index, series) in grid.series.iter().enumerate() {
                        let cell = Cell {
                            condition: condition.name.clone(),
                            format: *format,
                            point: point.name.clone(),
                            series: series.name.clone(),
                        };
                        if !series.takes(point, *format) || !wanted(&args.common.only, name, &cell) {
                            continue;
                        }
                        // The loopback interface cannot be capped.
                        if !host.capped && condition.mb_per_s > 0 {
                            continue;
                        }
                        if let Some(why) = host.lacks(series) {
                            lacking.insert(why);
                            continue;
                        }
                        let sql = grid.text(point)?;
                        let estimate_s = estimate::seconds(grid.data, grid.scale, condition, *format, series, &sql);
                        let (condition, point, series) = (condition_index, point_index, series_index);
                        cells.push(Planned { cell, condition, point, series, estimate_s });
                    }
                }
            }
        }
        if cells.is_empty() {
            return Ok(None);
        }
        for why in &lacking {
            eprintln!("{name}: left out: {why}");
        }
        let journal = Journal::open(&out.join(format!("{name}.ndjson")), name, grid.scale, &host.programs.build)?;
        Ok(Some(Self {
            name,
            grid,
            journal,
            cells,
            wrong: vec![],
            failed: vec![],
            left_out: lacking.into_iter().collect(),
        }))
    }

    /// The number of measurements that remain.
    fn left(&self) -> usize {
        (0..self.grid.runs).map(|round| self.cells.iter().filter(|planned| self.is_left(planned, round)).count()).sum()
    }

    /// The estimated seconds that the remaining measurements take.
    fn left_s(&self) -> f64 {
        let of = |round| self.cells.iter().filter(move |planned| self.is_left(planned, round));
        (0..self.grid.runs).flat_map(of).map(|planned| planned.estimate_s).sum()
    }

    fn is_left(&self, planned: &Planned, round: u32) -> bool {
        !self.journal.has(&planned.cell, round) && (round == 0 || self.is_near_the_best(planned))
    }

    /// Returns cells that would count as a regret by the runs so far, and the cells they are
    /// compared with.
    fn doubts(&self) -> BTreeSet<Cell> {
        let (results, ..) = Results::of(&self.grid, self.journal.entries());
        let mut doubts = BTreeSet::new();
        for regret in &self.grid.regrets {
            for row in regret::rows(&self.grid, regret, &results) {
                let best = row.above_best.then_some(&row.best_series);
                let baseline = row.above_baseline.then_some(&self.grid.baseline);
                let chosen = best.or(baseline).map(|_| &regret.chosen);
                doubts.extend([best, baseline, chosen].into_iter().flatten().map(|series| Cell {
                    condition: row.condition.clone(),
                    format: row.format,
                    point: row.point.clone(),
                    series: series.clone(),
                }));
            }
        }
        doubts
    }

    /// Whether a cell is worth another run, which it is not if it is far slower than the best
    /// setting.
    fn is_near_the_best(&self, planned: &Planned) -> bool {
        if self.series(planned).is_some_and(|series| series.always) {
            return true;
        }
        let mut of_point: BTreeMap<&str, f64> = BTreeMap::new();
        for entry in self.journal.entries() {
            let same = entry.cell.condition == planned.cell.condition
                && entry.cell.format == planned.cell.format
                && entry.cell.point == planned.cell.point;
            if let (true, Outcome::Measured(measured)) = (same, &entry.result) {
                of_point.entry(&entry.cell.series).or_insert(measured.wall_s);
            }
        }
        let best = of_point.values().copied().fold(f64::INFINITY, f64::min);
        match of_point.get(planned.cell.series.as_str()) {
            Some(seconds) => *seconds <= best * self.grid.again,
            // Nothing was measured yet, so the estimates are used.
            None if of_point.is_empty() => {
                let same = |other: &&Planned| {
                    (&other.cell.condition, other.cell.format, &other.cell.point)
                        == (&planned.cell.condition, planned.cell.format, &planned.cell.point)
                };
                let least = self.cells.iter().filter(same).map(|other| other.estimate_s).fold(f64::INFINITY, f64::min);
                planned.estimate_s <= least * self.grid.again
            }
            None => true,
        }
    }

    fn series(&self, planned: &Planned) -> Option<&Series> {
        self.grid.series.get(planned.series)
    }

    async fn rounds(&mut self, storage: &mut Storage, end: Option<Instant>) -> Result<()> {
        let cells = std::mem::take(&mut self.cells);
        let done = self.measure_all(&cells, storage, end).await;
        self.cells = cells;
        done
    }

    async fn measure_all(&mut self, cells: &[Planned], storage: &mut Storage, end: Option<Instant>) -> Result<()> {
        let grid = self.grid.clone();
        let mut warm: BTreeSet<(DataFormat, usize)> = BTreeSet::new();
        let mut met: BTreeSet<u32> = BTreeSet::new();
        // With `--runs 1`, doubtful cells get no additional runs.
        let in_doubt = if grid.runs > 1 { grid.runs_in_doubt } else { 0 };
        for round in 0..grid.runs.max(in_doubt) {
            let doubts = (round >= grid.runs).then(|| self.doubts());
            // The series that was measured with each plan, at each point.
            let mut plans: BTreeMap<(usize, DataFormat, usize, String), String> = BTreeMap::new();
            for (index, planned) in in_turn(cells, round).into_iter().enumerate() {
                let is_left = match &doubts {
                    Some(doubts) => doubts.contains(&planned.cell) && !self.journal.has(&planned.cell, round),
                    None => self.is_left(planned, round),
                };
                if !is_left {
                    continue;
                }
                if end.is_some_and(|end| Instant::now() >= end) {
                    eprintln!("{}: the budget is used up; another run goes on here", self.name);
                    return Ok(());
                }
                let (Some(condition), Some(point), Some(series)) = (
                    grid.conditions.get(planned.condition),
                    grid.points.get(planned.point),
                    grid.series.get(planned.series),
                ) else {
                    bail!(Error::internal("a cell of no definition"));
                };
                let format = planned.cell.format;
                if warm.insert((format, planned.point)) {
                    storage.condition(0, None, None)?;
                    storage.prepare(&grid, format)?;
                    warm_up(&grid, storage, format, point, "fragment");
                }
                if condition.trouble.is_some() && met.insert(condition.mb_per_s) {
                    // Trouble begins only after the engine has measured the healthy node.
                    storage.condition(condition.mb_per_s, None, None)?;
                    ["none", "fragment"].into_iter().for_each(|level| warm_up(&grid, storage, format, point, level));
                }
                storage.condition(condition.mb_per_s, condition.trouble, condition.distance)?;
                let question = Question {
                    grid: &grid,
                    format,
                    kind: series.kind,
                    statement: grid.text(point)?,
                    settings: grid.settings(series, point)?,
                    round,
                };
                let plan = match series.kind {
                    Kind::Engine if grid.once_a_plan => storage.plan(question.clone()).ok(),
                    _ => None,
                };
                let plan = plan.map(|plan| (planned.condition, format, planned.point, plan));
                // A series that is always measured includes its planning, so it reuses no
                // measurement.
                let known = plan.as_ref().filter(|_| !series.always).and_then(|plan| plans.get(plan));
                let known = known.and_then(|known| self.measured(planned, round, known));
                if let Some(known) = known {
                    self.journal.add(known)?;
                    continue;
                }
                let result = storage.ask(question).with_context(|| condition.name.clone());
                let what = format!("{} {}; {}; {format}; {}", self.name, point.name, series.name, condition.name);
                let rounds = grid.runs.max(round + 1);
                let progress = format!("round {} of {rounds}, {}/{}", round + 1, index + 1, cells.len());
                let (result, bytes) = match result {
                    Ok(measured) => {
                        eprintln!("{progress} {what}: {:.3} s", measured.wall_s);
                        let bytes = measured.traffic.as_ref().map_or(0, |traffic| traffic.bytes);
                        (Outcome::Measured(measured), bytes)
                    }
                    Err(error) => {
                        eprintln!("{progress} {what}: {error:#}");
                        (Outcome::Failed(format!("{error:#}")), 0)
                    }
                };
                self.journal.add(Entry { cell: planned.cell.clone(), round, bytes, result, measured_as: None })?;
                plans.extend(plan.map(|plan| (plan, series.name.clone())));
                // Signals are noticed only here, since measuring blocks.
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    /// Returns the measurement of another series in this round with the same plan.
    fn measured(&self, planned: &Planned, round: u32, series: &str) -> Option<Entry<Cell>> {
        let cell = Cell { series: series.to_owned(), ..planned.cell.clone() };
        let same = |entry: &&Entry<Cell>| entry.round == round && entry.cell == cell;
        let entry = self.journal.entries().iter().rev().find(same)?;
        matches!(entry.result, Outcome::Measured(_)).then(|| Entry {
            cell: planned.cell.clone(),
            measured_as: Some(series.to_owned()),
            ..entry.clone()
        })
    }

    /// Writes the record.
    fn write(&mut self, record: &Path, host: &Host) -> Result<()> {
        let grid = &self.grid;
        let (mut results, wrong, failures) = Results::of(grid, self.journal.entries());
        results.say("title", &grid.title);
        results.say("date", date(std::time::SystemTime::now(), "%F"));
        results.say("machine", Machine::here().to_string());
        results.say("versions", &host.versions);
        results.say("scale", grid.scale.to_string());
        results.say("axis", &grid.axis);
        for why in &self.left_out {
            results.say("left out", why);
        }
        for (cell, why) in &failures {
            let why: String = why.chars().take(200).collect();
            let what = format!("{}; {}; {}; {}: {why}", cell.point, cell.series, cell.format, cell.condition);
            results.say("failed", &what);
            if grid.series.iter().any(|series| series.name == cell.series && series.kind == Kind::Engine) {
                self.failed.push(what);
            }
        }
        for why in &wrong {
            results.say("wrong", why);
        }
        // The values of the paper, for pictures.
        for claim in &grid.claims {
            if let (Some(paper), None, [over]) = (claim.paper, &claim.at, claim.over.as_slice()) {
                let points = claim.points.as_ref().map(|points| points.join("|")).unwrap_or_default();
                results.say("paper", format!("{}|{over}|{}|{paper}|{points}", claim.metric, claim.of));
            }
        }
        let csv = record.join(format!("{}.csv", self.name));
        std::fs::write(&csv, results.to_csv(grid)).with_context(|| csv.display().to_string())?;
        for verdict in verdicts(grid, &results) {
            let Some(claim) = grid.claims.get(verdict.claim) else { continue };
            let place = format!("{} {}", verdict.format, verdict.condition);
            eprintln!(
                "{}: {}: {:.2} ({place}, {} of {} points)",
                self.name, claim.about, verdict.value, verdict.points, verdict.of
            );
        }
        eprintln!("written to {}", csv.display());
        self.wrong = wrong;
        Ok(())
    }

    /// Returns an error for wrong rows and for failed queries of PushdownDB.
    fn judge(self) -> Result<()> {
        ensure!(self.wrong.is_empty(), Error::internal(format!("wrong rows: {}", self.wrong.join("; "))));
        ensure!(self.failed.is_empty(), Error::internal(format!("failed: {}", self.failed.join("; "))));
        Ok(())
    }
}

/// The cells in the order of a round. Every other round reverses the series of each point: the
/// series after one that moved much data finds cold caches, and this should not always be the same
/// series.
fn in_turn(cells: &[Planned], round: u32) -> Vec<&Planned> {
    let place = |planned: &Planned| (planned.condition, planned.cell.format, planned.point);
    let mut all = Vec::with_capacity(cells.len());
    for of_point in cells.chunk_by(|a, b| place(a) == place(b)) {
        if round.is_multiple_of(2) {
            all.extend(of_point);
        } else {
            all.extend(of_point.iter().rev());
        }
    }
    all
}

/// Whether the names of a cell, or of its grid, include one of each group.
fn wanted(only: &[String], grid: &str, cell: &Cell) -> bool {
    let format = cell.format.to_string();
    let names = [grid, &cell.condition, &format, &cell.point, &cell.series];
    only.iter().all(|group| group.split(',').any(|name| names.contains(&name)))
}

/// Reads objects into the page cache and builds the node's zones, so that the order of the series
/// does not matter.
fn warm_up(grid: &Grid, storage: &Storage, format: DataFormat, point: &Point, level: &str) {
    let settings = BTreeMap::from([("level".to_owned(), level.to_owned())]);
    let Ok(statement) = grid.text(point) else { return };
    // Errors are ignored, since the measurement fails as well and reports why.
    let _ = storage.ask(Question { grid, format, kind: Kind::Engine, statement, settings, round: 0 });
}

fn minutes(seconds: f64) -> String {
    format!("{:.0} minutes", (seconds / 60.0).ceil())
}
