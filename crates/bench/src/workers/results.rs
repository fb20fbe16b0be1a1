//! The measurements: the record as CSV, and a table.

use std::fmt::Write as _;

use crate::contestant::task::Measured;
use crate::record::aligned;
use crate::spread::Spread;

/// A query on a number of workers.
#[derive(Debug)]
struct Cell {
    workers: usize,
    query: String,
    runs: Vec<Measured>,
    /// CPU seconds of all workers, for each run.
    workers_cpu_s: Vec<f64>,
}

impl Cell {
    fn wall_s(&self) -> Option<Spread> {
        Spread::of(self.runs.iter().map(|run| run.wall_s))
    }

    fn bytes(&self) -> f64 {
        let bytes = self.runs.iter().filter_map(|run| Some(run.traffic.as_ref()?.bytes as f64));
        Spread::of(bytes).map_or(0.0, |spread| spread.median)
    }
}

/// All measurements.
#[derive(Debug, Default)]
pub struct Results(Vec<Cell>);

impl Results {
    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a measurement of `query` on a number of `workers`, which used `workers_cpu_s` CPU
    /// seconds.
    pub fn add(&mut self, workers: usize, query: &str, measured: Measured, workers_cpu_s: f64) {
        let is = |cell: &&mut Cell| cell.workers == workers && cell.query == query;
        if let Some(cell) = self.0.iter_mut().find(is) {
            cell.runs.push(measured);
            cell.workers_cpu_s.push(workers_cpu_s);
        } else {
            let (query, runs, workers_cpu_s) = (query.to_owned(), vec![measured], vec![workers_cpu_s]);
            self.0.push(Cell { workers, query, runs, workers_cpu_s });
        }
    }

    /// Describes answers that differ from the first one of their query.
    pub fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for cell in &self.0 {
            let first = self.0.iter().find(|other| other.query == cell.query).and_then(|other| other.runs.first());
            for run in &cell.runs {
                if let Some(how) = first.and_then(|first| run.answer.differs_from(&first.answer)) {
                    wrong.push(format!("{} on {}: {how}", cell.query, cell.workers));
                }
            }
        }
        wrong
    }

    /// Formats the record.
    pub fn csv(&self, about: &str) -> String {
        let columns = "workers,query,runs,wall_s,wall_s_min,wall_s_max,planner_cpu_s,workers_cpu_s,bytes";
        let mut text = format!("# {about}\n{columns}\n");
        for cell in &self.0 {
            let planner = Spread::of(cell.runs.iter().map(|run| run.cpu_s));
            let workers = Spread::of(cell.workers_cpu_s.iter().copied());
            let (Some(wall), Some(planner), Some(workers)) = (cell.wall_s(), planner, workers) else { continue };
            let _ = writeln!(
                text,
                "{},{},{},{:.3},{:.3},{:.3},{:.3},{:.3},{:.0}",
                cell.workers,
                cell.query,
                cell.runs.len(),
                wall.median,
                wall.min,
                wall.max,
                planner.median,
                workers.median,
                cell.bytes()
            );
        }
        text
    }

    /// Formats the seconds of each query by the number of workers, and the speed-up of the largest
    /// number over one process.
    pub fn table(&self) -> String {
        let mut counts: Vec<usize> = self.0.iter().map(|cell| cell.workers).collect();
        counts.sort_unstable();
        counts.dedup();
        let mut queries: Vec<&str> = self.0.iter().map(|cell| cell.query.as_str()).collect();
        queries.sort_unstable();
        queries.dedup();
        let seconds = |query: &str, count: usize| {
            let cell = self.0.iter().find(|cell| cell.query == query && cell.workers == count)?;
            Some(cell.wall_s()?.median)
        };
        let heads = counts.iter().map(|count| match count {
            1 => "one process, s".to_owned(),
            count => format!("{count} workers, s"),
        });
        let mut rows =
            vec![["query".to_owned()].into_iter().chain(heads).chain(["times as fast".to_owned()]).collect()];
        for query in queries {
            let cells =
                counts.iter().map(|count| seconds(query, *count).map(|s| format!("{s:.2}")).unwrap_or_default());
            let most = counts.last().and_then(|count| seconds(query, *count));
            let gain = seconds(query, 1).zip(most).map(|(one, most)| format!("{:.2}", one / most));
            rows.push(
                [query.to_owned()]
                    .into_iter()
                    .chain(cells)
                    .chain(gain.or_else(|| Some(String::new())))
                    .collect::<Vec<_>>(),
            );
        }
        aligned(&rows)
    }
}
