//! Figures for Prometheus: of the pools, nodes, instances, stagings, and of the controller itself.
//!
//! Sums and node names only, nothing of a user: they are given to whoever asks. The driver counts; the text is made from
//! one look at the state.

use crate::cluster::effect::Answer;
use crate::cluster::event::{AgentMessage, Copied};
use crate::cluster::row::{StageOutcome, Subject, Tables};
use crate::cluster::{Refusal, State, view};
use crate::request::StageDirection;
use forebay_model::state::Goal;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// What was counted since the start.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    requests: BTreeMap<&'static str, u64>,
    answers: u64,
    refusals: u64,
    commits: u64,
    rows: u64,
    commit_s: f64,
    staged: BTreeMap<&'static str, (u64, u64)>,
    stages_failed: u64,
}

impl Figures {
    pub fn asked(&mut self, name: &'static str) {
        *self.requests.entry(name).or_default() += 1;
    }

    pub fn answered(&mut self, answer: &Result<Answer, Refusal>) {
        match answer {
            Ok(_) => self.answers += 1,
            Err(_) => self.refusals += 1,
        }
    }

    pub fn stored(&mut self, rows: usize, took: Duration) {
        self.commits += 1;
        self.rows += rows as u64;
        self.commit_s += took.as_secs_f64();
    }

    /// Counts what a staging copied, before the core takes the report.
    pub fn heard(&mut self, message: &AgentMessage, tables: &Tables) {
        let (task, copied) = match message {
            AgentMessage::Done { task, copied: Some(copied) } => (task, Some(*copied)),
            AgentMessage::Failed { task, .. } => (task, None),
            _ => return,
        };
        let Some(Subject::Stage(stage)) = tables.tasks.get(task).map(|row| &row.subject) else { return };
        let Some(stage) = tables.stages.get(stage) else { return };
        match copied {
            Some(Copied { files, bytes, .. }) => {
                let sum = self.staged.entry(word(stage.direction)).or_default();
                *sum = (sum.0.saturating_add(files), sum.1.saturating_add(bytes.0));
            }
            None => self.stages_failed += 1,
        }
    }
}

fn word(direction: StageDirection) -> &'static str {
    match direction {
        StageDirection::In => "in",
        StageDirection::Out => "out",
    }
}

/// A text of figures in the making.
struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "# HELP forebay_{name} {help}\n# TYPE forebay_{name} {kind}");
    }

    fn value(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "forebay_{name}{labels} {value}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
        self.family(name, kind, help);
        self.value(name, &[], value);
    }
}

/// The figures as text.
pub(super) fn render(state: &State, figures: &Figures) -> String {
    let mut page = Page(String::new());
    pools(&mut page, state);
    nodes(&mut page, state);
    objects(&mut page, state);
    stagings(&mut page, state, figures);
    controller(&mut page, state, figures);
    page.0
}

fn pools(page: &mut Page, state: &State) {
    let pools = view::pools(state);
    let of =
        |page: &mut Page, name: &str, help: &str, value: &dyn Fn(&forebay_model::objects::Pool) -> u64| {
            page.family(name, "gauge", help);
            for pool in &pools {
                page.value(name, &[("pool", &pool.name)], value(pool));
            }
        };
    of(page, "pool_granularity_bytes", "Size of a granule.", &|pool| pool.granularity.0);
    of(page, "pool_granules", "Granules of the pool.", &|pool| pool.quantity.0);
    of(page, "pool_free_granules", "Granules that are free.", &|pool| pool.free.0);
}

fn nodes(page: &mut Page, state: &State) {
    let rows: Vec<_> = state.tables().nodes.values().collect();
    page.family("node_online", "gauge", "Whether the agent of the node answers.");
    for row in &rows {
        page.value("node_online", &[("node", &row.name)], u64::from(row.online));
    }
    page.family("node_drain", "gauge", "Whether the node takes no new fragments.");
    for row in &rows {
        page.value("node_drain", &[("node", &row.name)], u64::from(row.drain));
    }
    let storage: Vec<_> = rows.iter().filter(|row| row.pool.is_some()).collect();
    page.family("node_capacity_bytes", "gauge", "Size of the disks of a storage node.");
    for row in &storage {
        page.value("node_capacity_bytes", &[("node", &row.name)], row.capacity.0);
    }
    page.family("node_fragments", "gauge", "Fragments on a storage node.");
    for row in &storage {
        page.value("node_fragments", &[("node", &row.name)], state.space_of(row).instances);
    }
    page.family(
        "node_written_bytes_total",
        "counter",
        "Bytes ever written to the disks of a storage node: its wear, and the rate is its bandwidth.",
    );
    for row in &storage {
        page.value("node_written_bytes_total", &[("node", &row.name)], state.space_of(row).bytes_written.0);
    }
}

fn objects(page: &mut Page, state: &State) {
    let tables = state.tables();
    page.family("instances", "gauge", "Instances by their state.");
    let mut counts: BTreeMap<&str, (u64, u64)> =
        ["ready", "coming", "going", "damaged", "failed"].into_iter().map(|word| (word, (0, 0))).collect();
    for row in tables.instances.values() {
        let word = match row {
            row if !row.intact => "damaged",
            row if row.state.goal == Goal::Destroy => "going",
            row if row.state.fuse_blown => "failed",
            row if row.state.actualized => "ready",
            _ => "coming",
        };
        let count = counts.entry(word).or_default();
        *count = (count.0 + 1, count.1.saturating_add(row.bytes.0));
    }
    for (word, (count, _)) in &counts {
        page.value("instances", &[("state", word)], count);
    }
    page.family("instance_bytes", "gauge", "Size of the instances by their state.");
    for (word, (_, bytes)) in &counts {
        page.value("instance_bytes", &[("state", word)], bytes);
    }
    page.one("sessions", "gauge", "Sessions.", tables.sessions.len());
    page.one("activations", "gauge", "Activations.", tables.activations.len());
    page.one("mounts", "gauge", "Mounts on client nodes.", tables.mounts.len());
}

fn stagings(page: &mut Page, state: &State, figures: &Figures) {
    page.family("staged_bytes_total", "counter", "Bytes that stagings copied since the start.");
    for direction in ["in", "out"] {
        let bytes = figures.staged.get(direction).map_or(0, |sum| sum.1);
        page.value("staged_bytes_total", &[("direction", direction)], bytes);
    }
    page.family("staged_files_total", "counter", "Files that stagings copied since the start.");
    for direction in ["in", "out"] {
        let files = figures.staged.get(direction).map_or(0, |sum| sum.0);
        page.value("staged_files_total", &[("direction", direction)], files);
    }
    let failures = figures.stages_failed;
    page.one("stage_failures_total", "counter", "Stagings that failed or were broken off.", failures);
    let rows = || state.tables().stages.values();
    let pending = rows().filter(|row| row.wanted && row.outcome == StageOutcome::Pending).count();
    page.one("stages_pending", "gauge", "Stagings that are to be done now.", pending);
    let failed = rows().filter(|row| matches!(row.outcome, StageOutcome::Failed { .. })).count();
    page.one("stages_failed", "gauge", "Stagings that failed and wait for somebody.", failed);
}

fn controller(page: &mut Page, state: &State, figures: &Figures) {
    let tasks = || state.tables().tasks.values();
    page.one("tasks", "gauge", "Orders to agents that are not known to be done.", tasks().count());
    let blown = tasks().filter(|task| task.blown).count();
    page.one("tasks_given_up", "gauge", "Orders that failed too often.", blown);
    page.family("requests_total", "counter", "Requests by their kind.");
    for (name, count) in &figures.requests {
        page.value("requests_total", &[("request", name)], count);
    }
    page.one("answers_total", "counter", "Requests that were carried out.", figures.answers);
    page.one("refusals_total", "counter", "Requests that were refused or failed.", figures.refusals);
    page.one("commits_total", "counter", "Transactions of the registry.", figures.commits);
    page.one("stored_rows_total", "counter", "Rows written to the registry.", figures.rows);
    page.one("commit_seconds_total", "counter", "Time spent in transactions.", figures.commit_s);
}
